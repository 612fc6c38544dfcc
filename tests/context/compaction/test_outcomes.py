"""What came of a turn: it stands in the agent's own sentences, and anchors and scores decide whose stands first."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from statistics import fmean

import pytest

from codelet.context.compaction import CompactionSettings, compact
from codelet.context.compaction.history import History
from codelet.context.compaction.outcomes import is_sentence
from codelet.context.compaction.parsing import normalise, parse_messages
from codelet.context.compaction.score import find_anchors
from codelet.context.compaction.signals import outcome_strength
from codelet.context.tokens import estimate_message
from scripts.bench.context import readers
from tests.context.compaction.lists import Message, calling, result, segments_of, user


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def noise(number: int, lines: int = 60) -> str:
    return "\n".join(f"    entry_{number}_{n} = compute_{n % 13}(payload_{n % 7}, {n})" for n in range(lines))


def one_turn(number: int, closing: str) -> list[Message]:
    return [
        user(f"Look at part {number} now."),
        calling((f"c{number}", "read", {"path": f"src/part{number}.py"}), text="Looking."),
        result(f"c{number}", noise(number)),
        said(closing),
    ]


def size(messages: list[Message]) -> int:
    return sum(map(estimate_message, messages))


def text_of_all(messages: list[Message]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


def test_a_line_of_each_old_turn_tells_what_came_of_it():
    closings = [f"The queue of part {n} stalls because its lock is taken twice." for n in range(30)]
    messages = [message for n, closing in enumerate(closings) for message in one_turn(n, closing)]
    text = text_of_all(compact(messages, size(messages) // 5).messages)
    assert [closing for closing in closings if closing not in text] == []


def test_conclusions_in_a_long_turn_outlive_six_rounds():
    conclusions = [f"Batch {n} is lost because the worker of lane {n % 7} restarts." for n in range(60)]
    messages: list[Message] = [user("Find out why batches are lost.")]
    for number in range(300):
        told = conclusions[number // 5] if number % 5 == 2 else "Looking on."
        messages.append(calling((f"s{number}", "read", {"path": f"src/lane{number % 40}.py"}), text=told))
        messages.append(result(f"s{number}", noise(number, 25)))
    kept: list[Message] = []
    for start in range(0, len(messages), 100):
        kept = compact(kept + messages[start : start + 100], 13_000).messages
    text = text_of_all(kept)
    left = [conclusion in text for conclusion in conclusions]
    assert sum(left) >= 54 and sum(left[:20]) >= 16


def test_the_smaller_the_target_the_more_of_it_tells_what_came_of_things():
    """Sentences in common words: the coverage of names has no use for them, so that their share is what they get."""
    what = ["queue", "lock", "worker", "cache", "router"]
    how = ["stalls", "waits", "restarts", "drops a batch", "starves", "repeats itself", "stops"]
    told = [f"The {one} {does} because of the {other}." for one in what for does in how for other in what]
    messages: list[Message] = []
    for n in range(len(told) // 5):
        messages += one_turn(n, "\n".join(told[5 * n : 5 * n + 5]))

    def share(part: int) -> float:
        target = size(messages) // part
        text = text_of_all(compact(messages, target).messages)
        return sum(len(line) for line in told if line in text) / (4 * target)

    assert share(8) > 1.3 * share(4)


def test_steps_of_a_long_turn_are_counted_on_after_a_compaction():
    messages: list[Message] = [user("Go through all of it.")]
    for number in range(60):
        messages.append(
            calling((f"s{number}", "read", {"path": f"src/lane{number}.py"}), text=f"Lane {number} is done.")
        )
        messages.append(result(f"s{number}", noise(number, 12)))
    first = compact(messages[:61], 2_600)
    [segment] = segments_of(first.messages)
    assert ("steps", f"t1.{30 - first.report.kept_steps}") in segment.ledger
    second = segments_of(compact(first.messages + messages[61:], 2_600).messages)
    steps = [entry.step for own in second for entry in own.entries if not entry.is_words]
    assert steps and steps == sorted(steps) and max(steps) > 30


def test_an_anchor_makes_its_turns_words_stand_before_those_of_others():
    claims = {n: f"Part {n} is slow because its index is rebuilt for every row." for n in range(40)}
    plain = [message for n, closing in claims.items() for message in one_turn(n, closing)]
    fixed = list(plain)
    place = 4 * 3 + 3
    edit = [
        calling(("edit", "edit", {"path": "src/part3.py", "old": "a = 1", "new": "a = 2"})),
        result("edit", "The file src/part3.py has been updated."),
        said(f"Fixed. {claims[3]}"),
    ]
    fixed[place : place + 1] = edit
    reports = []
    for messages in (plain, fixed):
        made = compact(messages, 1_500)
        reports.append(claims[3] in text_of_all(made.messages))
    assert reports == [False, True]


def test_the_outcomes_of_anchors_stand_where_there_is_no_room_for_all():
    claims = {n: f"Part {n} is slow because its index {n} is rebuilt for every row that comes in." for n in range(90)}
    messages = [message for n, claim in claims.items() for message in one_turn(n, claim)]
    for number in (7, 19, 31):
        messages[4 * number] = user(f"We decided that part {number} stays.")
    left = text_of_all(compact(messages, 2_500).messages)
    assert [n for n in range(40) if claims[n] in left] == [7, 19, 31]


def test_without_anchors_and_score_decisions_are_lost(shared: Path, monkeypatch: pytest.MonkeyPatch):
    """Of the agent's sentences that tell a cause or a decision, as the ruler reads them, in an eighth of the room."""
    monkeypatch.syspath_prepend(Path(readers.__file__).parents[1])
    decisions = importlib.import_module("context.handover").decisions
    kept: dict[bool, list[float]] = {True: [], False: []}
    for transcript in readers.read_all(shared / "transcripts"):
        said_before = decisions(transcript.messages)
        for rated in kept if len(said_before) >= 15 else ():
            settings = CompactionSettings(rated=rated)
            made = compact(transcript.messages, size(transcript.messages) // 8, settings=settings)
            text = " ".join(text_of_all(made.messages).split())
            kept[rated].append(fmean(sentence in text for sentence in said_before))
    assert len(kept[True]) >= 3
    assert fmean(kept[True]) >= fmean(kept[False]) + 0.03


def test_causes_that_are_gone_stand_in_the_report():
    claims = [f"Part {n} is slow because its index {n} is rebuilt for every row that comes in." for n in range(90)]
    messages = [message for n, closing in enumerate(claims) for message in one_turn(n, closing)]
    made = compact(messages, 2_500)
    text = text_of_all(made.messages)
    gone = [claim for claim in claims if claim not in text]
    assert gone and made.report.loss.decisions_gone == len(gone)
    assert made.report.loss.decisions == tuple(gone[::-1][:20])


def test_anchors_are_those_that_a_person_marked(shared: Path):
    """`anchor_turns.json` holds which kinds of anchor a person saw in which turn of the transcripts."""
    labels = json.loads((Path(__file__).parent / "anchor_turns.json").read_text(encoding="utf-8"))
    right, wrong, seen = 0, 0, []
    for transcript in readers.read_all(shared / "transcripts"):
        parsed = parse_messages(normalise(transcript.messages).messages)
        found: dict[int, set[str]] = {}
        for anchor in find_anchors(parsed, History(parsed).executions):
            found.setdefault(anchor.turn, set()).add(anchor.kind)
        for turn, kinds in labels.get(transcript.name, {}).items():
            own = found.get(int(turn), set())
            right += len(own & set(kinds))
            wrong += len(own - set(kinds))
            if kinds:
                seen.append(bool(own & set(kinds)))
    assert sum(map(len, labels.values())) >= 150
    assert right / (right + wrong) >= 0.9
    assert fmean(seen) >= 0.8


@pytest.mark.parametrize("text", ["<local-command-caveat>You must not answer these.", "ok", "Let me see the file."])
def test_what_settles_nothing_is_no_anchor(text: str):
    parsed = parse_messages([user(text), said("I see.")])
    assert find_anchors(parsed, History(parsed).executions) == []


def test_what_a_long_turn_found_out_on_its_way_stands_beside_what_it_came_to():
    parts = "importer exporter scheduler renderer compiler loader printer resolver planner walker parser linker".split()
    messages = [user("Look at all of it now.")]
    for number, part in enumerate(parts):
        cause = f"The {part} is slow because its cache is rebuilt on every call."
        read = calling((f"c{number}", "read", {"path": f"src/part{number}.py"}), text=cause)
        messages += [read, result(f"c{number}", noise(number, 30))]
    messages.append(said("All of it works again now and is as it was before."))
    messages += [message for _ in range(4) for message in (user("And what of the rest?"), said("It is as it was."))]
    shown = text_of_all(compact(messages, 1_500).messages)
    assert sum(f"The {part} is slow because" in shown for part in parts) > len(parts) // 2
    assert "All of it works again now" in shown


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("It fails unmistakably everywhere", True),
        ("Fails unmistakably everywhere", False),  # three words
        ("It fails quite often so", False),  # too short
        ("It fails quite often so.", True),
        ("- It fails quite often so.", True),
        ("It is 1 2 3 4 5 6 7 8 9 0 so far", False),  # little of it is letters
        ("def fails(so, often, and, here): pass", False),
        ("It fails with these of all arguments {", False),
    ],
)
def test_what_reads_as_a_sentence(line: str, told: bool):
    assert is_sentence(line) is told


@pytest.mark.parametrize(
    ("line", "tells"),
    [
        ("Let me verify that the tests pass:", False),
        ("Good, now let me update what was removed.", False),
        ("Let's see which of the two fails.", False),
        ("Let me keep the cache, because the disk is slow.", True),
        ("The tests pass.", True),
        ("This lets me remove the lock.", False),
        ("What let the lock leak was the missing release.", True),
    ],
)
def test_what_is_only_announced_is_no_outcome(line: str, tells: bool):
    assert (outcome_strength(line) > 0) == tells
