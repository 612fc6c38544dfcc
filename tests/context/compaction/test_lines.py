"""Which lines of the old messages a summary keeps: what bears on that is seen in the text that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from codelet.context.asked import Size
from codelet.context.compaction import CompactionSettings, compact
from tests.context.compaction.lists import Message, calling, coding_session, result, says, segments_of, user
from tests.context.conftest import Open

PLAIN = "The folder below was looked at yesterday."
DECIDED = "We decided that the folder below is kept."
LINES = 300


def file_of(name: str) -> str:
    """Lines that are alike but for the names in them: each tells as much as any other."""
    return "\n".join(f"    {name}_row_{n:03} = load_{name}_{n:03}(width_{name}_{n:03})" for n in range(LINES))


def run(name: str, output: str) -> list[Message]:
    """A file is written, and a test is run."""
    write = calling((f"w{name}", "write", {"path": f"tests/{name}.py", "content": "assert True"}))
    test = calling((f"t{name}", "bash", {"command": f"pytest -q tests/{name}.py"}))
    return [write, result(f"w{name}", "ok"), test, result(f"t{name}", output)]


def twins(said: tuple[str, str] = (PLAIN, PLAIN), ran: tuple[str, str] | None = None, last: str = "Go on.") -> list:
    """Turns 31 and 32 among others, alike but for their prompts, the output of their tests, and the names in them."""
    messages = coding_session(30)
    for number, name in enumerate(("alder", "beech")):
        messages += [user(said[number]), calling((name, "read", {"path": f"src/{name}.py"}))]
        messages += [result(name, file_of(name)), *(run(name, ran[number]) if ran else ()), says("I have read it.")]
    return [*messages, *coding_session(4)[1:], user(last)]


def shown(messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """How many lines of each twin's file stand in a list."""
    text = str([message["content"] for message in messages])
    older, newer = (sum(f"load_{name}_{n:03}(" in text for n in range(LINES)) for name in ("alder", "beech"))
    return older, newer


def lines_of_twins(messages: list[Message], **settings: dict[int, int]) -> tuple[int, int]:
    """The same of the compacted list; there is no room for both files."""
    older, newer = shown(compact(messages, 6_000, settings=CompactionSettings(**settings)).messages)
    assert LINES <= older + newer < 2 * LINES
    return older, newer


def test_of_turns_that_are_alike_the_newer_ones_lines_are_kept():
    older, newer = lines_of_twins(twins())
    assert newer == LINES > 2 * older


@pytest.mark.parametrize(
    "messages",
    [
        twins(said=(DECIDED, PLAIN)),
        twins(ran=("3 passed\n[exit code 0]", "3 passed")),
        twins(last="Do it once more as in step 31."),
    ],
    ids=["decision", "task done", "pointed at"],
)
def test_the_lines_of_a_turn_that_matters_more_go_first(messages):
    older, newer = lines_of_twins(messages)
    assert older == LINES > 2 * newer


def test_what_the_user_says_of_a_turn_decides_between_turns_that_are_alike():
    assert lines_of_twins(twins(), feedback={31: 5})[0] == LINES
    assert lines_of_twins(twins(), feedback={32: -5})[0] == LINES
    decided = twins(said=(DECIDED, DECIDED))
    assert lines_of_twins(decided, feedback={32: -5})[1] == LINES, "it takes nothing from a decision"


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ("That was it.", 5),
        ("yes, that fixed it! ", 5),
        ("Exactly.", 5),
        ("No, that was not it.", -5),
        ("that didn't help.", -5),
        ("That is it not.", 0),
        ("Exactly why is it so?", 0),
        ("Is that what was it?", 0),
    ],
)
def test_that_was_it_counts_for_the_turn_before(words: str, counts: int):
    messages = twins(said=(PLAIN, f"{words} {PLAIN}"))
    made = compact(messages, 6_000)
    assert {fate.turn: fate.score.feedback for fate in made.report.turns}[31] == counts
    older, newer = lines_of_twins(messages)
    assert (older if counts > 0 else newer) == LINES


