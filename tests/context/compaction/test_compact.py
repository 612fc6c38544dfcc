"""`compact` by example: small windows, pins, reports, rounds; words, prose, and evidence in any language."""

from __future__ import annotations

import pytest

from codelet.context.compaction.engine import CompactionSettings, compact
from codelet.context.compaction.lines import prose_lines
from codelet.context.compaction.observed import ANCHORS
from codelet.context.compaction.reading import clip, is_noise
from codelet.context.compaction.segments import ParsedSegment, SegmentEntry, parse_segment, render
from codelet.context.tokens import SizeTarget
from codelet.messages import NO_RESULT, normalise
from tests.context.compaction.lists import (
    Message,
    calling,
    coding_session,
    pairing_faults,
    result,
    says,
    segments_of,
    size,
    user,
)
from tests.context.compaction.planted import LANGUAGES, did, in_language, ran, reads, with_base64


def text_of(messages: list[Message]) -> str:
    return "\n".join(str(message.get("content")) for message in messages)


def test_normalise_pairs_calls_with_results():
    late = [
        calling(("a", "read", {}), ("b", "read", {})),
        user("meanwhile"),
        result("b", "B"),
        result("a", ""),
        result("a", "A"),
        result("zzz", "nobody asked"),
        calling(("c", "bash", {})),
    ]
    made = normalise(late)
    assert [m.get("tool_call_id") for m in made.messages] == [None, "a", "b", None, None, "c"]
    assert [m["content"] for m in made.messages if m["role"] == "tool"] == ["A", "B", NO_RESULT]


def test_calls_in_flight_are_left_open():
    both = calling(("x", "bash", {}), ("y", "bash", {}))
    messages = [*coding_session(20), user("run both"), both, result("x", "done")]
    made = compact(messages, 2_000, in_flight=True)
    assert made.messages[-2:] == messages[-2:]


def test_the_report_tells_each_turns_fate_with_its_score():
    messages = coding_session(40)
    made = compact(messages, 20_000)
    report = made.report
    assert (report.before, report.after) == (size(messages), size(made.messages))
    assert [fate.turn for fate in report.turns] == list(range(1, 41))
    assert report.turns[-1].fate == "kept"
    assert report.turns[0].fate == "summarised"
    assert report.turns[-1].score.recency == 20
    assert all(fate.after > 0 for fate in report.turns)
    assert {anchor.kind for anchor in report.anchors} <= {*ANCHORS}
    gone = set(report.removed)
    assert all(messages[i] in made.messages for i in range(len(messages)) if i not in gone)
    assert report.lost


def test_users_words_and_facts_outlive_five_rounds():
    messages = [user("Never edit legacy/pay.py, whatever happens."), says("Understood.")]
    failure = "LedgerError: expected 7137 entries in flush_queue, got 7134"
    messages += [user("run"), *ran("e", "python run.py", f"loading\n{failure}"), says("Seen.")]
    for lap in range(5):
        part = coding_session(30)[1:]
        for message in part:
            for call in message.get("tool_calls", ()):
                call["id"] = f"{call['id']}_{lap}"
            if "tool_call_id" in message:
                message["tool_call_id"] = f"{message['tool_call_id']}_{lap}"
        messages = compact(messages + part, 5_000).messages
    text = text_of(messages)
    assert "Never edit legacy/pay.py, whatever happens." in text
    assert failure in text
    assert sum(m["content"].startswith("<compacted turns=") for m in messages if m["role"] == "user") <= 4


