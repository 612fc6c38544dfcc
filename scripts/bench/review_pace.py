"""How soon a review asks, how well requests go side by side, and what a very large diff costs.

Use: python -m scripts.bench.review_pace [--runs N]

A server on loopback answers. The first request: processor time of codelet's own process up to the last byte of its
request for `git diff | codelet review --diff - --output json=FILE`, against the same of a one-shot prompt, in turns.
Side by side: 64 chunks with 32 jobs, from the first request's arrival to the last answer's end, against twice the time
that one answer takes alone; the server lets each answer take some seconds. The large diff: 5,000 files, 500,000 lines,
read and planned; peak memory, and processor time for it against a quarter of it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from scripts.bench.child import Place, Row, alternate, codelet_command, place, show, spawn, wait
from tests.support.diffs import large_diff
from tests.support.program import processor_seconds, run
from tests.support.script import Delivery, Reply
from tests.support.server import ModelServer, Recorded

NOTHING = '{"findings": []}'
THINKING = 2.0


class Starts:
    """Starts codelet and notes its processor time when its first request is there."""

    def __init__(self, server: ModelServer, where: Place, diff: Path) -> None:
        self._server = server
        self._where = where
        self._diff = diff
        self._pid = 0
        self._seen = 0.0
        server.on_request = self._look

    def _look(self, request: Recorded) -> None:
        if request.number == 0:
            self._seen = processor_seconds(self._pid) * 1000

    def _time(self, *arguments: str, stdin: Path | None = None) -> float:
        self._server.requests.clear()
        options = ["--model", "openai/scripted", "--api-base", self._server.openai]
        if stdin is None:
            child = spawn([*codelet_command(), *options, *arguments], self._where)
        else:
            with stdin.open("rb") as file:
                child = spawn([*codelet_command(), *options, *arguments], self._where, stdin=file.fileno())
        self._pid = child.pid
        wait(child)
        return self._seen

    def one_shot(self) -> float:
        """Processor milliseconds of a one-shot prompt."""
        return self._time("-p", "say hello")

    def review(self) -> float:
        """Those of a review of a diff on stdin."""
        return self._time("review", "--diff", "-", "--output", "json=/dev/null", stdin=self._diff)


def answer(request: Recorded) -> Reply:
    return Reply(NOTHING)


def slow_answer(request: Recorded) -> Reply:
    return Reply(NOTHING, delivery=Delivery(pause=THINKING / 4))


def side_by_side(server: ModelServer, where: Place, folder: Path) -> list[float]:
    """Seconds from the first request to the end of the last answer: of one chunk alone, and of 64 with 32 jobs."""
    seconds = []
    for chunks, jobs in ((1, 1), (64, 32)):
        diff = folder / f"{chunks}.diff"
        diff.write_bytes(large_diff(files=chunks, hunks=1, lines=40))
        server.requests.clear()
        done = run(
            *("--model", "openai/scripted", "--api-base", server.openai),
            *("review", "--diff", str(diff), "--jobs", str(jobs), "--chunk-tokens", "700"),
            cwd=where.cwd,
            env=where.environment(),
            command=codelet_command(),
        )
        assert done.exit == 0, done.err
        assert len(server.requests) == chunks
        ends = [request.sent for request in server.requests if request.sent is not None]
        seconds.append(max(ends) - min(request.arrived for request in server.requests))
    return seconds


def size(where: Place, folder: Path, files: int) -> tuple[float, float]:
    """Processor seconds and peak megabytes of a dry run of so many files with 100 lines each."""
    diff = folder / "large.diff"
    diff.write_bytes(large_diff(files=files, hunks=4, lines=25))
    code = f"import resource, subprocess, sys; subprocess.run({[*codelet_command()]!r} + sys.argv[1:], check=True,"
    code += " stdout=subprocess.DEVNULL); used = resource.getrusage(resource.RUSAGE_CHILDREN);"
    code += " print(used.ru_utime + used.ru_stime)"
    words = ["review", "--diff", str(diff), "--dry-run"]
    timed = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=where.cwd, env=where.environment(), check=True, capture_output=True
    )
    peak = run(*words, cwd=where.cwd, env=where.environment(), command=codelet_command(), measure=True).peak_kib
    return float(timed.stdout), peak / 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    with place() as where, ModelServer(answer) as server:
        folder = where.home
        diff = folder / "small.diff"
        diff.write_bytes(large_diff(files=1, hunks=1, lines=10))
        starts = Starts(server, where, diff)
        review, one_shot = alternate(options.runs, starts.review, starts.one_shot)
        server.on_request = None
        server.script = slow_answer
        parallel = [side_by_side(server, where, folder) for _ in range(3)]
        quarter, whole = size(where, folder, 1_250), size(where, folder, 5_000)
    alone = [one for one, _ in parallel]
    ideal = [2 * one for one in alone]
    return show(
        [
            Row("processor time to the first request, against a one-shot's", "ms", review, one_shot, 1.5),
            Row("64 chunks by 32 side by side, against 2 x one alone", "s", [all_ for _, all_ in parallel], ideal, 1.3),
            Row("peak memory of 5,000 files, 500,000 lines", "MB", [whole[1]], promise=300.0),
            Row("processor time of it, against 4 x a quarter of it", "s", [whole[0]], [4 * quarter[0]], 1.3),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
