"""Diagnostics: after a call that wrote a file, the user's checkers say what is wrong with it, and the model gets that
with the call's result.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct, structs

from codelet.errors import ToolError, UsageError
from codelet.extensions.base import Extension, Guard, GuardedCall, OpenedWith
from codelet.extensions.front_matter import converted
from codelet.record import Record
from codelet.system.process import StartError, child_environment, find_program, run_child
from codelet.system.process.start import supplied_by
from codelet.system.text import clean, one_line
from codelet.tools.tool import ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

FILE = "{file}"
"""The placeholder for the changed file in a checker's command."""
LINES = (
    r"\s*(?P<path>[^\s:(][^:(]*)"
    r"(?::(?P<line>\d+)(?::\d+)?(?:-[\d:]+)?|\((?P<row>\d+)(?:,\d+)?\))\s*(?::|-)\s*(?P<text>.+)"
)
"""Matches `PATH:LINE:COLUMN: TEXT` and `PATH(LINE,COLUMN): TEXT`, the forms of compilers."""
_LONGEST_LINE = 2_000
_Words = Annotated[tuple[Annotated[str, Meta(pattern=r"\A[^\0]+\Z")], ...], Meta(min_length=1)]


class Complaint(Record):
    """One problem in a file; `line` counts from 1, 0 if it is not known."""

    line: int
    text: str


class Checker(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A program that checks files whose name, or path in the workspace, matches one of the patterns `files`.

    Its `command` runs in the workspace. `lines` is the regular expression of a line of its output, with the groups
    `text`, `line` and `path`; without `path` each line is about the changed file. `timeout` is in seconds.
    """

    name: str
    command: _Words
    files: _Words
    lines: str = LINES
    timeout: Annotated[float, Meta(gt=0, le=120)] = 10.0

    def fits(self, path: str) -> bool:
        name = os.path.basename(path)
        return any(fnmatchcase(path if "/" in each else name, each) for each in self.files)

    def refuse_workspace(self, workspace: Path) -> None:
        """Raise UsageError if its program, or a file that its command names, is one that the model could change."""
        for place, word in enumerate(self.command):
            path = os.path.join(workspace, os.path.expanduser(word))
            searched = not place and "/" not in word  # in PATH, not in the workspace
            if not searched and os.path.isfile(path) and supplied_by(workspace, path):
                raise UsageError(f"checkers: {self.name}: {word} is in the workspace, where the model could change it")

    def complaints(self, output: str, file: str, workspace: Path) -> tuple[list[Complaint], bool]:
        """Return the complaints about the file at the path `file`, and whether there is one about any file."""
        found: list[Complaint] = []
        is_any, form = False, re.compile(self.lines)
        for line in output.splitlines():
            groups = match.groupdict() if (match := form.match(line[:_LONGEST_LINE])) else None
            if groups is None or not (groups["text"] or "").strip():
                continue
            is_any, path = True, groups.get("path")
            if path is None or os.path.realpath(os.path.join(workspace, path.strip())) == file:
                number = groups.get("line") or groups.get("row") or ""
                found.append(Complaint(int(number[:9]) if number.isdecimal() else 0, groups["text"].strip()))
        return found, is_any


def _known(command: str, *files: str, timeout: float = 10.0) -> Checker:
    words = tuple(command.split())
    return Checker(name=words[0], command=words, files=files, timeout=timeout)


_PYTHON = ("*.py", "*.pyi")
KNOWN = {
    each.name: each
    for each in (
        _known("ruff check --no-cache --quiet --output-format concise {file}", *_PYTHON),
        _known("mypy --cache-dir=/dev/null --no-error-summary --hide-error-context {file}", *_PYTHON),
        _known("pyright {file}", *_PYTHON),
        _known("basedpyright {file}", *_PYTHON),
        _known("gopls check {file}", "*.go", timeout=30.0),
        _known("shellcheck --format gcc {file}", "*.sh", "*.bash"),
        _known("tsc --noEmit --pretty false --project .", "*.ts", "*.tsx", "*.mts", "*.cts", timeout=30.0),
    )
}


def checkers_from(value: object) -> tuple[Checker, ...]:
    """Return the checkers that a list of known names, a text with commas, or a table names. Raises ValueError."""
    if isinstance(value, Mapping):
        return tuple(_defined(name, table) for name, table in value.items() if table is not False)
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(each, str) for each in names):
        raise ValueError("must be names, or a table for each checker, such as [checkers.NAME]")
    return tuple(_named(each.strip()) for each in dict.fromkeys(names) if each.strip())


def _named(name: str) -> Checker:
    if name not in KNOWN:
        raise ValueError(f"there is no checker {name!r}; known are {', '.join(KNOWN)}, others need [checkers.NAME]")
    return KNOWN[name]


def _defined(name: str, table: object) -> Checker:
    if table is True:
        return _named(name)
    if not isinstance(table, Mapping):
        raise ValueError(f"{name}: must be true, false or a table")
    known = structs.asdict(KNOWN[name]) if name in KNOWN else {}
    try:
        checker = converted({**known, **table, "name": name}, Checker)
        if "text" not in re.compile(checker.lines).groupindex:
            raise ValueError("lines must be a regular expression with a group (?P<text>…)")
    except re.error as error:
        raise ValueError(f"{name}: lines is no regular expression: {error}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return checker


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
