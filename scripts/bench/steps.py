"""The cost of a step in a long turn: 200 tool steps, against a minimal loop that makes the same calls.

Use: python -m scripts.bench.steps [--runs N] [--steps N] [--wire openai|anthropic]

A step's own time runs from the last byte of an answer to the last byte of the next request, both seen by the
server; its processor time from request to request. The minimal loop (below) speaks Chat Completions with h11 over
asyncio streams, starts from codelet's own first request, encodes the list anew each time, and knows one tool.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import h11

from scripts.bench.child import Place, Row, codelet_command, place, show, spawn, wait
from tests.support.program import processor_seconds
from tests.support.script import Call, Reply, Tokens
from tests.support.server import ModelServer, Recorded

EDGE = 20


def answer(steps: int) -> Callable[[Recorded], Reply]:
    """Steps that read one file, then the end."""

    def reply(request: Recorded) -> Reply:
        if request.number >= steps:
            return Reply("Done.")
        call = Call(f"call-{request.number}", "read", {"path": "notes.txt"}, (4, 9))
        usage = Tokens(1000 + 300 * request.number, cache_read=300 * request.number, output=30)
        return Reply(["Let me ", "read ", "it ", "again."], calls=[call], usage=usage)

    return reply


@dataclass
class Turn:
    """Runs one program through a whole turn; own and processor time of each step in ms."""

    server: ModelServer
    where: Place
    pid: int = 0
    clocks: list[float] = field(default_factory=list)

    def look(self, request: Recorded) -> None:
        """A request is there: read the clock of the process that sent it."""
        self.clocks.append(processor_seconds(self.pid))

    def run(self, command: list[str]) -> tuple[list[float], list[float]]:
        """One turn; own and processor time of each step."""
        self.server.requests.clear()
        self.clocks.clear()
        child = spawn(command, self.where)
        self.pid = child.pid
        wait(child)
        own = [(after.arrived - (before.sent or 0.0)) * 1000 for before, after in pairwise(self.server.requests)]
        return own, [(after - before) * 1000 for before, after in pairwise(self.clocks)]


async def minimal(host: str, port: int, first: dict[str, Any]) -> None:
    """The least that can be called an agent loop."""
    reader, writer = await asyncio.open_connection(host, port)
    connection = h11.Connection(h11.CLIENT)
    while True:
        body = json.dumps(first).encode()
        headers = [("Host", host), ("Content-Length", str(len(body))), ("Content-Type", "application/json")]
        request = h11.Request(method="POST", target="/v1/chat/completions", headers=headers)
        parts = (request, h11.Data(body), h11.EndOfMessage())
        writer.write(b"".join(connection.send(part) or b"" for part in parts))
        await writer.drain()
        text, calls = await _reply(reader, connection)
        connection.start_next_cycle()
        first["messages"].append({"role": "assistant", "content": text, "tool_calls": calls})
        if not calls:
            writer.close()
            return
        for call in calls:
            lines = Path(json.loads(call["function"]["arguments"])["path"]).read_text().splitlines()
            content = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
            first["messages"].append({"role": "tool", "tool_call_id": call["id"], "content": content})


async def _reply(reader: asyncio.StreamReader, connection: h11.Connection) -> tuple[str, list[dict[str, Any]]]:
    text, calls, buffer = "", [], b""
    while not isinstance(event := connection.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Data):
            *lines, buffer = (buffer + event.data).split(b"\n")
            for line in lines:
                if line.startswith(b"data: {"):
                    text += _take(json.loads(line[6:]), calls)
    return text, calls


def _take(chunk: dict[str, Any], calls: list[dict[str, Any]]) -> str:
    """Fold a chunk's calls into the list; its text."""
    delta = chunk["choices"][0]["delta"] if chunk["choices"] else {}
    for part in delta.get("tool_calls", ()):
        if "id" in part:
            calls.append({"id": part["id"], "type": "function", "function": dict(part["function"])})
        else:
            calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    return delta.get("content") or ""


def measure(options: argparse.Namespace) -> list[Row]:
    figures: dict[str, list[float]] = {
        name: [] for name in ("own", "cpu", "least", "least cpu", "growth", "least growth")
    }
    with place() as where, ModelServer(answer(options.steps)) as server:
        turn = Turn(server, where)
        server.on_request = turn.look
        base = {"openai": server.openai, "anthropic": server.anthropic}
        for _ in range(options.runs + 1):
            flags = ["-p", "read it", "--max-turns", str(options.steps + 1)]
            model = ["--model", f"{options.wire}/scripted", "--api-base", base[options.wire]]
            own, cpu = turn.run([*codelet_command(), *model, *flags])
            if options.wire != "openai":
                turn.run([*codelet_command(), "--model", "openai/scripted", "--api-base", base["openai"], *flags])
            request = where.home / "request.json"
            request.write_bytes(server.requests[0].body)
            least, least_cpu = turn.run(
                [sys.executable, "-m", "scripts.bench.steps", "--minimal", str(server.port), str(request)]
            )
            _note(figures, own, cpu, least, least_cpu)
    counted = {name: values[1:] for name, values in figures.items()}
    return [
        Row("own time a step, against the minimal loop", "ms", counted["own"], counted["least"], 4.0),
        Row("processor time a step, against the minimal loop", "ms", counted["cpu"], counted["least cpu"]),
        Row(f"own time, last {EDGE} steps over first {EDGE}", "x", counted["growth"], promise=1.2),
        Row(f"the minimal loop, last {EDGE} steps over first {EDGE}", "x", counted["least growth"]),
    ]


def _note(
    figures: dict[str, list[float]],
    own: Sequence[float],
    cpu: Sequence[float],
    least: Sequence[float],
    least_cpu: Sequence[float],
) -> None:
    for name, values in (("own", own), ("cpu", cpu), ("least", least), ("least cpu", least_cpu)):
        figures[name].append(statistics.median(values))
    for name, values in (("growth", own), ("least growth", least)):
        figures[name].append(statistics.median(values[-EDGE:]) / statistics.median(values[:EDGE]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--wire", choices=("openai", "anthropic"), default="openai")
    parser.add_argument("--minimal", nargs=2, metavar=("PORT", "REQUEST"), help="be the minimal loop")
    options = parser.parse_args()
    if options.minimal:
        port, request = options.minimal
        asyncio.run(minimal("127.0.0.1", int(port), json.loads(Path(request).read_bytes())))
        return 0
    print(f"{' '.join(codelet_command())}, {options.runs} turns of {options.steps} steps, {options.wire}")
    return show(measure(options))


if __name__ == "__main__":
    sys.exit(main())
