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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Way:
    """One way to a model: the options and variables that lead to the recording server."""

    name: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str | None] = field(default_factory=dict)


def ways(base: str) -> list[Way]:
    """Chat Completions and Messages, litellm on both, and every vendor of the catalogue by its own name and address."""
    keys = {"OPENAI_API_KEY": "test-key", "ANTHROPIC_API_KEY": "test-key"}
    found = [
        Way("chat", ("--model", "scripted", "--api-base", f"{base}/v1"), keys),
        Way("messages", ("--model", "anthropic/scripted", "--api-base", base), keys),
        Way("litellm-chat", ("--model", "openai/scripted", "--api-base", f"{base}/v1", "--transport", "litellm"), keys),
        Way(
            "litellm-messages",
            ("--model", "anthropic/claude-sonnet-4-5", "--api-base", base, "--transport", "litellm"),
            keys,
        ),
    ]
    for vendor in vendors():
        model = vendor.default_model or f"{vendor.prefix}/scripted"
        address = vendor.base.replace("https://", "http://")
        proxy = {"HTTP_PROXY": base, "NO_PROXY": None} | dict.fromkeys(vendor.key_names, "test-key")
        found.append(Way(f"vendor-{vendor.prefix}", ("--model", model, "--api-base", address), proxy))
    return found


