"""Codelet's own stack frames from a prompt to the first byte of the request, and back to the screen.

Recorded for one prompt, in one shot or typed into the REPL: the frames of all tasks at the moment that the request is
written, running or waiting; the async generators that pass on a piece of the answer; and the modules, packages
included, that are loaded by the first byte. A server on loopback answers. The stacks are read, not changed.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "codelet"
_PIECE = b'data: {"choices":[{"index":0,"delta":{"content":"ok "}}]}\n\n'
_END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
_SECONDS = 60
_PAUSE = 0.8


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for part in (_PIECE, _PIECE, _END):  # the second one finds all that passes a piece on at work
            self.wfile.write(part)
            time.sleep(_PAUSE)  # clock: the pace of the server

    def log_message(self, *_: object) -> None:
        pass


class Way:
    """What was seen: the functions `above` the provider's `stream` and those `below`, to the first byte; the functions
    `at_work` in all tasks by then; the async `generators` that pass on a piece of the answer; the `modules`.
    """

    def __init__(self, found: dict[str, list[str]]) -> None:
        self.above, whole = found["above"], found["whole"]
        self.below = whole[len(self.above) :]
        self.at_work = found["at_work"]
        self.generators = found["generators"]
        self.modules = found["modules"]


def ways(*, repl: bool = False) -> Way:
    """The way of a prompt, in one shot or typed into the REPL."""
    server = HTTPServer(("127.0.0.1", 0), _Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = Path(folder, "frames.json")
            base = f"http://127.0.0.1:{server.server_port}/v1"
            options = ["--model", "openai/scripted", "--api-base", base, "--bare"]
            environment = {**os.environ, "OPENAI_API_KEY": "test-key", "PYTHONPATH": str(ROOT), "HOME": folder}
            command = [sys.executable, str(Path(__file__)), str(found)]
            if repl:
                _type_prompt([*command, *options], environment, folder, found)
            else:
                subprocess.run(
                    [*command, "-p", "hi", *options],
                    env=environment,
                    cwd=folder,
                    check=True,
                    stdout=subprocess.DEVNULL,
                    stdin=subprocess.DEVNULL,
                    timeout=_SECONDS,
                )
            return Way(json.loads(found.read_text()))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _type_prompt(command: list[str], environment: dict[str, str], folder: str, found: Path) -> None:
    import pexpect

    child = pexpect.spawn(command[0], command[1:], env=environment, cwd=folder, timeout=_SECONDS, encoding="utf-8")
    try:
        child.expect("› ")
        child.send("hi\r")
        until = time.monotonic() + _SECONDS  # clock: for what hangs
        while not found.exists() and time.monotonic() < until:  # clock: for what hangs
            child.expect([".+", pexpect.TIMEOUT], timeout=0.1)
    finally:
        child.close(force=True)


class _Watch:
    """Looks at each call in this process, until two pieces of an answer were taken in; then writes what was seen."""

    def __init__(self, found: Path) -> None:
        self._found = found
        self._seen: dict[str, list[str]] = {}
        self._generators: list[str] | None = None

    def look(self, frame: FrameType, event: str, _: object) -> None:
        code, seen = frame.f_code, self._seen
        if event != "call":
            return
        if "above" not in seen:
            if code.co_name == "stream" and code.co_filename.startswith(str(PACKAGE / "providers")):
                seen["above"] = _own(frame.f_back)
        elif "whole" not in seen:
            if code.co_qualname == "StreamWriter.write" and _own(frame)[: len(seen["above"])] == seen["above"]:
                seen["modules"] = [name for name in sys.modules if name.partition(".")[0] == "codelet"]
                seen["whole"] = _own(frame)
                running = asyncio.current_task()
                others = [task for task in asyncio.all_tasks() if task is not running]
                seen["at_work"] = [name for task in others for name in _awaited(task.get_coro())] + seen["whole"]
        elif code.co_qualname == "Reply.add" and type(frame.f_locals["chunk"]).__name__ == "TextChunk":
            if self._generators is None:
                self._generators, self._task = [], asyncio.current_task()
                return
            sys.setprofile(None)
            part = self._found.with_suffix(".part")
            part.write_text(json.dumps({**seen, "generators": self._generators}))
            part.rename(self._found)
        elif (
            self._generators is not None
            and code.co_flags & inspect.CO_ASYNC_GENERATOR
            and asyncio.current_task() is self._task
        ):
            own = Path(code.co_filename).is_relative_to(PACKAGE)
            self._generators += [code.co_qualname] if own and code.co_qualname not in self._generators else []


def _own(frame: FrameType | None) -> list[str]:
    """The names of codelet's functions on a stack, the outermost first."""
    names: list[str] = []
    while frame is not None:
        if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return names[::-1]


def _awaited(coroutine: Any) -> Iterator[str]:
    """The names of codelet's functions in a chain of awaits, the outermost first."""
    while coroutine is not None:
        for kind in ("cr", "ag", "gi"):
            frame = getattr(coroutine, f"{kind}_frame", None)
            if frame is not None and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
                yield frame.f_code.co_qualname
        waits_for = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
        if waits_for is None and not hasattr(coroutine, "cr_frame"):
            waits_for = next((each for each in gc.get_referents(coroutine) if inspect.isasyncgen(each)), None)
        coroutine = waits_for


def _watched() -> None:
    """Run codelet with the command line after the first argument, and write what was seen to the first argument."""
    from codelet.cli import main as run

    target = Path(sys.argv[1])
    sys.argv = ["codelet", *sys.argv[2:]]
    sys.setprofile(_Watch(target).look)
    run()


if __name__ == "__main__":
    _watched()
