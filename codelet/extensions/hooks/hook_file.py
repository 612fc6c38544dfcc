"""Hooks as the user writes them: tables in the settings file, or a JSON file in Claude Code's form."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codelet.errors import UsageError
from codelet.record import Record

EVENTS = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SessionStart", "SessionEnd", "PreCompact")
"""The events for which codelet runs hooks."""
NAMES = {"bash": "Bash", "edit": "Edit", "write": "Write", "read": "Read", "grep": "Grep", "find": "Glob"} | {
    "plan": "TodoWrite", "skill": "Skill", "task": "Task", "fetch": "WebFetch", "ask_user": "AskUserQuestion",
}  # fmt: skip
"""Claude Code's names of codelet's tools."""

_SECONDS = 60.0
_MOST_SECONDS = 600.0
_MOST = 100
_LARGEST = 256 << 10


class Hook(Record, kw_only=True):
    """A shell `command` for an `event`; of calls only for tools whose name fits `matcher`. `timeout` is in seconds."""

    event: str
    command: str
    matcher: str = ""
    timeout: float = _SECONDS

    def fits(self, tool: str) -> bool:
        """Return whether it is for calls of this tool, by its name here or in Claude Code."""
        names = (tool, NAMES.get(tool, tool))
        return self.matcher in ("", "*") or any(re.fullmatch(self.matcher, name) for name in names)

    def check(self, workspace: Path, own_folder: Path | None) -> None:
        """Raise UsageError for a missing program, or one that the model could change.

        `own_folder`, the folder of the user's settings, is allowed even inside the workspace.
        """
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise UsageError(f"hooks: {self.event}: {self.command!r}: {error}") from None
        for place, word in enumerate(words):
            project = re.sub(r"\$\{?CLAUDE_PROJECT_DIR\}?", lambda _: str(workspace), word)
            path = Path(os.path.abspath(os.path.join(workspace, os.path.expanduser(project))))
            if not place and "/" in word and "$" not in project and not path.exists():
                raise UsageError(f"hooks: {self.event}: there is no program {word}")
            own = own_folder is not None and path.is_relative_to(own_folder)
            if path.is_file() and path.resolve().is_relative_to(workspace.resolve()) and not own:
                raise UsageError(f"hooks: {self.event}: {word} is in the workspace, where the model could change it")


def hooks_in_file(name: str) -> tuple[Hook, ...]:
    """The hooks in a JSON file. Raises ValueError."""
    try:
        with open(os.path.expanduser(name), "rb") as file:
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise ValueError(f"{name} is larger than {_LARGEST >> 10} KiB")
        value = json.loads(raw)
    except OSError as error:
        raise ValueError(f"{name}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: {error}") from None
    return hooks_from(value.get("hooks", value) if isinstance(value, dict) else value)


def hooks_from(value: object) -> tuple[Hook, ...]:
    """The hooks in a table of events, each with a list of hooks. Raises ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a table of events, such as [[hooks.PreToolUse]]")
    found = tuple(hook for event, entries in value.items() for hook in _of_event(event, entries))
    if len(found) > _MOST:
        raise ValueError(f"there are more than {_MOST} hooks")
    return found


def _of_event(event: str, entries: object) -> Iterator[Hook]:
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError(f"{event} must be a list of hooks")
    for entry in entries:
        matcher = entry.get("matcher") or ""
        inner = entry.get("hooks", [entry])
        if not isinstance(matcher, str) or not isinstance(inner, list):
            raise ValueError(f"{event}: a matcher must be a text, and hooks a list")
        try:
            re.compile(matcher if matcher != "*" else "")
        except re.error as error:
            raise ValueError(f"{event}: the matcher {matcher!r} is no regular expression: {error}") from None
        for hook in inner:
            yield _hook(event, matcher, hook)


def _hook(event: str, matcher: str, hook: Any) -> Hook:
    kind = hook.get("type", "command") if isinstance(hook, Mapping) else None
    if kind != "command":
        raise ValueError(f"{event}: only hooks of the type command run here, not {kind!r}")
    command, seconds = hook.get("command"), hook.get("timeout", _SECONDS)
    if not isinstance(command, str) or not command.strip():
        raise ValueError(f"{event}: a hook needs a command")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _MOST_SECONDS:
        raise ValueError(f"{event}: a timeout is a number of seconds up to {_MOST_SECONDS:g}")
    return Hook(event=event, matcher=matcher, command=command, timeout=float(seconds))
