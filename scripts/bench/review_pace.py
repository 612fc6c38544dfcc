"""The time until a review sends its first request, parallel requests, and the cost of a very large diff.

Use: python -m scripts.bench.review_pace [--runs N]

A server on loopback answers. Compared are the processor time of codelet's own process until the last byte of the first
request, of a review of a diff on stdin and of a one-shot prompt; 64 slow answers with 32 jobs and twice the time of
one; the peak memory and processor time for 5,000 files and 500,000 lines, and four times the time for a quarter.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from scripts.bench.child import Place, Row, alternate, codelet_command, place, show, spawn, wait
from tests.support.diffs import large_diff
from tests.support.program import processor_seconds, run
from tests.support.reviews import NOTHING
from tests.support.script import Delivery, Reply
from tests.support.server import ModelServer, Recorded


def first_request(server: ModelServer, where: Place, stdin: Path, *words: str) -> float:
    """Processor milliseconds of codelet until its first request is there."""
    seen = []

    def look(request: Recorded) -> None:
        if request.number == 0:
            seen.append(processor_seconds(child.pid) * 1000)

    server.requests.clear()
    server.on_request = look
    with stdin.open("rb") as file:
        options = ("--model", "openai/scripted", "--api-base", server.openai)
        child = spawn([*codelet_command(), *options, *words], where, stdin=file.fileno())
    wait(child)
    server.on_request = None
    return seen[0]


def in_parallel(server: ModelServer, where: Place, chunks: int, jobs: int) -> float:
    """Seconds from the first request to the end of the last answer."""
    diff = where.home / f"{chunks}.diff"
    diff.write_bytes(large_diff(files=chunks, hunks=1, lines=40))
    server.requests.clear()
    model = ("--model", "openai/scripted", "--api-base", server.openai)
    words = ("review", "--diff", str(diff), "--jobs", str(jobs), "--chunk-tokens", "700")
    done = run(*model, *words, cwd=where.cwd, env=where.environment(), command=codelet_command())
    assert (done.exit, len(server.requests)) == (0, chunks), done.err
    ends = [request.sent for request in server.requests if request.sent is not None]
    return max(ends) - min(request.arrived for request in server.requests)


def size(where: Place, files: int) -> tuple[float, float]:
    """Processor seconds and peak megabytes of a dry run of that many files with 100 lines each."""
    diff = where.home / "large.diff"
    diff.write_bytes(large_diff(files=files, hunks=4, lines=25))
    code = f"import resource, subprocess, sys; subprocess.run({[*codelet_command()]!r} + sys.argv[1:], check=True,"
    code += " stdout=subprocess.DEVNULL); used = resource.getrusage(resource.RUSAGE_CHILDREN);"
    code += " print(used.ru_utime + used.ru_stime)"
    words = ["review", "--diff", str(diff), "--dry-run"]
    environment = where.environment()
    command = [sys.executable, "-c", code, *words]
    timed = subprocess.run(command, cwd=where.cwd, env=environment, check=True, capture_output=True)
    peak = run(*words, cwd=where.cwd, env=environment, command=codelet_command(), measure=True).peak_kib
    return float(timed.stdout), peak / 1000


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with place() as where, ModelServer(lambda _: Reply(NOTHING)) as server:
        diff = where.home / "small.diff"
        diff.write_bytes(large_diff(files=1, hunks=1, lines=10))
        words = ("review", "--diff", "-", "--output", "json=/dev/null")
        review, one_shot = alternate(
            runs,
            lambda: first_request(server, where, diff, *words),
            lambda: first_request(server, where, Path("/dev/null"), "-p", "say hello"),
        )
        server.script = lambda _: Reply(NOTHING, delivery=Delivery(pause=0.5))
        alone = [2 * in_parallel(server, where, 1, 1) for _ in range(3)]
        many = [in_parallel(server, where, 64, 32) for _ in range(3)]
        quarter, whole = size(where, 1_250), size(where, 5_000)
    return show(
        [
            Row("processor time to the first request, against a one-shot's", "ms", review, one_shot, 1.5),
            Row("64 chunks with 32 jobs, against 2 x one alone", "s", many, alone, 1.3),
            Row("peak memory of 5,000 files, 500,000 lines", "MB", [whole[1]], promise=300.0),
            Row("processor time of it, against 4 x a quarter of it", "s", [whole[0]], [4 * quarter[0]], 1.3),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
