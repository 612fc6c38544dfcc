"""Hooks: the user's programs around calls, prompts, the end of turns, compactions and the session.

They use Claude Code's JSON. If a PreToolUse hook fails, the user is asked about the call; other failures are notices.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from codelet import prompt
from codelet.errors import PromptRefused
from codelet.extensions.base import Extension, Guard, GuardedCall, OpenedWith
from codelet.extensions.hooks.hook_file import EVENTS, NAMES, Hook, HookReply, run_hook
from codelet.record import Record
from codelet.safety.secrets import without_secrets
from codelet.safety.verdict import Verdict, VerdictAction
from codelet.system.text import one_line
from codelet.tools.tool import Arguments, ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

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
        async with aclosing(self._asked("PreToolUse", call.name, lambda: self._about(call, arguments))) as replies:
            async for hook, reply in replies:
                if reply.denies:
                    return _Decided(arguments=arguments, verdict=_verdict("deny", reply.denies))
                if why := reply.asks or (f"the hook {hook.command!r} failed: {reply.failed}" if reply.failed else ""):
                    verdict = verdict or _verdict("ask", why)
                if reply.arguments is not None:
                    arguments = self._merged(arguments, reply.arguments)
                context.append(reply.context)
        return _Decided(arguments=arguments, verdict=verdict, context="\n".join(filter(None, context)))

    def _merged(self, arguments: Arguments, wanted: dict[str, Any]) -> Arguments:
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
        async with aclosing(self._asked("PostToolUse", call.name, lambda: given)) as replies:
            async for _, reply in replies:
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
        async with aclosing(self._asked("UserPromptSubmit", "", lambda: {"prompt": text})) as replies:
            async for _, reply in replies:
                if reply.denies:
                    raise PromptRefused(f"a hook refused the prompt: {one_line(reply.denies, 500)}")
                added.append(reply.context)
        return "\n".join(filter(None, added)) or None

    async def stopping(self, answer: str) -> str | None:
        given = {"stop_hook_active": self._goes_on, "last_assistant_message": answer}
        why = ""
        async with aclosing(self._asked("Stop", "", lambda: given)) as replies:
            async for _, reply in replies:
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

    async def _notify(self, event: str, given: dict[str, Any], most: float | None = None) -> list[str]:
        """Run the hooks of an event that cannot decide; return their texts for the model."""
        added: list[str] = []
        async with aclosing(self._asked(event, "", lambda: given, most)) as replies:
            async for hook, reply in replies:
                if reply.denies:
                    self._session.notices.say(f"the hook {hook.command!r} of {event} cannot refuse: {reply.denies}")
                added.append(reply.context)
        return added

    async def _asked(
        self, event: str, tool: str, given: Callable[[], dict[str, Any]], most: float | None = None
    ) -> AsyncGenerator[tuple[Hook, HookReply], None]:
        """Yield the replies of an event's hooks, one after the other. Failures and notes become notices.

        `most` is the time limit of all together, in seconds.
        """
        session, begun = self._session, time.monotonic()
        for hook in self._hooks:
            if hook.event != event or (tool and not hook.fits(tool)):
                continue
            about = {
                "session_id": self._id,
                "cwd": str(session.workspace),
                "permission_mode": _MODES[session.policy.mode],
                "hook_event_name": event,
                **given(),
            }
            shown = without_secrets(about, session.safeguards.hides)
            left = hook.timeout if most is None else max(0.0, most - (time.monotonic() - begun))
            reply = await run_hook(hook, shown, session.workspace, min(hook.timeout, left))
            if reply.failed and (event != "PreToolUse" or session.toolbox.ask is None):  # else the question says it
                session.notices.say(f"the hook {hook.command!r} of {event} failed: {reply.failed}")
            if reply.note:
                session.notices.say(f"hook: {one_line(reply.note, 500)}")
            yield hook, reply

    def _about(self, call: GuardedCall, arguments: Arguments) -> dict[str, Any]:
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
