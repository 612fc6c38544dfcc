"""The cost of a step in a long turn: 200 tool steps, against a minimal loop that makes the same calls.

Use: python -m scripts.bench.steps [--runs N] [--steps N] [--wire openai|anthropic]

A step's own time runs from the last byte of an answer to the last byte of the next request, both seen by the
server; its processor time from request to request. The minimal loop (below) speaks Chat Completions with h11 over
asyncio streams, starts from codelet's own first request, encodes the list again each time, and knows one tool.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import h11

from scripts.bench.child import CODELET, Place, Row, place, show, spawn, wait
from tests.support.program import processor_seconds
from tests.support.script import Call, Reply, Tokens
from tests.support.server import ModelServer, Recorded

EDGE = 20


class Turn(NamedTuple):
    """One turn: medians of a step's own and processor time in ms, and the last steps' own time over the first ones'."""

    own: float
    processor: float
    growth: float


def run_turn(server: ModelServer, command: Sequence[str], where: Place) -> Turn:
    """Run one program through a whole turn."""
    clocks: list[float] = []
    server.requests.clear()
    child = spawn(command, where)
    server.on_request = lambda request: clocks.append(processor_seconds(child.pid))
    wait(child)
    own = [(after.arrived - (before.sent or 0.0)) * 1000 for before, after in pairwise(server.requests)]
    used = [(after - before) * 1000 for before, after in pairwise(clocks)]
    return Turn(median(own), median(used), median(own[-EDGE:]) / median(own[:EDGE]))


def measure(runs: int, steps: int, wire: str) -> list[Row]:
    """The table's rows; the first turn of each program does not count."""

    def answer(request: Recorded) -> Reply:
        """Steps that read one file, then the end."""
        if request.number >= steps:
            return Reply("Done.")
        call = Call(f"call-{request.number}", "read", {"path": "notes.txt"}, (4, 9))
        usage = Tokens(1000 + 300 * request.number, cache_read=300 * request.number, output=30)
        return Reply(["Let me ", "read ", "it ", "again."], calls=[call], usage=usage)

    turns, least = list[Turn](), list[Turn]()
    with place() as where, ModelServer(answer) as server:
        bases = {"openai": server.openai, "anthropic": server.anthropic}
        flags = ["-p", "read it", "--max-turns", str(steps + 1)]
        request = where.home / "request.json"
        minimal = [sys.executable, "-m", "scripts.bench.steps", "--minimal", str(server.port), str(request)]
        for _ in range(runs + 1):
            for each in dict.fromkeys((wire, "openai")):  # the minimal loop begins with a request of the second
                words = ["--model", f"{each}/scripted", "--api-base", bases[each], *flags]
                turn = run_turn(server, [*CODELET, *words], where)
                turns += [turn] if each == wire else []
            request.write_bytes(server.requests[0].body)
            least.append(run_turn(server, minimal, where))
    own, processor, growth = zip(*turns[1:], strict=True)
    least_own, least_processor, least_growth = zip(*least[1:], strict=True)
    return [
        Row("own time a step, against the minimal loop", "ms", own, least_own, 4.0),
        Row("processor time a step, against the minimal loop", "ms", processor, least_processor),
        Row(f"own time, last {EDGE} steps over first {EDGE}", "x", growth, promise=1.2),
        Row(f"the minimal loop, last {EDGE} steps over first {EDGE}", "x", least_growth),
    ]


async def minimal_loop(host: str, port: int, first: dict[str, Any]) -> None:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--wire", choices=("openai", "anthropic"), default="openai")
    parser.add_argument("--minimal", nargs=2, metavar=("PORT", "REQUEST"), help="be the minimal loop")
    options = parser.parse_args()
    if options.minimal:
        port, request = options.minimal
        asyncio.run(minimal_loop("127.0.0.1", int(port), json.loads(Path(request).read_bytes())))
        return 0
    print(f"{' '.join(CODELET)}, {options.runs} turns of {options.steps} steps, {options.wire}")
    return show(measure(options.runs, options.steps, options.wire))


if __name__ == "__main__":
    sys.exit(main())
