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
from dataclasses import dataclass, field
from pathlib import Path

from codelet.system.git import STATUS, hardened_argv
from scripts.bench.child import Place, Row, alternate, codelet_command, place, show, spawn, wait
from tests.support import repo
from tests.support.certificates import make_certificates
from tests.support.program import processor_seconds, run
from tests.support.script import Reply
from tests.support.server import ModelServer, Recorded

REFERENCE = "import asyncio, ssl, json"


@dataclass
class OneShot:
    """Runs one-shot prompts and notes, for each, what the server and the clock saw. Times in ms."""

    server: ModelServer
    where: Place
    wire: str
    pid: int = 0
    to_request: float = 0.0
    wall: list[float] = field(default_factory=list)
    to_exit: list[float] = field(default_factory=list)

    def arguments(self) -> list[str]:
        """The words of the command line."""
        base = self.server.openai if self.wire == "openai" else self.server.anthropic
        return ["--model", f"{self.wire}/scripted", "--api-base", base, "-p", "say hello"]

    def look(self, request: Recorded) -> None:
        """The last byte of the request is there: read the clock of the process that sent it."""
        self.to_request = processor_seconds(self.pid) * 1000

    def processor_time(self) -> float:
        """One run; its processor time up to the request."""
        self.server.requests.clear()
        started = time.monotonic()
        child = spawn([*codelet_command(), *self.arguments()], self.where)
        self.pid = child.pid
        _, ended = wait(child)
        request = self.server.requests[0]
        assert request.sent is not None
        self.wall.append((request.arrived - started) * 1000)
        self.to_exit.append((ended - request.sent) * 1000)
        return self.to_request

    def wall_time(self) -> float:
        """One run; its wall time up to the request."""
        self.processor_time()
        return self.wall[-1]


@dataclass(frozen=True)
class Trusting(Place):
    """A place whose programs trust one more authority than the system's."""

    authorities: Path

    def environment(self) -> dict[str, str]:
        """As there, with the folder of the authority."""
        return super().environment() | {"SSL_CERT_DIR": str(self.authorities)}


def over_https(where: Place, wire: str, runs: int) -> list[Row]:
    """The first request over https against the same over http: processor time, and wall time."""
    folder = where.home / "certificates"
    folder.mkdir()
    made = make_certificates(folder)
    trusting = Trusting(where.cwd, where.home, made.hashed(folder / "authorities"))

    def answer(request: Recorded) -> Reply:
        return Reply(["Hello", "!"])

    with ModelServer(answer, tls=made.server_context()) as safe, ModelServer(answer) as plain:
        shots = [OneShot(safe, trusting, wire), OneShot(plain, trusting, wire)]
        for shot in shots:
            shot.server.on_request = shot.look
        used = alternate(runs, *(shot.processor_time for shot in shots))
    first, reference = (shot.wall[1:] for shot in shots)
    return [
        Row("processor time to the first request over https, against http", "ms", *used, promise=1.25),
        Row("wall time to the first request over https, against http", "ms", first, reference, 1.25),
    ]


def with_many_files(folder: Path, home: Path, wire: str, runs: int) -> Row:
    """Measure what 50,000 files add to the wall time to the first request, against `git status` alone."""
    large, empty = (Place(folder / name, home) for name in ("large", "empty"))
    repo.many_files(large.cwd)
    repo.unborn(empty.cwd)
    command = hardened_argv("status", STATUS)

    def git() -> float:
        started = time.monotonic()
        return (wait(spawn(command, large))[1] - started) * 1000

    with ModelServer(lambda request: Reply(["Hello", "!"])) as server:
        shots = [OneShot(server, large, wire), OneShot(server, empty, wire)]
        many, none, alone = alternate(runs, *(shot.wall_time for shot in shots), git)
    added = [a - b for a, b in zip(many, none, strict=True)]
    return Row("wall time that 50,000 files add to it, against git status alone", "ms", added, alone, 0.6)


def total(command: list[str], where: Place) -> float:
    """Processor time of a whole run in ms."""
    return wait(spawn(command, where))[0] * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--wire", choices=("openai", "anthropic"), default="openai")
    options = parser.parse_args()
    python = sys.executable
    with place() as where, ModelServer(lambda request: Reply(["Hello", "!"])) as server:
        shot = OneShot(server, where, options.wire)
        server.on_request = shot.look
        first, imports = alternate(options.runs, shot.processor_time, lambda: total([python, "-c", REFERENCE], where))
        version, usage, nothing = alternate(
            options.runs,
            lambda: total([*codelet_command(), "--version"], where),
            lambda: total([*codelet_command(), "--help"], where),
            lambda: total([python, "-c", "pass"], where),
        )
        server.on_request = None
        more = [
            *over_https(where, options.wire, options.runs),
            with_many_files(where.home.parent, where.home, options.wire, options.runs),
        ]
        peaks = [
            run(
                *shot.arguments(),
                cwd=where.cwd,
                env=where.environment(),
                command=codelet_command(),
                measure=True,
            )
            for _ in range(3)
        ]
    print(f"{' '.join(codelet_command())}, {options.runs} runs, {options.wire}")
    rows = [
        Row(f'processor time to the first request, against python -c "{REFERENCE}"', "ms", first, imports, 1.3),
        *more,
        Row("--version, against python -c pass", "ms", version, nothing, 2.5),
        Row("--help, against python -c pass", "ms", usage, nothing, 5.0),
        Row("last byte of the answer to the exit", "ms", shot.to_exit[1:], promise=20.0),
        Row("peak memory of a one-shot run", "MB", [done.peak_kib / 1000 for done in peaks], promise=50.0),
        Row("wall time from start to the first request", "ms", shot.wall[1:]),
    ]
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
