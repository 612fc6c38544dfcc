"""Hooks as the user writes them, in the settings file or a JSON file in Claude Code's form; and how one is run."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from codelet.errors import UsageError
from codelet.extensions.front_matter import FileFault, converted, read_json_file
from codelet.record import Record
from codelet.system.process import StartError, capture, child_environment
from codelet.system.text import clean, one_line

EVENTS = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SessionStart", "SessionEnd", "PreCompact")
"""The events for which codelet runs hooks."""
NAMES = {"bash": "Bash", "edit": "Edit", "write": "Write", "read": "Read", "grep": "Grep", "find": "Glob"} | {
    "plan": "TodoWrite", "skill": "Skill", "task": "Task", "fetch": "WebFetch", "ask_user": "AskUserQuestion",
}  # fmt: skip
"""Claude Code's names of codelet's tools."""

_MOST = 100
_LARGEST = 256 << 10
_MOST_OUTPUT = 1 << 20
_LONGEST = 8_000
"""The longest text of a hook for the model, in characters."""
_BLOCKS = 2
"""The exit status that refuses."""


class Hook(Struct, kw_only=True, frozen=True):
    """A shell `command` for an `event`; of calls only for tools whose name fits `matcher`. `timeout` is in seconds."""

    event: str
    command: Annotated[str, Meta(min_length=1)]
    matcher: str = ""
    timeout: Annotated[float, Meta(gt=0, le=600)] = 60.0
    type: Literal["command"] = "command"

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
    """Return the hooks in a JSON file. Raises ValueError."""
    try:
        value = read_json_file(Path(name).expanduser(), _LARGEST)
    except FileFault as fault:
        raise ValueError(f"{name}: {fault}") from None
    return hooks_from(value.get("hooks", value) if isinstance(value, dict) else value)


def hooks_from(value: object) -> tuple[Hook, ...]:
    """Return the hooks in a table of events, each with a list of hooks. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("must be a table of events, such as [[hooks.PreToolUse]]")
    found: list[Hook] = []
    for event, entries in value.items():
        try:
            for entry in converted(entries, list[dict[str, object]]):
                matcher = entry.get("matcher") or ""
                for hook in converted(entry.get("hooks", [entry]), list[dict[str, object]]):
                    found.append(converted({**hook, "event": event, "matcher": matcher}, Hook))
                    if matcher != "*":
                        re.compile(found[-1].matcher)
        except re.error as error:
            raise ValueError(f"{event}: the matcher is no regular expression: {error}") from None
        except ValueError as error:
            raise ValueError(f"{event}: {error}") from None
    if len(found) > _MOST:
        raise ValueError(f"there are more than {_MOST} hooks")
    return tuple(found)


class HookReply(Record, kw_only=True):
    """A hook's reply. `denies` and `asks` are reasons, or "".

    `failed` is the hook's error, `context` is for the model, `note` for the user, `arguments` replace the call's. With
    `ends` the model may stop, whatever other hooks reply.
    """

    denies: str = ""
    asks: str = ""
    failed: str = ""
    context: str = ""
    note: str = ""
    arguments: dict[str, Any] | None = None
    ends: bool = False


async def run_hook(hook: Hook, given: dict[str, Any], workspace: Path, seconds: float) -> HookReply:
    """Run a hook for at most `seconds`, with `given` as JSON on its stdin."""
    try:
        done = await capture(
            ["/bin/sh", "-c", hook.command],
            cwd=workspace,
            environment=child_environment() | {"CLAUDE_PROJECT_DIR": str(workspace)},
            timeout=seconds,
            limit=_MOST_OUTPUT,
            stdin=json.dumps(given).encode(),
        )
    except StartError as error:
        return HookReply(failed=str(error))
    if done.timed_out:
        return HookReply(failed=f"it did not end within {seconds:g} s")
    if done.cut:
        return HookReply(failed=f"it printed more than {_MOST_OUTPUT >> 20} MiB")
    out, err = (clean(each.decode(errors="replace")).strip()[:_LONGEST] for each in (done.stdout, done.stderr))
    if done.exit_code == _BLOCKS:
        return HookReply(denies=err or "a hook of the user's says no")
    if done.exit_code:
        why = f": {one_line(err, 200)}" if err else ""
        return HookReply(failed=f"exit {done.exit_code}{why}")
    return _read(done.stdout, out, hook.event)


def _read(raw: bytes, text: str, event: str) -> HookReply:
    """Return the reply in the output of a hook that succeeded."""
    if not text.startswith("{"):
        return HookReply(context=text if event in ("UserPromptSubmit", "SessionStart") else "")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return HookReply(failed=f"its JSON cannot be read: {one_line(str(error), 200)}")
    own = found.get("hookSpecificOutput")
    own = own if isinstance(own, dict) else {}

    def text_in(table: dict[str, object], name: str) -> str:
        value = table.get(name)
        return clean(value).strip()[:_LONGEST] if isinstance(value, str) else ""

    decision = text_in(own, "permissionDecision") or {"block": "deny"}.get(text_in(found, "decision"), "")
    reason = text_in(own, "permissionDecisionReason") or text_in(found, "reason") or "a hook of the user's says so"
    stops = found.get("continue") is False
    if stops and not decision and event != "Stop":
        decision, reason = "deny", text_in(found, "stopReason") or reason
    updated = own.get("updatedInput")
    return HookReply(
        denies=reason if decision == "deny" else "",
        asks=reason if decision == "ask" else "",
        context=text_in(own, "additionalContext"),
        note=text_in(found, "systemMessage"),
        arguments=updated if isinstance(updated, dict) else None,
        ends=stops and event == "Stop",
    )
