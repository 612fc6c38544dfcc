"""Runs a hook: a shell command that reads JSON and decides by its exit status and output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codelet.extensions.hooks.hook_file import Hook
from codelet.record import Record
from codelet.system.process import StartError, capture, child_environment
from codelet.system.text import clean, one_line

_MOST_OUTPUT = 1 << 20
_LONGEST = 8_000
"""The longest text of a hook for the model, in characters."""
_BLOCKS = 2
"""The exit status that refuses."""


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

    def said(table: dict[str, Any], name: str) -> str:
        value = table.get(name)
        return clean(value).strip()[:_LONGEST] if isinstance(value, str) else ""

    decision = said(own, "permissionDecision") or {"block": "deny"}.get(said(found, "decision"), "")
    reason = said(own, "permissionDecisionReason") or said(found, "reason") or "a hook of the user's says so"
    stops = found.get("continue") is False
    if stops and not decision and event != "Stop":
        decision, reason = "deny", said(found, "stopReason") or reason
    updated = own.get("updatedInput")
    return HookReply(
        denies=reason if decision == "deny" else "",
        asks=reason if decision == "ask" else "",
        context=said(own, "additionalContext"),
        note=said(found, "systemMessage"),
        arguments=updated if isinstance(updated, dict) else None,
        ends=stops and event == "Stop",
    )