async def test_a_pin_and_a_drop_decide_between_turns_that_are_alike(open_session: Open):
    session, _ = open_session(window=100_000)
    session.adopt(twins())

    def place_of(words: str) -> int:
        return max(place for place, message in enumerate(session.messages) if words in str(message["content"]))

    def made() -> tuple[list[int], bool]:
        """What the user did about each twin, and whether the older one's lines stand where the newer one's did."""
        tiers, conversation = session.compactor.tiers, session.conversation
        result = tiers.compacted(conversation.snapshot(), "asked", "keep it", Size(tokens=6_500))
        older, newer = shown(result.messages)
        return [fate.score.feedback for fate in result.report.turns][30:32], older > 2 * newer

    assert made() == ([0, 0], False)
    session.compactor.pin(place_of(PLAIN) - 4)
    assert session.compactor.pins and made() == ([5, 0], True)
    session.compactor.unpin(session.compactor.pins[0])
    assert made() == ([0, 0], False)
    answer = place_of("I have read it.")
    assert session.compactor.drop(answer) == [answer]
    assert made() == ([0, -5], True)
    assert session.compactor.undo() is not None
    assert made() == ([0, 0], False)
    session.compactor.drop(place_of(PLAIN))
    assert made()[0][0] == 0, "what stood behind a prompt belongs to another turn now"


def test_words_of_the_prompt_point_at_the_turn_that_they_mean():
    decided = {"said": (DECIDED, PLAIN), "ran": ("3 passed", "3 passed\n[exit code 0]")}
    assert lines_of_twins(twins(**decided))[1] == LINES, "a test that passed counts for more"
    assert lines_of_twins(twins(**decided, last="Hold on to that decision."))[0] == LINES
    failed = {"ran": ("ValueError: it is closed\n[exit code 1]", "3 passed")}
    assert lines_of_twins(twins(**failed), feedback={32: 5})[1] == LINES
    assert lines_of_twins(twins(**failed, last="What of the earlier error?"), feedback={32: 5})[0] == LINES


def test_a_turn_below_the_least_score_gives_no_lines():
    turns = compact(twins(said=(DECIDED, PLAIN)), 6_000, settings=CompactionSettings(minimum_score=18)).report.turns
    old = [turn for turn in turns if turn.fate == "summarised"]
    assert len(old) > 30 and [turn.turn for turn in old if turn.lines] == [31]


@pytest.mark.parametrize("words", [("error:", "state:"), ("never", "often")])
def test_lines_that_report_an_error_or_state_a_rule_go_before_others_of_their_kind(words: tuple[str, str]):
    """There are far more of them than the few that stand as facts, and room for about half of the log."""
    log = [f"{words[n % 2]} field_{n:03} of record_{n:03} has value_{n:03}" for n in range(800)]
    messages = [user("Run it."), calling(("c", "bash", {"command": "./import"})), result("c", "\n".join(log))]
    made = compact([*messages, says("I see."), *coding_session(4)[1:]], 8_000)
    text = str([message["content"] for message in made.messages])
    telling, others = (sum(line in text for line in log[first::2]) for first in (0, 1))
    assert telling + others > 300 and telling > 2 * others


def test_rules_that_were_cut_are_told_as_lost_and_those_that_stand_are_not():
    padding = "and this is what was said about it at some length on that day, " * 6
    rules = [f"The importer must keep column_{number} of the table." for number in range(60)]
    messages: list[Message] = []
    for rule in rules:
        messages += [user(f"{padding}\n{rule}\n{padding}"), says("Done.")]
    made = compact(messages, 2_700)
    text = str([message["content"] for message in made.messages])
    lost = [rule for rule in rules if rule not in text]
    assert 0 < len(lost) < 20
    assert made.report.loss.rules == tuple(lost)


def earlier(number: int, lines: int) -> Message:
    """A segment from an earlier compaction that stands for one turn and quotes so many lines."""
    body = "\n".join(f"total_{number}_{n} = count_{number}_{n}(rows)" for n in range(lines))
    return user(f'<compacted turns="{number}-{number}">\n[t{number} user] request {number}\n[t{number}]\n{body}')


