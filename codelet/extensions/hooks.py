"""Hooks: the user's programs around calls, prompts, the end of turns, compactions and the session.

They use Claude Code's JSON. If a PreToolUse hook fails, the user is asked about the call; other failures are notices.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import uuid4

from msgspec import Meta, Struct

from codelet import prompt
from codelet.errors import PromptRefused, UsageError
from codelet.extensions.base import Extension, Guard, GuardedCall, OpenedWith
from codelet.extensions.front_matter import FileFault, converted, read_json_file
from codelet.record import Record
from codelet.safety.secrets import without_secrets
from codelet.safety.verdict import Verdict, VerdictAction
from codelet.system.process import StartError, capture, child_environment
from codelet.system.text import clean, one_line
from codelet.tools.tool import Arguments, ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

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


async def run_hook(hook: Hook, given: dict[str, object], workspace: Path, seconds: float) -> HookReply:
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


_ENDING_SECONDS = 4.0
"""The time limit of all SessionEnd hooks together."""
_MODES = {"ask": "default", "auto-edit": "acceptEdits", "auto": "acceptEdits", "read-only": "plan"}
"""Claude Code's names of the modes."""


class _Decided(Record, kw_only=True):
    """The hooks' decision on a call with these arguments."""

    arguments: Arguments
    verdict: Verdict | None
    context: str = ""


