"""Checkers: programs that report problems in a file. Some are known by name, the user's settings define others."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, structs

from codelet.errors import UsageError
from codelet.extensions.front_matter import converted
from codelet.record import Record
from codelet.system.process.start import supplied_by

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
