"""Diagnostics: after a call that wrote a file, the user's checkers say what is wrong with it, and the model gets that
with the call's result.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import ToolError
from codelet.extensions.base import Extension, Guard, GuardedCall, OpenedWith
from codelet.extensions.diagnostics.checker import FILE, Checker, Complaint
from codelet.system.process import StartError, child_environment, find_program, run_child
from codelet.system.text import clean, one_line
from codelet.tools.tool import ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_MOST_OUTPUT = 1 << 20
_MOST_COMPLAINTS, _LONGEST_COMPLAINT = 20, 300
_MOST_FAILURES = 2
"""A checker that fails so often in a row is not run again in the session."""
_REPORT = "\n\n[{name}: {count} new problem{s} in {path}]\n{lines}"
_MORE = "({count} more)"


class CheckerFailed(Exception):
    """A checker could not check; the text is one line."""


class Diagnostics(Extension, Guard):
    """Runs the checkers of a session around calls that write a file.

    Only problems that a file did not have before the session's first change of it are reported; their texts are
    compared, not their lines.
    """

    def __init__(self, given: OpenedWith) -> None:
        self.guards = (self,)
        self._checkers: Sequence[Checker] = given.settings.checkers
        self._session: SessionView
        self._before: dict[tuple[str, str], Counter[str]] = {}
        self._failures = Counter[str]()

    def attach(self, session: SessionView) -> None:
        self._session = session
        for checker in self._checkers:
            checker.refuse_workspace(session.workspace)

    async def starting(self, call: GuardedCall) -> None:
        """Note the problems of a file that is about to be changed for the first time."""
        if (path := self._written(call)) is not None and path.is_file():
            unknown = [each for each in self._for(path) if (each.name, str(path)) not in self._before]
            for name, complaints in (await self._run(unknown, path)).items():
                self._before[name, str(path)] = Counter(each.text for each in complaints)

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        path = self._written(call) if call.ran and not output.failed else None
        if path is None:
            return output
        counts: list[str] = []
        for name, complaints in (await self._run(self._for(path), path)).items():
            before = self._before.setdefault((name, str(path)), Counter[str]())
            if new := _unseen(complaints, before):
                counts.append(f"{name}: {len(new)} new problem{'s' if len(new) > 1 else ''}")
                shown = os.path.relpath(path, self._session.workspace)
                output = output.replace(text=output.text + _report(name, shown, new))
        return output.replace(caveat=output.caveat or ", ".join(counts))

    def _written(self, call: GuardedCall) -> Path | None:
        """Return the file in the workspace that the call writes, with its links followed."""
        place = None if call.verdict is None else call.verdict.place
        writes = any(touch.kind == "write" for touch in call.touches or ())
        inside = place is not None and place.resolve().is_relative_to(self._session.workspace.resolve())
        return place.resolve() if place is not None and writes and inside else None

    def _for(self, path: Path) -> list[Checker]:
        name = str(path.relative_to(self._session.workspace.resolve()))
        working = (each for each in self._checkers if self._failures[each.name] < _MOST_FAILURES)
        return [each for each in working if each.fits(name)]

    async def _run(self, checkers: Sequence[Checker], path: Path) -> Mapping[str, list[Complaint]]:
        """Run the checkers side by side; return the complaints of those that could check."""
        async with asyncio.TaskGroup() as group:
            tasks = {each.name: group.create_task(self._complaints(each, path)) for each in checkers}
        return {name: found for name, task in tasks.items() if (found := task.result()) is not None}

    async def _complaints(self, checker: Checker, path: Path) -> list[Complaint] | None:
        """Return the complaints, or None after a failure, which is a notice."""
        try:
            found = await self._check(checker, path)
        except CheckerFailed as error:
            self._failures[checker.name] += 1
            off = "; it is not run again" if self._failures[checker.name] >= _MOST_FAILURES else ""
            self._session.notices.say(f"the checker {checker.name} {error}{off}", once=f"checker {checker.name}{off}")
            return None
        self._failures.pop(checker.name, None)
        return found

    async def _check(self, checker: Checker, path: Path) -> list[Complaint]:
        workspace = self._session.workspace.resolve()
        argv, environment = await self._prepared(checker, f"./{path.relative_to(workspace)}")
        size = 0

        def floods(data: bytes) -> bool:
            nonlocal size
            size += len(data)
            return size > _MOST_OUTPUT

        try:
            done = await run_child(
                argv,
                cwd=workspace,
                environment=environment,
                timeout=checker.timeout,
                output_limit=_MOST_OUTPUT,
                stop_when=floods,
            )
        except StartError as error:
            raise CheckerFailed(f"cannot be run: {error}") from None
        if done.timed_out:
            raise CheckerFailed(f"did not end within {checker.timeout:g} s")
        if done.stopped:
            raise CheckerFailed(f"printed more than {_MOST_OUTPUT >> 20} MiB")
        found, is_any = await asyncio.to_thread(checker.complaints, clean(done.output), str(path), workspace)
        if done.exit_code and not is_any:
            first = one_line(clean(done.output).strip().partition("\n")[0], 200)
            raise CheckerFailed(f"failed with exit code {done.exit_code}{f': {first}' if first else ''}")
        return found

    async def _prepared(self, checker: Checker, file: str) -> tuple[Sequence[str], dict[str, str]]:
        """Return the words and the variables that run a checker on a file, as a command that only reads runs."""
        from codelet.safety.sandbox import variables_for_reading

        workspace, sandbox = self._session.workspace.resolve(), self._session.safeguards.sandbox
        environment = variables_for_reading(child_environment())
        name, *rest = checker.command
        name = os.path.expanduser(name)
        program = name if "/" in name else find_program(name, workspace, environment)
        if program is None or not os.access(program, os.X_OK):
            self._failures[checker.name] = _MOST_FAILURES
            where = "" if "/" in name else " outside the workspace"
            raise CheckerFailed(f"cannot be run: there is no program {checker.command[0]}{where}")
        environment["PATH"] = f"{os.path.dirname(program)}{os.pathsep}{environment.get('PATH', '')}"
        words = [program, *(each.replace(FILE, file) for each in rest)]
        if sandbox is None or not sandbox.wanted:
            return words, environment
        try:
            works = await sandbox.works()
        except ToolError:
            works = False
        if not works:
            self._failures[checker.name] = _MOST_FAILURES
            raise CheckerFailed("is not run: no sandbox works here. With --sandbox off checkers run without one")
        command = f"XDG_CACHE_HOME=${{TMPDIR:-/tmp}} exec {shlex.join(words)}"  # the only folder that it can write
        return sandbox.wrap(command, environment, "read-only"), environment


def _unseen(complaints: Sequence[Complaint], before: Counter[str]) -> list[Complaint]:
    """Return the complaints beyond those of the same texts that there were before."""
    left, found = Counter[str](before), list[Complaint]()
    for each in complaints:
        if left[each.text]:
            left[each.text] -= 1
        else:
            found.append(each)
    return found


def _report(name: str, path: str, complaints: Sequence[Complaint]) -> str:
    lines = [
        one_line(f"line {each.line}: {each.text}" if each.line else each.text, _LONGEST_COMPLAINT)
        for each in complaints[:_MOST_COMPLAINTS]
    ]
    if len(complaints) > _MOST_COMPLAINTS:
        lines.append(_MORE.format(count=len(complaints) - _MOST_COMPLAINTS))
    s = "" if len(complaints) == 1 else "s"
    return _REPORT.format(name=name, count=len(complaints), s=s, path=path, lines="\n".join(lines))
