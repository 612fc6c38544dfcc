"""The five documents and the card that the product was asked for: each of their 189 items, by `seeds.md`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from codelet import events
from codelet.context.compaction.engine import compact
from codelet.context.tokens import estimate_message
from codelet.export.decode import from_json
from codelet.export.encode import Encoder, to_json
from codelet.loop.session import Session
from codelet.messages import assistant, reminder_type, user
from codelet.record import Record
from codelet.safety import Policy
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.export import material
from tests.support.program import ROOT

ITEMS = 189
_ROW = re.compile(r"\| (\d+)(?:-(\d+))? \| ([^|]+) \| ([A-Z]) \| ([^|]+) \|")
_TEST = re.compile(r"[\w/]+\.py::test_\w+")
_SHORTEST_REASON = 60


class SeedRow(Record, kw_only=True):
    """A row of the table: the items `first` to `last`, the verdict, and the tests that show it, or the reason."""

    first: int
    last: int
    verdict: str
    shown: str

    @property
    def tests(self) -> list[str]:
        return _TEST.findall(self.shown)


def _rows() -> list[SeedRow]:
    found = [_ROW.fullmatch(line) for line in (ROOT / "tests" / "seeds.md").read_text().splitlines()]
    return [
        SeedRow(first=int(row[1]), last=int(row[2] or row[1]), verdict=row[4], shown=row[5]) for row in found if row
    ]


ROWS = _rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.first}-{row.last}-{row.verdict}")
def test_an_item_works_and_a_test_shows_it_or_it_differs_for_a_reason(row: SeedRow) -> None:
    for test in row.tests:
        file, _, name = test.partition("::")
        assert name in _functions(file), f"there is no {test}"
    if row.verdict == "W":
        assert row.tests and _TEST.sub("", row.shown).strip(" ,") == "", "tests alone show that it works"
    else:
        assert row.verdict == "D" and len(_TEST.sub("", row.shown)) >= _SHORTEST_REASON


def test_every_item_has_one_row() -> None:
    assert ROWS[0].first == 1 and ROWS[-1].last == ITEMS
    for row, following in pairwise(ROWS):
        assert row.first <= row.last == following.first - 1


@cache
def _functions(file: str) -> frozenset[str]:
    """The tests of a file."""
    tree = ast.parse((ROOT / "tests" / file).read_bytes())
    return frozenset(each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_tests_of_the_table_are_collected() -> None:
    named = {test for row in ROWS for test in row.tests}
    files = sorted({f"tests/{test.partition('::')[0]}" for test in named})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", *files]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert listed.returncode == 0, (listed.stdout + listed.stderr)[-2000:]
    collected = {line.partition("[")[0].removeprefix("tests/") for line in listed.stdout.splitlines()}
    assert named <= collected, named - collected


def test_every_prediction_has_its_test() -> None:
    names = {name for file in _TESTED for name in _functions(file)}
    found = {number for name in names for number in re.findall(r"(?<=_)p([1-9])(?=_)", name)}
    assert found == set("123456789")


_TESTED = ("context/test_predictions.py", "export/test_document.py")


def _fastest(work: Callable[[], object]) -> float:
    """The processor time of the fastest of several runs, in ms."""
    times = []
    for _ in range(9):
        begun = time.process_time()
        work()
        times.append(1000 * (time.process_time() - begun))
    return min(times)


def test_fifty_entries_are_compacted_within_ten_milliseconds() -> None:
    text = "item{0} is value{0}, decided after reading module{0}.py" + " some words about src/parser.py" * 6
    entries = [(assistant if number % 2 else user)(text.format(number)) for number in range(51)]
    size = sum(map(estimate_message, entries))
    assert size > 3 * sum(map(estimate_message, compact(entries, size // 4).messages))
    assert _fastest(lambda: compact(entries, size // 4)) < 10  # clock: the processor's time alone


def test_a_typical_context_is_loaded_and_encoded_within_milliseconds() -> None:
    document = material.long(40, 3_500)
    data, encoder = to_json(document, mask=None), Encoder(None)
    assert 100_000 < len(data) < 150_000
    encoder.parts(document)
    longer = [document.replace(messages=(*document.messages, user(str(number)))) for number in range(9)]
    following = iter(longer)
    # clock: the processor's time alone
    assert _fastest(lambda: from_json(data)) < 2 and _fastest(lambda: encoder.parts(next(following))) < 2


async def test_message_list_tool_loop_reminders_and_token_state(tmp_path: Path) -> None:
    """The flow that seed 004 shows: two prompts, a call between them, one list that only grows, reminders once each."""
    provider = ScriptedProvider()
    session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path, yes=True))
    try:
        call = ("write", {"path": "test.txt", "content": "made\n"})
        provider.answers.extend([Answer("I will.", [call]), Answer("Created."), Answer("Added.")])
        seen = await turn(session, "Create a test file")
        assert (tmp_path / "test.txt").read_text() == "made\n"
        await turn(session, "Add content to the file")
        said = [message for message in session.messages if reminder_type(message) is None]
        assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
        assert len([event for event in seen if isinstance(event, events.ToolResult)]) == 1
        first, second, third = provider.sent
        assert second.stable[: len(first.stable)] == first.stable, "what was sent is never changed"
        assert third.stable[: len(second.stable)] == second.stable
        for sent in provider.sent:
            types = [kind for message in (*sent.stable, *sent.tail) if (kind := reminder_type(message))]
            assert sorted(types) == sorted(set(types)) and {"environment", "tokenStatus"} <= set(types)
        assert session.usage is not None and session.usage.total_input == sum(sent.size for sent in provider.sent)
    finally:
        await session.close()


def test_left_out_are_stored_credentials() -> None:
    """What an older context holds of them is not taken over."""
    from codelet.export.decode import from_json
    from codelet.export.encode import to_json

    held = b'{"session_id": "a", "recent_history": [], "oauth_tokens": {"access_token": "s3cret-word"}}'
    assert b"s3cret-word" not in to_json(from_json(held), mask=None)
