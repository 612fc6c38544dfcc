"""Write forty exports with a version of codelet, one for each feature on each way to a model.

What comes out is data for tests: a newer version has to load each, go on with it and export it again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.compare.requests import PLACE, Conductor, Turns, Way, fresh, ways
from tests.support.program import run
from tests.support.script import Reply, Step, Stop, StreamError
from tests.support.server import ModelServer
from tests.support.terminal import Terminal

_WAYS = ("chat", "messages", "litellm-chat", "vendor-deepseek")
_TARGET = PLACE / "session.json"
_IMPORTED: dict[str, Any] = {
    "version": "1.0",
    "timestamp": 1_767_225_600.0,
    "tokenCount": 12,
    "messages": [
        {"role": "user", "content": "Which parser do we use?"},
        {"role": "assistant", "content": "The one in src/parse.py."},
    ],
    "session_id": "imported",
    "model": None,
    "facts": ["the user prefers tabs", "python is 3.11"],
    "active_tasks": [
        {
            "id": "t1",
            "description": "watch the build",
            "status": "Running",
            "progress": 0.5,
            "created_at": 1_767_225_000,
            "updated_at": 1_767_225_500.5,
        }
    ],
    "plan": {
        "goal": "green",
        "current_step": 1,
        "status": "InProgress",
        "steps": [
            {"id": 0, "description": "fix", "status": "Completed", "result": "done"},
            {"id": 1, "description": "test", "status": "InProgress", "result": None},
        ],
    },
    "profile": "careful",
    "summary": "The parser was fixed.",
    "long_term_summary": "Older: the project was set up.",
    "system_state": {"branch": "main", "nested": {"deep": [1, 2.5, None, True]}},
}


class _Run:
    """One session of one feature: the server's plan, and the program with the way's arguments."""

    def __init__(self, way: Way, server: ModelServer, command: Sequence[str], root: Path) -> None:
        self.plan = Conductor()
        self._server = server
        self._way = way
        self._command = command
        self._workspace, self._home = fresh()
        self._variables: dict[str, str | None] = {"PYTHONPATH": str(root), "TZ": "UTC", **way.variables}
        server.script = self.plan.answer
        server.requests.clear()

    def once(self, prompt: str, *steps: Step, more: Sequence[str] = (), stdin: bytes | None = None) -> None:
        """One prompt in a pipe."""
        arguments = self._arguments(steps, more)
        options: Mapping[str, Any] = {"cwd": self._workspace, "home": self._home, "env": self._variables}
        run(*arguments, "-p", prompt, command=self._command, timeout=120, stdin=stdin, **options)

    def talk(self, *turns: Callable[[Turns], None], more: Sequence[str] = ()) -> None:
        """A conversation in a terminal."""
        size: Mapping[str, Any] = {"columns": 120, "rows": 40, "command": self._command}
        places: Mapping[str, Any] = {"cwd": self._workspace, "home": self._home, "env": self._variables}
        with Terminal(*self._arguments((), more), **places, **size) as shown:
            shown.wait_for("›", 60)
            for turn in turns:
                turn(Turns(shown, self.plan, self._server))
            shown.line("exit")
            shown.wait_exit()

    def _arguments(self, steps: Sequence[Step], more: Sequence[str]) -> list[str]:
        self.plan.plan(*steps)
        return [*self._way.arguments, "--export", str(_TARGET), "--resume", str(_TARGET), "--yes", *more]


def _plain(run: _Run) -> None:
    run.once("say hello", run.plan.say("Hello."))
    run.once("and again", run.plan.say("Hello again."))


def _tools(run: _Run) -> None:
    edit = {"path": "app.py", "edits": [{"old": "return value + 3\n", "new": "return value + 33\n"}]}
    calls = [("read", {"path": "app.py", "limit": 8}), ("grep", {"pattern": "function_77"})]
    steps = [run.plan.work(*calls), run.plan.work(("edit", edit)), run.plan.work(("bash", {"command": "false"}))]
    run.once("change it", *steps, run.plan.say("Changed."))


def _reasoning(run: _Run) -> None:
    first = run.plan.work(("read", {"path": "README.md"}), text="First. ", reasoning="What does it say? ")
    run.once("think", first, Reply("Done thinking.", reasoning="It says example."))


def _cut(run: _Run) -> None:
    run.once("tell a story", Reply(["Once ", "upon ", "a "], fault=StreamError("overloaded", after=4)))


def _stopped(run: _Run) -> None:
    story = Reply(["Once ", "upon ", "a time "], fault=Stop("stall", 3))
    run.talk(lambda turns: turns.stop("tell a story", story, quiet=0.8))


def _stopped_in_a_call(run: _Run) -> None:
    wait = run.plan.work(("bash", {"command": "echo begun; sleep 60"}), ("read", {"path": "README.md"}))
    run.talk(lambda turns: turns.stop("wait", wait, quiet=1.5))


def _compacted(run: _Run) -> None:
    pages = [run.plan.work(("read", {"path": "app.py", "offset": 1 + 100 * n, "limit": 70})) for n in range(18)]
    more = ("--budget", "6000", "--export-archive")
    run.once("read it all", *pages, run.plan.say("I found that function_7 adds seven."), more=more)
    run.once("and now?", run.plan.say("Nothing is left to do."), more=more)


def _pinned(run: _Run) -> None:
    def talk(turns: Turns) -> None:
        turns.ask("remember the number 42", run.plan.say("I do."))
        turns.ask("and 43", run.plan.say("That too."))
        turns.command("/pin 2")
        turns.command("/reminders gitStatus off")
        turns.ask("which?", run.plan.say("42 and 43."))

    run.talk(talk)


def _limited(run: _Run) -> None:
    reads = [run.plan.work(("read", {"path": "README.md"})) for _ in range(4)]
    run.once("go", *reads, more=("--max-turns", "2"))


def _imported(run: _Run) -> None:
    _TARGET.write_text(json.dumps(_IMPORTED), "utf-8")
    run.once("what was it?", run.plan.say("src/parse.py."))


_FEATURES: Mapping[str, Callable[[_Run], None]] = {
    "plain": _plain,
    "tools": _tools,
    "reasoning": _reasoning,
    "cut": _cut,
    "stopped": _stopped,
    "stopped-in-a-call": _stopped_in_a_call,
    "compacted": _compacted,
    "pinned": _pinned,
    "limited": _limited,
    "imported": _imported,
}


def main(command: Sequence[str], root: Path, names: Sequence[str]) -> dict[str, Any]:
    """Every feature's export on every way, by `feature.way`."""
    made: dict[str, Any] = {}
    with ModelServer(models=("scripted",)) as server:
        known = {way.name: way for way in ways(server.base)}
        for way in (known.get(name) for name in _WAYS):
            for feature, record in _FEATURES.items() if way is not None else ():
                if names and feature not in names:
                    continue
                shutil.rmtree(PLACE, ignore_errors=True)
                record(_Run(way, server, [*command, "-m", "codelet"], root))
                document = json.loads(_TARGET.read_text("utf-8"))
                document["last_known_environment"] |= {"processes": []}  # whoever records runs programs of his own
                made[f"{feature}.{way.name}"] = document
                print(f"{feature}.{way.name}: {_TARGET.stat().st_size} bytes", flush=True)
    return made
