"""The time to the first request, also over https and with many files; --version, --help, the exit, peak memory.

Use: python -m scripts.bench.start [--runs N] [--wire openai|anthropic]

Processor time of codelet's own process up to the last byte of its first request: a server on loopback reads the
process's clock at that moment, before it answers; children such as git are left out. The reference is a
whole `python -c "import asyncio, ssl, json"`. Runs alternate; the table gives medians, the median of paired ratios.

Over https the certificates are the system's file, and the server's own authority in SSL_CERT_DIR. What 50,000 files
cost is the wall time beyond that in an empty repository; its reference is codelet's own `git status` command alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from codelet.system.git import STATUS, hardened_argv
from scripts.bench.child import CODELET, Place, Row, alternate, place, processor_time, show, spawn, timed, wait
from tests.support import repo
from tests.support.certificates import make_certificates
from tests.support.program import processor_seconds, run
from tests.support.script import Reply
from tests.support.server import ModelServer, Recorded

REFERENCE = "import asyncio, ssl, json"


def answer(request: Recorded) -> Reply:
    """The model's answer."""
    return Reply(["Hello", "!"])


class OneShot:
    """Runs one-shot prompts and notes, for each, what the server and the clock saw. Times in ms."""

    def __init__(self, server: ModelServer, where: Place, wire: str) -> None:
        self.server, self.where = server, where
        base = server.openai if wire == "openai" else server.anthropic
        self.arguments = ["--model", f"{wire}/scripted", "--api-base", base, "-p", "say hello"]
        self.pid, self.to_request = 0, 0.0
        self.wall: list[float] = []
        self.to_exit: list[float] = []

    def _look(self, request: Recorded) -> None:
        """The last byte of the request is there: read the clock of the process that sent it."""
        self.to_request = processor_seconds(self.pid) * 1000

    def processor_time(self) -> float:
        """One run; its processor time up to the request."""
        self.server.on_request = self._look
        self.server.requests.clear()
        started = time.monotonic()
        child = spawn([*CODELET, *self.arguments], self.where)
        self.pid = child.pid
        _, ended = wait(child)
        request = self.server.requests[0]
        assert request.sent is not None
        self.wall.append((request.arrived - started) * 1000)
        self.to_exit.append((ended - request.sent) * 1000)
        return self.to_request


def over_https(where: Place, wire: str, runs: int) -> list[Row]:
    """The first request over https against the same over http: processor time, and wall time."""
    folder = where.home / "certificates"
    folder.mkdir()
    made = make_certificates(folder)
    trusting = where._replace(more={"SSL_CERT_DIR": str(made.hashed(folder / "authorities"))})
    with ModelServer(answer, tls=made.server_context()) as safe, ModelServer(answer) as plain:
        shots = [OneShot(server, trusting, wire) for server in (safe, plain)]
        used = alternate(runs, *(shot.processor_time for shot in shots))
    return [
        Row("processor time to the first request over https, against http", "ms", *used, promise=1.25),
        Row(
            "wall time to the first request over https, against http", "ms", *(s.wall[1:] for s in shots), promise=1.25
        ),
    ]


def with_many_files(folder: Path, home: Path, wire: str, runs: int) -> Row:
    """Measure what 50,000 files add to the wall time to the first request, against `git status` alone."""
    large = Place(repo.many_files(folder / "large"), home)
    empty = Place(repo.unborn(folder / "empty"), home)
    command = hardened_argv("status", STATUS)

    with ModelServer(answer) as server:
        shots = [OneShot(server, where, wire) for where in (large, empty)]
        works = [*(shot.processor_time for shot in shots), lambda: timed(lambda: wait(spawn(command, large)))]
        *_, alone = alternate(runs, *works)
    added = [many - none for many, none in zip(*(shot.wall[1:] for shot in shots), strict=True)]
    return Row("wall time that 50,000 files add to it, against git status alone", "ms", added, alone, 0.6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--wire", choices=("openai", "anthropic"), default="openai")
    options = parser.parse_args()
    runs, wire = options.runs, options.wire
    with place() as where, ModelServer(answer) as server:
        shot = OneShot(server, where, wire)

        def python(code: str) -> float:
            return processor_time([sys.executable, "-c", code], where)

        first, imports = alternate(runs, shot.processor_time, lambda: python(REFERENCE))
        version, usage, nothing = alternate(
            runs,
            lambda: processor_time([*CODELET, "--version"], where),
            lambda: processor_time([*CODELET, "--help"], where),
            lambda: python("pass"),
        )
        more = [*over_https(where, wire, runs), with_many_files(where.home.parent, where.home, wire, runs)]
        server.on_request = None
        given = {"cwd": where.cwd, "env": where.environment(), "command": CODELET, "measure": True}
        peaks = [run(*shot.arguments, **given).peak_kib / 1000 for _ in range(3)]
    print(f"{' '.join(CODELET)}, {runs} runs, {wire}")
    rows = [
        Row(f'processor time to the first request, against python -c "{REFERENCE}"', "ms", first, imports, 1.3),
        *more,
        Row("--version, against python -c pass", "ms", version, nothing, 2.5),
        Row("--help, against python -c pass", "ms", usage, nothing, 5.0),
        Row("last byte of the answer to the exit", "ms", shot.to_exit[1:], promise=20.0),
        Row("peak memory of a one-shot run", "MB", peaks, promise=50.0),
        Row("wall time from start to the first request", "ms", shot.wall[1:]),
    ]
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