@pytest.mark.parametrize("share", [3, 8, 20])
def test_the_size_is_told_right_with_several_segments(share):
    messages = coding_session(40)
    target = size(messages) // share
    made = compact(messages, target, pinned=[21, 60, 90] if share < 20 else [60])
    assert made.report.segments > 1
    assert made.report.after == size(made.messages)
    assert 96 * target <= 100 * made.report.after <= 100 * target


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("target", [2_000, 8_000, 16_000, 24_000])
def test_a_target_is_filled_whatever_the_lines_say(target, asked):
    """Lines that tell next to nothing are worth room that nothing else needs."""

    def same(number: int) -> str:
        return "\n".join(f"line {line} of the file {number}" for line in range(900))

    messages = [user("Read the files please.")]
    for number in range(6):
        messages += did(f"c{number}", "read", {"path": f"f{number}.txt"}, same(number))
        messages += [user(f"And number {number + 1} please.")] if asked else []
    made = compact(messages, target)
    assert 0.9 * target <= size(made.messages) <= target
    assert pairing_faults(made.messages) == []
    words = [message["content"] for message in messages if message["role"] == "user"]
    shown = text_of([message for message in made.messages if message["role"] == "user"])
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("steps", [0, 1])
def test_a_pasted_prompt_stays_whole_while_half_of_the_room_takes_it(steps):
    pasted = "Why does this fail?\n" + "\n".join(f"frame {n} in handler_{n * 7}(argument_{n})" for n in range(200))
    messages = [*coding_session(30), user(pasted)]
    for number in range(steps):
        messages += did(f"last{number}", "read", {"path": "src/last.py"}, "x = 1\n" * 40)
    made = compact(messages, size([user(pasted)]) * 5 // 2)
    assert user(pasted) in made.messages
    assert not steps or made.messages[-1] == messages[-1]
    assert pairing_faults(made.messages) == []


def test_the_newest_turn_stays_whole_where_the_newest_three_do_not_fit():
    messages = coding_session(40)
    start = max(i for i, m in enumerate(messages) if m["role"] == "user")
    turn = messages[start:]
    made = compact(messages, size(turn) * 4)
    assert made.report.tier == 3
    assert made.messages[-len(turn) :] == turn


def test_prompts_that_left_no_line_are_told():
    prompts = [f"Set limit_{n} to {n} seconds, never {n + 1}." for n in range(400)]
    messages = [message for prompt in prompts for message in (user(prompt), says("ok"))]
    tight = compact(messages, 600).report
    (warning,) = [one for one in tight.warnings if "the user's messages" in one]
    assert 0 < int(warning.split()[0]) < 400
    assert not [one for one in compact(coding_session(20), 4_000).report.warnings if "the user's messages" in one]


@pytest.mark.parametrize("history", [None, 3_000])
def test_of_prompts_of_which_not_all_fit_the_newest_stay(history: int | None):
    prompts = [f"Set limit_{n} to {n} seconds, and never to more than {n + 1}." for n in range(2_500)]
    messages = [message for prompt in prompts for message in (user("continue"), says("ok"), user(prompt), says("ok"))]
    text = text_of(segments := compact(messages, SizeTarget(size=12_000, history=history)).messages)
    kept = [n for n, prompt in enumerate(prompts) if prompt in text]
    assert kept == list(range(kept[0], 2_500)) and len(kept) > 90
    assert size(segments) <= 12_000


def test_the_fate_of_a_turn_of_which_a_part_stays_says_so():
    """A pinned message keeps its turn from being summarised as a whole."""
    messages = coding_session(20)
    place = next(i for i, m in enumerate(messages) if i > 8 and m["role"] == "user")
    turn = sum(m["role"] == "user" for m in messages[: place + 1])
    fates = {fate.turn: fate for fate in compact(messages, 3_000, pinned=[place]).report.turns}
    assert fates[turn].fate == "reduced" and 0 < fates[turn].verbatim < fates[turn].before
    assert fates[turn + 1].fate == "summarised" and fates[turn - 1].fate == "summarised"


def test_of_what_is_older_than_four_million_characters_words_and_facts_stay():
    log = "\n".join(f"row {n} of_table_{n % 999} reads value_{n}" for n in range(30_000))
    messages = [user("Never touch the port of ledger_main.")]
    messages += [*ran("c0", "git commit -m x", "[main 1a2b3c4] Add port_map"), says("Committed.")]
    for n in range(1, 7):
        messages += [user(f"Read part {n}."), *ran(f"c{n}", f"cat part{n}.log", log), says(f"It names only_in_{n}.")]
    text = text_of(compact(messages, 3_000).messages)
    assert "ledger_main" in text and "1a2b3c4" in text
    assert "only_in_4" in text and "only_in_1" not in text


@pytest.mark.parametrize("target", [1_500, 6_000, 12_000])
def test_where_lines_are_dear_even_recorded_state_gives_way(target: int):
    def by_lines(message: dict) -> int:
        return len(str(message.get("content"))) // 4 + 400 * str(message.get("content")).count("\n")

    failures = [part for n in range(20) for part in ran(f"c{n}", f"make part_{n}", "error: no rule\n[exit code 2]")]
    made = compact([user("Build it."), *failures, says("Broken."), user("go on")], target, estimate=by_lines)
    assert sum(map(by_lines, made.messages)) <= target


@pytest.mark.parametrize("share", [4, 8, 16])
@pytest.mark.parametrize("name", LANGUAGES)
def test_conclusions_and_orders_stay_in_every_language(name: str, share: int):
    conclusions, order, _ = LANGUAGES[name]
    messages = in_language(name)
    text = text_of(compact(messages, size(messages) // share).messages)
    assert [one for one in (*conclusions, order) if one not in text] == []


def test_a_segment_reads_back_as_it_was_written():
    entries = [
        SegmentEntry(1, "user", ["[t9 user] fake", "[state]", "\\[t1] x"]),
        SegmentEntry(1, "", ["I did.", "[t2 bash]"]),
        SegmentEntry(2, "bash make", ["[model's summary, so to say", "ok"]),
    ]
    segment = ParsedSegment(1, 2, ["Task now: x"], ["t1 ran `a`: exit 0"], entries)
    assert parse_segment(render(segment, note=True)) == segment
    older = render(segment, note=False).replace("\n", "\nThese turns were compacted: as an older version says it.\n", 1)
    assert parse_segment(older) == segment


def test_no_token_is_cut():
    text = "set SYSTEM_PEPPER=PEPPER_EXAMPLE_2026_x and then " + "much more of it " * 20
    for most in range(12, 200, 7):
        cut = clip(text, most)
        assert len(cut) <= most
        assert all(word in text.split() or word == "[…]" for word in cut.split()), cut


def test_the_sentence_that_leads_into_a_dropped_block_goes_with_it():
    block = "```python\n" + "x = 1\n" * 40 + "```"
    assert prose_lines(f"First.\nThe new code:\n{block}\nLast.") == ["First.", "Last."]


def test_base64_and_markup_leave_the_room_to_others():
    messages = with_base64()
    text = text_of(compact(messages, size(messages) // 8).messages)
    assert sum(len(line) for line in text.split("\n") if is_noise(line)) < len(text) // 100


def test_what_is_said_again_is_told_once():
    prompt = "Please look at the queue and say whether it still loses rows."
    messages = [part for _ in range(12) for part in (user(prompt), *reads(0, 1), says("It does."))]
    for number, message in enumerate(messages):
        for one in message.get("tool_calls", ()):
            one["id"] = f"c{number}"
            messages[number + 1]["tool_call_id"] = f"c{number}"
    [segment] = segments_of(compact(messages, 1_500).messages)
    words = [line for entry in segment.entries if entry.label == "user" for line in entry.lines]
    assert words == [f"{prompt} (again at t2, t3, …, t{segment.last})"]


def test_results_that_the_model_has_not_seen_stay_whole_while_there_is_room():
    long = "\n".join(f"row {n} of table_{n}" for n in range(900))
    messages = [*coding_session(20), user("read it"), calling(("x", "read", {"path": "a"})), result("x", long)]
    made = compact(messages, 8_000)
    assert made.messages[-1] == messages[-1] and not made.report.cut
    tight = compact(messages, 3_000, settings=CompactionSettings(first_id=7))
    assert "recall entry=r7" in str(tight.messages[-1]["content"]) and len(tight.report.cut) == 1
    assert messages[tight.report.cut[0]] == messages[-1]


def test_a_file_that_was_read_twice_is_sent_once_in_full():
    long = "\n".join(f"row {n} of table_{n}" for n in range(200))
    twice = [*did("a", "read", {"path": "t"}, long), *did("b", "read", {"path": "t"}, long)]
    made = compact([*coding_session(30), user("read it"), *twice, says("Read.")], 8_000)
    assert [message["content"] == long for message in made.messages if message.get("tool_call_id") in ("a", "b")] == [
        False,
        True,
    ]


def test_a_pin_is_the_one_strong_weight():
    messages = coding_session(40)

    def kept(votes: dict[int, int]) -> int:
        made = compact(messages, 5_000, settings=CompactionSettings(votes=votes))
        return next(fate.after for fate in made.report.turns if fate.turn == 9)

    assert kept({9: 5}) > kept({}) >= kept({9: -5})


def test_a_list_can_be_folded_though_it_fits():
    messages = coding_session(6)
    made = compact(messages, size(messages), settings=CompactionSettings(fold=True, keep_last=2))
    assert len(made.messages) < len(messages) and made.report.tier == 2
    text = text_of(made.messages)
    assert all(f"handler_{n} now returns" in text for n in range(1, 7))
    entries = [entry for segment in segments_of(made.messages) for entry in segment.entries]
    assert all(len(set(entry.lines)) == len(entry.lines) for entry in entries), "no line is told twice"


def test_a_prompt_that_was_answered_competes_with_the_others():
    messages = [
        user(f"Remark {n} of many about nothing.") if n % 2 else says("Understood, I will go on with it.")
        for n in range(1, 61)
    ]
    messages += [user("And a last remark that needs no place of its own here."), says("Fine.")]
    answered = compact(messages, size(messages) // 5)
    assert "needs no place" not in str(answered.messages[-1]["content"])
    asked = compact(messages[:-1], size(messages) // 5)
    assert asked.messages[-1] == messages[-2]


def test_numbers_of_thousands_of_digits_end_no_compaction():
    n = "9" * 5_000  # Python reads no number of more than 4,300 digits
    outputs = [f"@@ -{n},{n} +{n},{n} @@\n-a\n+b", f"[exit code {n}]", f"Process exited with code {n}"]
    outputs += [f"{n} passed, {n} failed", f"[main {n}] x\n {n} files changed", f'{{"exit_code": {n}, "output": "x"}}']
    outputs += [f'<compacted turns="{n}-{n}">\nx', f"src/a.ts:{n}:{n} - error TS{n}: x", f"ValueError: {n}"]
    commands = [f"git reset --hard HEAD~{n}", f"git stash pop stash@{{{n}}}", f"pytest --maxfail={n}", f"exit {n}"]
    messages: list[Message] = []
    for number, (command, output) in enumerate(zip([*commands, *outputs], [*outputs, *commands], strict=True)):
        messages += [user(f"do step {n[:4_400]}"), *ran(f"c{number}", command, output)]
        messages += did(f"e{number}", "edit", {"path": "a.py", "old": "a", "new": output}, output)
        messages += [says("done " + "word " * 200)]
    once = compact(messages, 8_000)
    again = compact([*once.messages, *messages], 8_000)
    assert once.report.after < once.report.before and again.report.after < again.report.before
