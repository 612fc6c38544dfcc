"""Record every request of a scripted session of sixty steps and more, once for each way to a model.

The program runs in a real terminal against a real server: reminders, compaction, two interrupts, `continue`,
`/rewind`, `/redo`, pins, drops, an export, and a run that resumes it. What is recorded depends on nothing but the
program: folder, dates and the server's answers are fixed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from codelet.providers.catalog import vendors
from tests.support import repo
from tests.support.program import run
from tests.support.script import Call, Reply, Step, Stop, Tokens
from tests.support.server import ModelServer, Recorded
from tests.support.terminal import Terminal

PLACE = Path(os.environ.get("CODELET_COMPARE", "/tmp/codelet-compare"))
_SESSION_KEY = re.compile(r',"prompt_cache_key":"[0-9a-f]{32}"')  # of chance
_FILES = {
    "README.md": "# Example\n\nA small project.\n",
    "CLAUDE.md": "Use tabs. Never touch `generated/`.\n",
    "app.py": "".join(f"def function_{number}(value):\n    return value + {number}\n\n" for number in range(600)),
    "docs/guide.md": "Read me first.\n" * 40,
    "src/deep/module.py": "VALUE = 1\n",
    "src/deep/AGENTS.md": "In this folder names are short.\n",
}


class Way(NamedTuple):
    """One way to a model: the options and variables that lead to the recording server."""

    name: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str | None]


def ways(base: str) -> list[Way]:
    """Chat Completions and Messages, litellm on both, and every vendor of the catalogue by its own name and address."""
    keys = {"OPENAI_API_KEY": "test-key", "ANTHROPIC_API_KEY": "test-key"}
    chat, messages, litellm = ("--api-base", f"{base}/v1"), ("--api-base", base), ("--transport", "litellm")
    found = [
        Way("chat", ("--model", "scripted", *chat), keys),
        Way("messages", ("--model", "anthropic/scripted", *messages), keys),
        Way("litellm-chat", ("--model", "openai/scripted", *chat, *litellm), keys),
        Way("litellm-messages", ("--model", "anthropic/claude-sonnet-4-5", *messages, *litellm), keys),
    ]
    for vendor in vendors():
        model = vendor.default_model or f"{vendor.prefix}/scripted"
        address = vendor.base.replace("https://", "http://")
        proxy = {"HTTP_PROXY": base, "NO_PROXY": None} | dict.fromkeys(vendor.key_names, "test-key")
        found.append(Way(f"vendor-{vendor.prefix}", ("--model", model, "--api-base", address), proxy))
    return found


def work(*calls: tuple[str, Mapping[str, Any]], text: str = "", reasoning: str = "") -> Reply:
    """One step that calls tools; the calls get their numbers when it is sent."""
    return Reply(text, calls=[Call("", name, dict(arguments)) for name, arguments in calls], reasoning=reasoning)


def read(start: int, lines: int) -> Reply:
    """One step that reads a part of the application."""
    return work(("read", {"path": "app.py", "offset": start, "limit": lines}))


_LOOKS: tuple[Step, ...] = (
    work(("grep", {"pattern": "function_7"}), ("find", {"pattern": "**/*.md"}), text="Both. "),
    work(("bash", {"command": "ls"}), reasoning="What is here? "),
    work(("read", {"path": "src/deep/module.py"})),
    work(("read", {"path": "no/such/file"}), ("unknown", {"a": 1})),
    work(("grep", {"pattern": "VALUE", "path": "src"})),
)
_EDIT = {"path": "app.py", "edits": [{"old": "return value + 3\n", "new": "return value + 33\n"}]}
_CHANGES: tuple[Step, ...] = (
    work(("edit", _EDIT), text="First the edit. "),
    work(("write", {"path": "notes.txt", "content": "one\ntwo\n"})),
    work(("bash", {"command": "git diff --stat; exit 3"})),
    work(("bash", {"command": "python3 -c 'print(1)'"}), ("read", {"path": "notes.txt"})),
)


class Model:
    """Answers with the planned steps; a step's usage is what the request weighs, so that the budget runs out."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()
        self._numbers = count(1)

    def __call__(self, recorded: Recorded) -> Step:
        step = self.steps.popleft() if self.steps else Reply("Nothing was planned.")
        if not isinstance(step, Reply):
            return step
        calls = [replace(call, id=f"call_{next(self._numbers):04}") for call in step.calls]
        size = len(recorded.body) // 4
        return replace(step, calls=calls, usage=Tokens(size, cache_read=size * 9 // 10, output=30))


class Typist:
    """Types prompts and waits until each is answered."""

    def __init__(self, terminal: Terminal, model: Model, server: ModelServer) -> None:
        self.terminal, self.model, self.server = terminal, model, server

    def ask(self, prompt: str, *steps: Step, last: str = "", stop_after: float | None = None) -> None:
        """A prompt that takes these steps and ends with `last`; or ESC stops the first after a number of seconds."""
        answers = [*steps, Reply(last)] if last else steps
        self.model.steps.extend(answers)
        expected, end = len(self.server.requests) + len(answers), time.monotonic() + 60
        self.terminal.line(prompt)
        while len(self.server.requests) < expected and time.monotonic() < end:
            self.terminal.pump()
        if stop_after is not None:
            end = time.monotonic() + stop_after  # a bar turns while it waits: the screen never gets quiet
            while time.monotonic() < end:
                self.terminal.pump()
            self.terminal.key("esc")
        self.terminal.settle(0.5, 20)

    def converse(self) -> None:
        """The whole session."""
        pages = [read(1 + 60 * number, 60) for number in range(12)]
        self.ask("read the application", *pages, last="I read `app.py`: 600 functions.")
        self.ask("look around", *_LOOKS, last="Found what I looked for.")
        self.ask("change it", *_CHANGES, last="Changed `app.py` and wrote `notes.txt`.")
        self.ask("/reminders gitStatus off")
        self.ask("and now?", work(("bash", {"command": "git status --short"})), last="Two changes.")
        for command in ("/reminders gitStatus on", "/pin 3", "/compact"):
            self.ask(command)
        self.ask("go on", *_LOOKS, last="Still there.")
        self.ask("tell me a story", Reply(["Once ", "upon ", "a time "], fault=Stop("stall", 3)), stop_after=0.6)
        self.ask("continue", last="Once upon a time there was a test.")
        self.ask("wait a while", work(("bash", {"command": "echo begun; sleep 60"})), stop_after=1.5)
        self.ask("continue", last="I waited.")
        self.ask("say one thing", last="One.")
        self.ask("/rewind")
        self.terminal.type("\x15")  # the rewound prompt is in the line again
        self.ask("say another thing", last="Another.")
        self.ask("/redo", last="Another, again.")
        self.ask("/drop 8")
        self.ask("read it all again", *[read(1 + 100 * number, 160) for number in range(16)], last="All of it.")


def record(way: Way, server: ModelServer, python: Sequence[str], root: Path) -> list[dict[str, Any]]:
    """The requests of one session that goes this way, in order: path and body as text."""
    shutil.rmtree(PLACE, ignore_errors=True)
    home, target, model = PLACE / "home", str(PLACE / "session.json"), Model()
    home.mkdir(parents=True)
    workspace = repo.plain(PLACE / "work", _FILES)
    for path in sorted(workspace.rglob("*")):
        if ".git" not in path.parts:
            os.utime(path, (1_767_225_600, 1_767_225_600))
    server.script = model
    server.requests.clear()
    variables = {"PYTHONPATH": str(root), "TZ": "UTC", "CODELET_SHARED": None, **way.variables}
    given: dict[str, Any] = {"cwd": workspace, "home": home, "env": variables, "command": [*python, "-m", "codelet"]}
    arguments = [*way.arguments, "--yes", "--budget", "24000", "--export", target, "--force"]
    with Terminal(*arguments, columns=120, rows=40, **given) as terminal:
        terminal.wait_for("›", 60)
        Typist(terminal, model, server).converse()
        terminal.line("exit")
        terminal.wait_exit()
    for number in range(2):
        model.steps.extend([*(read(1 + 5 * step, 5) for step in range(5)), Reply(f"Resumed {number}.")])
        resumed = [*way.arguments, "--yes", "--export", target, "--resume", target, "-p", f"go on, {number}"]
        run(*resumed, timeout=120, **given)
    return [
        {"path": one.path, "body": _SESSION_KEY.sub("", one.body.decode("utf-8", "replace"))} for one in server.requests
    ]


def main(python: Sequence[str], root: Path, only: Sequence[str]) -> dict[str, Any]:
    """Every way's requests by its name."""
    recorded: dict[str, Any] = {}
    with ModelServer(models=("scripted",)) as server:
        for way in ways(server.base):
            if only and way.name not in only:
                continue
            requests = record(way, server, python, root)
            recorded[way.name] = [json.loads(json.dumps(one).replace(str(server.port), "PORT")) for one in requests]
            print(f"{way.name}: {len(requests)} requests", flush=True)
    return recorded
