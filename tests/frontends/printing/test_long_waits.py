"""What takes long in one shot is told on stderr: after a second, then every ten, and no more once it is over."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from codelet.events import Compaction
from codelet.frontends.printing import TextOutput
from codelet.frontends.printing.json_output import JsonOutput

NUMBER = re.compile(r"[\d,]+")
STARTING = Compaction(phase="starting", reason="hard", before=180_000, after=180_000)


class SteppedLoop(asyncio.SelectorEventLoop):
    """A loop whose time goes on only when it is told to."""

    now = 0.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]):
    """Runs actions, each after so many seconds; what stderr says after each of them."""

    def run(*actions: tuple[float, Callable[[], None] | None]) -> list[str]:
        loop = SteppedLoop()

        async def play() -> list[str]:
            found = []
            for seconds, action in actions:
                loop.now += seconds
                for _ in range(3):
                    await asyncio.sleep(0)
                if action is not None:
                    action()
                found.append(capsys.readouterr().err)
            return found

        try:
            return loop.run_until_complete(play())
        finally:
            loop.close()

    return run


def test_a_compaction_is_told_after_a_second_and_then_every_ten(told):
    output = TextOutput(quiet=False)
    done = Compaction(phase="done", reason="hard", before=180_000, after=90_000)
    said = told((0, lambda: output.show(STARTING)), (0.9, None), (0.2, None), (5, None), (6, None),
                (1, lambda: output.show(done)), (60, None))  # fmt: skip
    assert [NUMBER.findall(each) for each in said] == [
        [],
        [],
        ["180,000", "1"],
        [],
        ["180,000", "12"],
        ["180,000", "90,000"],
        [],
    ]
    assert [bool(each) for each in said] == [False, False, True, False, True, True, False]
    assert ["compacted" in each for each in said if each] == [False, False, True]


def test_a_compaction_that_was_stopped_is_told_no_more(told):
    output = TextOutput(quiet=False)
    stopped = Compaction(phase="stopped", reason="hard", before=9, after=9, note="nothing to compact")
    said = told((0, lambda: output.show(STARTING)), (0, lambda: output.show(stopped)), (60, None))
    assert (said[0], said[2]) == ("", "")
    assert "not compacted" in said[1] and said[1].endswith(f": {stopped.note}\n")


def test_opening_a_session_is_told_too_and_neither_is_with_quiet_or_in_json(told):
    def begin(output: TextOutput | JsonOutput) -> Callable[[], None]:
        return lambda: output.busy("opening work.json")

    said = told((0, begin(TextOutput(quiet=False))), (2, None))
    assert said[0] == "" and said[1].startswith("opening work.json: 2 s")
    assert told((0, begin(TextOutput(quiet=True))), (2, None)) == ["", ""]
    assert told((0, begin(JsonOutput())), (2, None)) == ["", ""]
