"""`compact` by example: small windows, broken lists, pins, drops, reports, rounds."""

from __future__ import annotations

import pytest

from codelet.context.compaction.engine import compact
from codelet.context.compaction.observed import ANCHORS
from codelet.messages import NO_RESULT, normalise
from tests.context.compaction.lists import (
    calling,
    coding_session,
    pairing_faults,
    result,
    says,
    size,
    user,
)


def text_of(messages: list[dict]) -> str:
    return "\n".join(str(m.get("content")) for m in messages)


def ran(call_id: str, command: str, output: str) -> list[dict]:
    return [calling((call_id, "bash", {"command": command})), result(call_id, output)]


def test_a_list_that_just_fits_stays_and_one_that_just_does_not_gets_smaller():
    messages = coding_session(20)
    assert compact(messages, size(messages)).messages == messages
    assert size(compact(messages, size(messages) - 1).messages) < size(messages)


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
    messages = [
        *coding_session(20),
        user("run both"),
        calling(("x", "bash", {}), ("y", "bash", {})),
        result("x", "done"),
    ]
    made = compact(messages, 2_000, in_flight=True)
    assert made.messages[-2:] == messages[-2:]


def test_pinned_turns_stay_verbatim_a_call_with_its_results():
    messages = coding_session(40)
    said = next(i for i, m in enumerate(messages) if "handler_5 " in str(m.get("content")))
    call = next(i for i, m in enumerate(messages) if m.get("tool_calls") and i > 40)
    made = compact(messages, 4_000, pinned=[said, call])
    assert messages[said] in made.messages
    place = made.messages.index(messages[call])
    assert made.messages[place + 1] == messages[call + 1]
    assert pairing_faults(made.messages) == []


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
    messages += [user("run"), calling(("e", "bash", {"command": "python run.py"}))]
    messages += [result("e", "loading\nLedgerError: expected 7137 entries in flush_queue, got 7134"), says("Seen.")]
    messages += [
        calling(("p", "read", {"path": "services/ledger/rates_v7.toml"}), text="Rates."),
        result("p", "base = 3"),
    ]
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
    assert "LedgerError: expected 7137 entries in flush_queue, got 7134" in text
    assert sum(m["content"].startswith("<compacted turns=") for m in messages if m["role"] == "user") <= 4


def test_a_correction_stands_behind_what_it_corrects_and_neither_is_judged():
    messages = [user("Use port 8101 for the gateway."), says("ok")]
    messages += [user("Actually, use port 9401 for the gateway instead."), says("ok"), *coding_session(30)[1:]]
    text = text_of(compact(messages, 6_000).messages)
    assert "superseded" not in text
    assert 0 < text.index("[t1 user] Use port 8101") < text.index("[t2 user] Actually, use port 9401")


def test_an_estimate_of_ones_own_is_kept_to():
    messages = coding_session(40)

    def bytes_and_more(message: dict) -> int:
        return len(str(message).encode()) // 3 + 11

    made = compact(messages, 5_000, estimate=bytes_and_more)
    used = sum(map(bytes_and_more, made.messages))
    assert 4_500 <= used <= 5_000


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
        messages += [calling((f"c{number}", "read", {"path": f"f{number}.txt"})), result(f"c{number}", same(number))]
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
        messages += [
            calling((f"last{number}", "read", {"path": "src/last.py"})),
            result(f"last{number}", "x = 1\n" * 40),
        ]
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
    assert (tight.words_each or 99) < 60 and 0 < int(warning.split()[0]) < 400
    assert not [one for one in compact(coding_session(20), 4_000).report.warnings if "the user's messages" in one]


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