class Conductor:
    """Feeds the server with the steps of what is asked next, and keeps every request."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()
        self._number = 0

    def answer(self, recorded: Recorded) -> Step:
        """The next step; its usage is what the request weighs, so that the conversation outgrows its budget."""
        step = self.steps.popleft() if self.steps else Reply("Nothing was planned.")
        size = len(recorded.body) // 4
        return (
            replace(step, usage=Tokens(size, cache_read=size * 9 // 10, output=30)) if isinstance(step, Reply) else step
        )

    def plan(self, *steps: Step) -> None:
        """Queue the answers to the next requests."""
        self.steps.extend(steps)

    def work(self, *calls: tuple[str, Mapping[str, Any]], text: str = "", reasoning: str = "") -> Reply:
        """One step that calls tools."""
        listed = []
        for name, arguments in calls:
            self._number += 1
            listed.append(Call(f"call_{self._number:04}", name, dict(arguments)))
        return Reply(text, calls=listed, reasoning=reasoning)

    def say(self, text: str) -> Reply:
        """One step that answers."""
        return Reply(text)


def record(way: Way, server: ModelServer, python: Sequence[str], root: Path) -> list[dict[str, Any]]:
    """The requests of one session that goes this way, in order: path and body as text."""
    workspace, home = fresh()
    conductor = Conductor()
    server.script = conductor.answer
    server.requests.clear()
    command = [*python, "-m", "codelet"]
    variables = {"PYTHONPATH": str(root), "TZ": "UTC", "CODELET_SHARED": None, **way.variables}
    arguments = [*way.arguments, "--yes", "--budget", "24000", "--export", str(PLACE / "session.json"), "--force"]
    with Terminal(*arguments, cwd=workspace, home=home, env=variables, columns=120, rows=40, command=command) as shown:
        shown.wait_for("›", 60)
        _converse(shown, conductor, server)
        shown.line("exit")
        shown.wait_exit()
    target = str(PLACE / "session.json")
    for number in range(2):
        conductor.plan(
            *[conductor.work(("read", {"path": "app.py", "offset": 1 + 5 * step, "limit": 5})) for step in range(5)]
        )
        conductor.plan(conductor.say(f"Resumed {number}."))
        resumed = [*way.arguments, "--yes", "--export", target, "--resume", target, "-p", f"go on, {number}"]
        run(*resumed, cwd=workspace, home=home, env=variables, command=command, timeout=120)
    return [
        {"path": one.path, "body": _SESSION_KEY.sub("", one.body.decode("utf-8", "replace"))} for one in server.requests
    ]


def _converse(shown: Terminal, conductor: Conductor, server: ModelServer) -> None:
    turn = Turns(shown, conductor, server)
    pages = [conductor.work(("read", {"path": "app.py", "offset": 1 + 60 * n, "limit": 60})) for n in range(12)]
    turn.ask("read the application", *pages, conductor.say("I read `app.py`: 600 functions."))
    turn.ask("look around", *_looks(conductor), conductor.say("Found what I looked for."))
    turn.ask("change it", *_changes(conductor), conductor.say("Changed `app.py` and wrote `notes.txt`."))
    turn.command("/reminders gitStatus off")
    turn.ask("and now?", conductor.work(("bash", {"command": "git status --short"})), conductor.say("Two changes."))
    turn.command("/reminders gitStatus on")
    turn.command("/pin 3")
    turn.command("/compact")
    turn.ask("go on", *_looks(conductor), conductor.say("Still there."))
    turn.stop("tell me a story", Reply(["Once ", "upon ", "a time "], fault=Stop("stall", 3)), quiet=0.6)
    turn.ask("continue", conductor.say("Once upon a time there was a test."))
    turn.stop("wait a while", conductor.work(("bash", {"command": "echo begun; sleep 60"})), quiet=1.5)
    turn.ask("continue", conductor.say("I waited."))
    turn.ask("say one thing", conductor.say("One."))
    turn.command("/rewind")
    shown.type("\x15")  # the rewound prompt is in the line again
    turn.ask("say another thing", conductor.say("Another."))
    turn.ask("/redo", conductor.say("Another, again."))
    turn.command("/drop 8")
    turn.ask("read it all again", *_long(conductor), conductor.say("All of it."))


def _looks(conductor: Conductor) -> list[Step]:
    return [
        conductor.work(("grep", {"pattern": "function_7"}), ("find", {"pattern": "**/*.md"}), text="Both. "),
        conductor.work(("bash", {"command": "ls"}), reasoning="What is here? "),
        conductor.work(("read", {"path": "src/deep/module.py"})),
        conductor.work(("read", {"path": "no/such/file"}), ("unknown", {"a": 1})),
        conductor.work(("grep", {"pattern": "VALUE", "path": "src"})),
    ]


def _changes(conductor: Conductor) -> list[Step]:
    edit = {"path": "app.py", "edits": [{"old": "return value + 3\n", "new": "return value + 33\n"}]}
    return [
        conductor.work(("edit", edit), text="First the edit. "),
        conductor.work(("write", {"path": "notes.txt", "content": "one\ntwo\n"})),
        conductor.work(("bash", {"command": "git diff --stat; exit 3"})),
        conductor.work(("bash", {"command": "python3 -c 'print(1)'"}), ("read", {"path": "notes.txt"})),
    ]


def _long(conductor: Conductor) -> list[Step]:
    return [conductor.work(("read", {"path": "app.py", "offset": 1 + 100 * n, "limit": 160})) for n in range(16)]


@dataclass
class Turns:
    """Types prompts and waits until each is answered."""

    shown: Terminal
    conductor: Conductor
    server: ModelServer

    def ask(self, prompt: str, *steps: Step) -> None:
        """A prompt that takes these steps."""
        self.conductor.plan(*steps)
        expected = len(self.server.requests) + len(steps)
        self.shown.line(prompt)
        self._wait(expected)
        self.shown.settle(0.5, 20)

    def stop(self, prompt: str, step: Step, *, quiet: float) -> None:
        """A prompt whose first step is stopped by ESC after `quiet` seconds."""
        self.conductor.plan(step)
        expected = len(self.server.requests) + 1
        self.shown.line(prompt)
        self._wait(expected)
        end = time.monotonic() + quiet  # a bar turns while it waits: the screen never gets quiet
        while time.monotonic() < end:
            self.shown.pump()
        self.shown.key("esc")
        self.shown.settle(0.5, 20)

    def command(self, line: str) -> None:
        """A command, which asks the model nothing."""
        self.shown.line(line)
        self.shown.settle(0.5, 20)

    def _wait(self, count: int) -> None:
        end = time.monotonic() + 60
        while len(self.server.requests) < count and time.monotonic() < end:
            self.shown.pump()


def fresh() -> tuple[Path, Path]:
    shutil.rmtree(PLACE, ignore_errors=True)
    workspace, home = PLACE / "work", PLACE / "home"
    home.mkdir(parents=True)
    repo.plain(workspace, _FILES)
    for path in sorted(workspace.rglob("*")):
        if ".git" not in path.parts:
            os.utime(path, (1_767_225_600, 1_767_225_600))
    return workspace, home


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