@pytest.mark.parametrize(("sizes", "kept"), [([2] * 9, 4), ([2, 2, 300, 2, 2], 2), ([90, 90, 90], 1)])
def test_the_newest_few_segments_stay_as_they_are_while_they_are_small(sizes: list[int], kept: int):
    segments = [earlier(number, lines) for number, lines in enumerate(sizes, 1)]
    made = compact([*segments, *coding_session(20)[1:]], 6_000)
    assert [message for message in segments if message in made.messages] == segments[len(segments) - kept :]
    assert len(segments_of(made.messages)) == kept + 2, "the merged ones before them, the old turns behind them"
    assert all(f"request {number}" in str(made.messages) for number in range(1, len(sizes) + 1))


def test_a_segment_that_quotes_what_an_edit_took_out_is_written_anew():
    edit = {"path": "src/rows.py", "old_string": "total_1_0 = count_1_0(rows)", "new_string": "total_1_0 = 0"}
    later = [user("Mend it."), calling(("e", "edit", edit)), result("e", "ok"), says("Done.")]
    made = compact([earlier(1, 2), earlier(2, 2), *later, *coding_session(20)[1:]], 6_000)
    text = str([message["content"] for message in made.messages])
    assert "count_1_0(rows)" not in text and "count_1_1(rows)" in text
    assert earlier(2, 2) in made.messages and earlier(1, 2) not in made.messages


def summary_of(messages: list[Message], target: int = 6_000) -> str:
    """The text of the messages once there is another session behind them, and all of it is compacted."""
    made = compact([*messages, *coding_session(20, steps=2)[1:]], target)
    return "\n".join(str(message["content"]) for message in made.messages)


def test_an_error_that_a_command_printed_stands_among_lines_that_tell_more():
    log = [f"load_{n}(src/part_{n}.py, width_{n}, height_{n}, depth_{n})" for n in range(900)]
    log[450] = "error: it is so"
    ran = [user("Run it."), calling(("c", "bash", {"command": "./import"})), result("c", "\n".join(log))]
    assert "error: it is so" in summary_of([*ran, says("I see.")])
    log[450] = "state: it is so"
    ran[2] = result("c", "\n".join(log))
    assert "it is so" not in summary_of([*ran, says("I see.")])


@pytest.mark.parametrize("gone", [True, False])
def test_lines_of_a_file_that_a_command_deleted_are_not_quoted(gone: bool):
    remove = calling(("r", "bash", {"command": "rm src/old.py" if gone else "ls src/old.py"}))
    text = "\n".join(f"old_row_{n} = load_old_{n}(width_old_{n})" for n in range(30))
    messages = [user("Look."), calling(("c", "read", {"path": "src/old.py"})), result("c", text)]
    messages += [user("Away with it."), remove, result("r", "[exit code 0]"), says("Done.")]
    assert ("load_old_7" in summary_of(messages)) is not gone


@pytest.mark.parametrize("changed", [True, False])
def test_a_status_from_an_earlier_segment_says_that_files_changed_since(changed: bool):
    before = user('<compacted turns="1-1">\nstatus: tests passed (t1): pytest -q\n[t1 user] Run them.')
    write = calling(("w", "write" if changed else "read", {"path": "src/a.py"}))
    text = summary_of([before, *([earlier(2, 2)] * 5), user("Go on."), write, result("w", "ok"), says("Done.")])
    told = "tests passed (t1, files changed since): pytest -q" if changed else "tests passed (t1): pytest -q"
    assert f"status: {told}" in text


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_lines_of_a_log_that_report_no_trouble_leave_the_room_to_others(level: str):
    log = [
        f"2026-03-01T09:33:{n:02d}Z {level} job_{n} req={n * 7919 % 99991:08x} from 10.0.{n}.{n * 3 % 97}:4{n:04d}"
        for n in range(60)
    ]
    log[30] = log[30].replace(level, "WARN")
    code = [f"def part_{n}_{n * 7907 % 991:x}(size_{n}: int, name: str) -> int:" for n in range(60)]
    messages = [
        user("Look at both."),
        calling(("a", "read", {"path": "parts.py"})),
        result("a", "\n".join(code)),
        calling(("b", "bash", {"command": "cat app.log"})),
        result("b", "\n".join(log)),
        {"role": "assistant", "content": "Both are there."},
        user("Go on."),
    ]
    text = str(compact(messages, 1_000).messages)
    kept = sum(line in text for line in code)
    assert kept > 20 and log[30] in text
    assert sum(line in text for line in log) < kept // 2
