"""How soon the first request leaves; --version, --help, the exit after the answer, and peak memory.

Use: python -m scripts.bench.start [--runs N] [--wire openai|anthropic]

Processor time of codelet's own process up to the last byte of its first request: a server on loopback reads the
process's clock at that moment, before it answers; children such as git are left out. The reference is a
whole `python -c "import asyncio, ssl, json"`. Runs alternate; the table gives medians, the median of paired ratios.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field

from scripts.bench.child import Place, Row, alternate, codelet_command, place, show, spawn, wait
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
        """What codelet is called with."""
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
        Row(f'processor time to the first request, against python -c "{REFERENCE}"', "ms", first, imports, 2.0),
        Row("--version, against python -c pass", "ms", version, nothing, 2.5),
        Row("--help, against python -c pass", "ms", usage, nothing, 5.0),
        Row("last byte of the answer to the exit", "ms", shot.to_exit[1:], promise=20.0),
        Row("peak memory of a one-shot run", "MB", [done.peak_kib / 1000 for done in peaks], promise=50.0),
        Row("wall time from start to the first request", "ms", shot.wall[1:]),
    ]
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
