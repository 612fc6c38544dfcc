"""Sessions made up from a git history: what an agent would have read and written had it made those commits.

Real transcripts are few, and a method is easily fitted to them. A history gives others, of any repository: for each
commit the user asks with its subject line, the agent reads the two files that change most, writes what the commit
wrote, runs the tests and closes with the commit's body. The words, the files and the order of changes are real; the
course of each turn is made up, and rows about these sessions say so.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from context.readers import Message, Transcript

SESSIONS = 3
LONGEST = 600_000
_FILES = 5
_READ = 24_000
_LARGEST_CHANGE = 250
_HUNKS = 4
_HUNK = re.compile(r"^@@.*$", re.MULTILINE)


def sessions(repository: Path) -> list[Transcript]:
    """Three sessions, one from each third of a history. Raises CalledProcessError where there is no repository."""
    commits = _git(repository, "log", "--reverse", "--min-parents=1", "--max-parents=1", "--format=%H").split()
    size = max(1, len(commits) // SESSIONS)
    name = repository.resolve().name
    parts = [commits[number * size : (number + 1) * size] for number in range(SESSIONS)]
    return [
        Transcript(f"made up from {name}'s history, {number}", list(_session(repository, part)), [])
        for number, part in enumerate(parts, 1)
        if part
    ]


def _git(repository: Path, *arguments: str) -> str:
    """What git prints; undecodable bytes are replaced."""
    command = ["git", "-C", str(repository), "-c", "core.quotePath=off", *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True, errors="replace").stdout


def _session(repository: Path, commits: list[str]) -> Iterator[Message]:
    yield {"role": "system", "content": "You are a coding agent with the tools read, edit, write and bash."}
    size = 0
    for commit in commits:
        for message in _turn(repository, commit):
            size += len(json.dumps(message))
            yield message
        if size > LONGEST:
            return


def _turn(repository: Path, commit: str) -> Iterator[Message]:
    """The messages of one commit; none where it changes no text file, or too many, or too much of one."""
    rows = [
        line.split("\t")
        for line in _git(repository, "show", "--numstat", "--no-renames", "--format=", commit).splitlines()
    ]
    changed = sorted(((int(row[0]), row[2]) for row in rows if row[0].isdigit()), reverse=True)
    changed = [(lines, path) for lines, path in changed if lines <= _LARGEST_CHANGE]
    if not changed or len(changed) > 2 * _FILES:
        return
    subject, _, body = _git(repository, "log", "-1", "--format=%s%n%b", commit).partition("\n")
    yield {"role": "user", "content": subject}
    number = 0
    for place, (_, path) in enumerate(changed[:_FILES]):
        for name, arguments, result in _steps(repository, commit, path, read=place < 2):
            number += 1
            yield from _call(f"{commit[:7]}.{number}", name, arguments, result)
    yield from _call(f"{commit[:7]}.test", "bash", {"command": "python -m pytest -q"}, "48 passed in 2.1s")
    yield {"role": "assistant", "content": body.strip() or "Done."}


def _steps(repository: Path, commit: str, path: str, *, read: bool) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The calls for one file: name, arguments, result."""
    if not _git(repository, "ls-tree", f"{commit}~1", "--", path):
        yield "write", {"path": path, "content": _git(repository, "show", f"{commit}:{path}")}, f"wrote {path}"
        return
    if read:
        yield "read", {"path": path}, _git(repository, "show", f"{commit}~1:{path}")[:_READ]
    hunks = _HUNK.split(_git(repository, "show", "--format=", "-U2", commit, "--", path))[1:]
    for hunk in hunks[:_HUNKS]:
        lines = hunk.splitlines()
        old = "\n".join(line[1:] for line in lines if line[:1] in ("-", " "))
        new = "\n".join(line[1:] for line in lines if line[:1] in ("+", " "))
        yield "edit", {"path": path, "old": old, "new": new}, f"edited {path}"


def _call(number: str, name: str, arguments: dict[str, Any], result: str) -> Iterator[Message]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    yield {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": number, "type": "function", "function": function}],
    }
    yield {"role": "tool", "tool_call_id": number, "content": result}