class Hooks(Extension, Guard):
    """The hooks of one session."""

    def __init__(self, given: OpenedWith) -> None:
        self.guards = (self,)
        self._hooks: tuple[Hook, ...] = given.settings.hooks
        self._own_folder = given.settings.own_folder
        self._decided: dict[str, _Decided] = {}
        self._id = str(uuid4())
        self._prompted = False
        self._goes_on = False
        self._session: SessionView

    def attach(self, session: SessionView) -> None:
        self._session = session
        for hook in self._hooks:
            hook.check(session.workspace, self._own_folder)
        if unknown := sorted({hook.event for hook in self._hooks}.difference(EVENTS)):
            session.notices.say(f"hooks of {', '.join(unknown)} are not run: codelet has no such moment")

    async def before(self, call: GuardedCall) -> Verdict | Arguments | None:
        """Run the hooks once, before the verdict; again only if another guard has changed the arguments since."""
        decided = self._decided.get(call.id)
        if call.verdict is not None and decided is not None and decided.arguments == call.arguments:
            return decided.verdict
        self._decided[call.id] = decided = await self._decide(call)
        if call.verdict is None:
            return decided.arguments if decided.arguments != call.arguments else None
        if decided.arguments != call.arguments:  # too late to change them
            return decided.verdict or _verdict("ask", "a hook of the user's wants other arguments")
        return decided.verdict

    async def _decide(self, call: GuardedCall) -> _Decided:
        verdict: Verdict | None = None
        context: list[str] = []
        arguments = call.arguments
        for hook in self._hooks_for("PreToolUse", call.name):
            reply = await self._run(hook, self._about(call, arguments))
            if reply.denies:
                return _Decided(arguments=arguments, verdict=_verdict("deny", reply.denies))
            if why := reply.asks or (f"the hook {hook.command!r} failed: {reply.failed}" if reply.failed else ""):
                verdict = verdict or _verdict("ask", why)
            if reply.arguments is not None:
                arguments = self._merged(arguments, reply.arguments)
            context.append(reply.context)
        return _Decided(arguments=arguments, verdict=verdict, context="\n".join(filter(None, context)))

    def _merged(self, arguments: Arguments, wanted: dict[str, object]) -> Arguments:
        """Return the arguments that a hook asks for. Values that it saw masked and did not change stay unchanged."""
        shown = without_secrets(arguments, self._session.safeguards.hides)
        if "path" in arguments and "file_path" not in arguments:
            path = wanted.pop("file_path", shown["path"])
            wanted["path"] = path if wanted.get("path", shown["path"]) == shown["path"] else wanted["path"]
        return {name: arguments[name] if shown.get(name) == value else value for name, value in wanted.items()}

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """Return the output with the hooks' texts for the model; hooks are skipped for calls that did not run."""
        decided = self._decided.pop(call.id, None)
        if not call.ran:
            return output
        added = [] if decided is None else [decided.context]
        given = self._about(call, call.arguments) | {"tool_response": {"text": output.text, "failed": output.failed}}
        for hook in self._hooks_for("PostToolUse", call.name):
            reply = await self._run(hook, given)
            added += [reply.denies, reply.context]
        notes = "".join(prompt.HOOK_SAYS.format(text=text) for text in added if text)
        return output.replace(text=f"{output.text}{notes}") if notes else output

    async def prompted(self, text: str) -> str | None:
        added: list[str] = []
        if not self._prompted:
            self._prompted = True
            source = "resume" if self._session.messages else "startup"
            added += await self._notify("SessionStart", {"source": source})
        self._goes_on = False
        for hook in self._hooks_for("UserPromptSubmit"):
            reply = await self._run(hook, {"prompt": text})
            if reply.denies:
                raise PromptRefused(f"a hook refused the prompt: {one_line(reply.denies, 500)}")
            added.append(reply.context)
        return "\n".join(filter(None, added)) or None

    async def stopping(self, answer: str) -> str | None:
        given = {"stop_hook_active": self._goes_on, "last_assistant_message": answer}
        why = ""
        for hook in self._hooks_for("Stop"):
            reply = await self._run(hook, given)
            if reply.ends:
                return None
            why = why or reply.denies
        self._goes_on = bool(why)
        return why or None

    async def compacting(self, reason: str) -> None:
        await self._notify("PreCompact", {"trigger": "manual" if reason == "asked" else "auto"})

    async def between_turns(self) -> None:
        self._decided.clear()

    async def close(self) -> None:
        if self._prompted:
            await self._notify("SessionEnd", {"reason": "other"}, _ENDING_SECONDS)

    async def _notify(self, event: str, given: dict[str, object], most: float = math.inf) -> list[str]:
        """Run an event's hooks, which cannot decide, for at most `most` seconds; return their texts for the model."""
        added: list[str] = []
        end = time.monotonic() + most
        for hook in self._hooks_for(event):
            reply = await self._run(hook, given, max(0.0, end - time.monotonic()))
            if reply.denies:
                self._session.notices.say(f"the hook {hook.command!r} of {event} cannot refuse: {reply.denies}")
            added.append(reply.context)
        return added

    def _hooks_for(self, event: str, tool: str = "") -> list[Hook]:
        return [hook for hook in self._hooks if hook.event == event and (not tool or hook.fits(tool))]

    async def _run(self, hook: Hook, given: dict[str, object], most: float = math.inf) -> HookReply:
        """Run a hook for at most `most` seconds. Its failure and its note become notices."""
        session = self._session
        about = {
            "session_id": self._id,
            "cwd": str(session.workspace),
            "permission_mode": _MODES[session.policy.mode],
            "hook_event_name": hook.event,
            **given,
        }
        shown = without_secrets(about, session.safeguards.hides)
        reply = await run_hook(hook, shown, session.workspace, min(hook.timeout, most))
        if reply.failed and (hook.event != "PreToolUse" or session.toolbox.ask is None):  # else the question says it
            session.notices.say(f"the hook {hook.command!r} of {hook.event} failed: {reply.failed}")
        if reply.note:
            session.notices.say(f"hook: {one_line(reply.note, 500)}")
        return reply

    def _about(self, call: GuardedCall, arguments: Arguments) -> dict[str, object]:
        """Return a call as a hook gets it, with Claude Code's names in addition to codelet's."""
        path = {"file_path": arguments["path"]} if isinstance(arguments.get("path"), str) else {}
        return {
            "tool_name": NAMES.get(call.name, call.name),
            "codelet_tool": call.name,
            "tool_input": {**path, **arguments},
            "tool_use_id": call.id,
        }


def _verdict(action: VerdictAction, reason: str) -> Verdict:
    return Verdict(action, "execute", reason)
