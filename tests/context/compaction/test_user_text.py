"""The user's prompts in a segment: as much of each as there is room for, and what tells most first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codelet.context.compaction.segments import REQUESTS, USER, SegmentEntry, heading
from codelet.context.compaction.user_text import (
    EarlierPrompt,
    FittedPrompts,
    WeighedWords,
    clip,
    fit_prompts,
    one_line_each,
    sentences,
)

TEXTS = st.lists(st.integers(1, 900).map(lambda size: (f"word_{size} and more. " * 60)[:size]), min_size=1, max_size=6)


def prompts(*texts: str) -> list[EarlierPrompt]:
    return [EarlierPrompt(turn, text) for turn, text in enumerate(texts, 1)]


def rendered(entries: list[SegmentEntry]) -> int:
    """Characters of the entries as a segment shows them: a heading line, unless it is the list of requests."""
    lines = [
        line for e in entries for line in ([] if e.label == REQUESTS else [heading(e.turn, e.label)]) + list(e.lines)
    ]
    return sum(len(line) + 1 for line in lines)


def whole_size(said: list[EarlierPrompt]) -> int:
    """What all of them take verbatim."""
    return rendered([SegmentEntry(one.turn, USER, one.text.split("\n")) for one in said])


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.integers(40, 4_000), st.integers(0, 2_000))
def test_what_is_fitted_has_the_size_that_it_says_and_fits(texts: list[str], budget: int, more: int):
    said, room = prompts(*texts), budget + more
    fitted = fit_prompts(said, budget, room)
    assert fitted.size() == rendered(fitted.entries) <= room
    assert fitted.mode in ("verbatim", "head and tail", "head", "stubs")
    if fitted.mode != "stubs":
        assert [entry.turn for entry in fitted.entries] == [one.turn for one in said] and fitted.left_out == 0
        cut = dict(fitted.cut)
        for position, (one, entry) in enumerate(zip(said, fitted.entries, strict=True)):
            head, gap, tail = "\n".join(entry.lines).partition(" […]")
            assert bool(gap) == (position in cut)
            assert head + cut.get(position, "") + tail.removeprefix(" ") == one.text


def test_nothing_said_is_nothing():
    assert fit_prompts([], 100, 100) == FittedPrompts()


def test_verbatim_to_the_last_character():
    said = prompts("a" * 200, "b\nc")
    size = whole_size(said)
    assert fit_prompts(said, size, size).mode == "verbatim"
    assert fit_prompts(said, size - 1, size - 1).mode == "head and tail"


def test_short_prompts_stay_whole_and_the_long_ones_share_the_rest():
    said = prompts("x" * 50, "y" * 2_000, "z" * 2_000)
    fitted = fit_prompts(said, 1_250, 1_250)
    short, *long = ["\n".join(entry.lines) for entry in fitted.entries]
    assert short == "x" * 50 and fitted.mode == "head and tail"
    assert len(long[0]) == len(long[1]) and 1_240 <= fitted.size() <= 1_250
    assert [position for position, _ in fitted.cut] == [1, 2]


def test_the_heads_may_take_the_rest_of_the_room():
    said = prompts(*("y" * 2_000 for _ in range(4)))
    heads = fit_prompts(said, 100, 5_000)
    assert heads.mode == "head"
    assert [len("\n".join(entry.lines)) for entry in heads.entries] == [160] * 4
    assert fit_prompts(said, 100, 400).mode == "head"
    assert fit_prompts(said, 100, 150).mode == "stubs"


@pytest.mark.parametrize(
    ("cap", "head", "tail"),
    [(1_000, 1_000, 0), (999, 666, 328), (240, 160, 75), (185, 160, 20), (184, 184, 0), (100, 100, 0), (60, 60, 0)],
)
def test_the_head_gets_two_thirds_and_a_tail_only_where_it_says_something(cap: int, head: int, tail: int):
    text = "".join(chr(97 + n % 26) for n in range(1_000))
    assert clip(text, cap) == (text[:head], text[1_000 - tail :])


def test_a_sentence_ends_at_its_mark_or_line():
    assert sentences("One. Two!  Is it 3.5?\n\n yes; no") == ["One.", "Two!", "Is it 3.5?", "yes;", "no"]


def test_words_go_in_the_order_of_what_they_tell():
    """Values and names outlive negations and bounds, those plain words, those what many messages share; fillers go."""
    text = "Please would you never reboot the bridge on v84430 after a Lisbon deploy"
    words = WeighedWords.of(text, {"reboot": 4, "deploy": 9})
    order = ["v84430", "never", "Lisbon", "bridge", "reboot", "deploy"]
    shown = [words.abridged(cap).split() for cap in range(4, 90)]
    first = {word: next(place for place, kept in enumerate(shown) if word in kept) for word in order}
    assert first["never"] == 1 and first["v84430"] == 2, "a shorter word fits sooner"
    assert [first[word] for word in order[1:]] == sorted({first[word] for word in order[1:]})
    assert not {"would", "the", "a", "on"} & set(shown[-1])
    for cap, kept in zip(range(4, 90), shown, strict=True):
        assert len(" ".join(kept)) <= cap
        assert kept == [word for word in text.split() if word in kept] or len(kept) == 1
    assert WeighedWords.of("8443", {}).abridged(4) == "8443"


def test_a_text_of_fillers_alone_keeps_its_beginning():
    words = WeighedWords.of("it is what it is and that is it", {})
    assert words.count == 0
    assert words.abridged(10) == "it is what"
    assert words.abridged(99) == "it is what it is and"


def test_a_message_repeats_where_two_thirds_of_its_words_are_in_three_messages():
    common = {"alpha": 3, "beta": 3, "gamma": 2}
    assert WeighedWords.of("alpha beta gamma", common).repeats(common)
    assert not WeighedWords.of("alpha gamma delta", common).repeats(common)
    assert not WeighedWords.of("gamma gamma", common).repeats(common)


def test_a_request_of_several_words_that_was_made_twice_is_no_repetition():
    wanted = "if the command has more than 1 line, ask for the approval once, then run all of them"
    pasted = [f"Aider v0.{n} Main model number {n} Repo-map using {n} tokens of the window" for n in range(12)]
    lines, _ = one_line_each([*pasted[:6], wanted, *pasted[6:], wanted, "go on", "go on"], 300)
    assert wanted in lines
    assert "go on" not in lines[: lines.index(wanted)]


def test_of_heads_what_lays_something_down_stands_whole_and_none_is_shorter_than_can_be_read():
    orders = [
        "before a command runs, add it to the history of what was typed, as `/run COMMAND`",
        "the retries of a delivery must never take more than 45 s, the gateway cuts there",
        "write token counts of ten thousand and more without a point, as 11k, not 11.2k",
    ]
    pasted = [f"Loaded the plugins. {word} was found and is up to date. " * 6 for word in ("Alpha", "Beta", "Gamma")]
    said = [EarlierPrompt(turn, text) for turn, text in enumerate([*pasted, *orders])]
    made = fit_prompts(said, 100, 530)
    assert made.mode == "head"
    shown = ["\n".join(entry.lines) for entry in made.entries]
    assert shown[3:] == orders
    assert all(
        text.startswith(whole[:60]) and text.endswith(" […]") for text, whole in zip(shown, pasted, strict=False)
    )
    assert 480 < made.size() <= 530


def test_the_same_message_is_one_line_and_its_room_is_kept():
    lines, left_out = one_line_each(["Use  tabs\nhere.", "Use tabs here.", "", "Never log names."], 200)
    assert (lines, left_out) == (["Use tabs here.", "Never log names."], 0)
    for room in range(200):
        lines, left_out = one_line_each(["Use tabs in src/a.py.", "Never log names.", "Hm, go on please."], room)
        assert sum(len(line) + 1 for line in lines) <= max(room, 0) + 1
        assert len(lines) + left_out == 3


def test_what_is_laid_down_comes_before_talk_and_what_many_share_goes_first():
    talk = [f"Please look at the importer again, colleague {name}" for name in ("anna", "ben", "cleo", "dora")]
    said = [*talk, "The limit is 512 MB and never more."]
    for room in (12, 24, 40, 60):
        lines, _ = one_line_each(said, room)
        assert any("512" in line for line in lines), room
    lines, left_out = one_line_each(said, 120)
    assert left_out == 0 and "The limit is 512 MB and never more." in lines
    assert all(name in " ".join(lines) for name in ("anna", "ben", "cleo", "dora"))
    assert " ".join(lines).count("importer") < 4


def test_what_is_left_of_the_room_is_used_where_a_little_less_than_a_line_fits():
    assert one_line_each(["bravado charlie"], 8) == (["bravado"], 0)
    assert one_line_each(["bravado charlie"], 9) == (["bravado"], 0)
    assert one_line_each(["bravado charlie"], 16) == (["bravado charlie"], 0)
    assert one_line_each(["bravado charlie"], 5) == ([], 1)


def test_a_prompt_that_just_fits_is_not_cut():
    said = prompts("x" * 300, "y" * 1_000)
    frame = sum(len(heading(one.turn, USER)) + 2 for one in said)
    fitted = fit_prompts(said, frame + 600, frame + 600)
    assert fitted.entries[0].lines == ["x" * 300]
    assert [position for position, _ in fitted.cut] == [1]


def test_a_request_that_lays_nothing_down_has_up_to_eighty_characters_of_its_words():
    said = "Please change the width of the frame around the upper picture and then tell me what became of the lower one"
    assert one_line_each([f"{said} beside it"], 100) == (
        ["change width frame upper picture tell became lower one beside"],
        0,
    )
