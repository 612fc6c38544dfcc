"""One session of an editor: its turns, its questions, and its options."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from codelet import events
from codelet.context import Attached
from codelet.errors import CodeletError
from codelet.extensions.services import asking
from codelet.frontends.acp.json_lines import (
    BAD_PARAMETERS,
    INVALID_REQUEST,
    Block,
    Json,
    Peer,
    Permission,
    RpcError,
    content_of,
)
from codelet.frontends.acp.updates import Updates, select, stop_reason
from codelet.loop.session import Session
from codelet.opening import mentioned, models_to_choose, provider_named, reserved_for, session_from, turn_of
from codelet.providers.effort import taken_words
from codelet.providers.protocol import EFFORTS
from codelet.safety.verdict import MODES, Answer, Question, mode_named
from codelet.settings import Settings

if TYPE_CHECKING:
    from codelet.export.live import LiveExport

_OWN_EFFORT = "default"
_MODELS_SECONDS = 3.0
_MOST_MODELS = 200
_KINDS = {"yes": "allow_once", "always": "allow_always", "mode": "allow_always", "no": "reject_once"}
_BUSY = "a turn is running in this session: cancel it, or wait for its end"


class EditorSession:
    """A session, known to the editor as `name`; `session` and `updates` are set by `open`."""

    session: Session
    updates: Updates

    def __init__(self, name: str, peer: Peer, settings: Settings) -> None:
        self.name = name
        self._peer = peer
        self._settings = settings
        self._export: LiveExport | None = None
        self._has_prompts = False
        self._running: asyncio.Task[str] | None = None
        self._models: Sequence[str] = ()
        self._questions = count(1)

    async def open(self, folder: Path) -> None:
        """Open the session in a folder. Raises CodeletError."""
        reserved = await reserved_for(self._settings)
        async with reserved or nullcontext():
            self.session = await session_from(
                self._settings, folder, ask=self._ask, extensions=[asking()], reserved=reserved
            )
            if reserved is not None:
                from codelet.export.live import LiveExport

                try:
                    self._export = await LiveExport.begin(self.session, self._settings, reserved)
                    self._export.look({"workspace": str(folder)})  # the list of sessions needs it
                except BaseException:
                    await self.session.close()
                    raise
        self.updates = Updates(folder, self.session.toolbox.tool_named)
        current = self.session.provider.model
        try:
            async with asyncio.timeout(_MODELS_SECONDS):
                found = [model.name for model in await models_to_choose(self._settings, current)]
        except (CodeletError, TimeoutError):  # the server lists none
            found = []
        self._models = list(dict.fromkeys([current, *found]))[:_MOST_MODELS]

    async def close(self) -> None:
        """Stop the turn, save the session unless it is new and had no prompt, and end it. Raises ExportError."""
        await self.cancel()
        try:
            if self._export is not None and (self._has_prompts or self._export.resumed is not None):
                await self._export.close()
            elif self._export is not None and self._export.saver is not None:
                await self._export.saver.close()
        finally:
            await self.session.close()

    async def announce(self) -> None:
        """Send the list of commands, and the notices from the session's opening."""
        from codelet.frontends.command_prompt import text_commands

        commands = [
            {"name": each.name, "description": each.help, "input": {"hint": each.arguments} if each.arguments else None}
            for each in text_commands(self.session)
        ]
        await self._update({"sessionUpdate": "available_commands_update", "availableCommands": commands})
        await self._show_notices()

    async def replay(self) -> None:
        """Send the conversation of a loaded session."""
        for update in self.updates.replay(self.session.conversation.sent(), self.session.mask):
            await self._update(update)

    async def prompt(self, blocks: Sequence[Block]) -> str:
        """Run a turn to its end or until it is cancelled; return the stop reason. Raises RpcError and CodeletError."""
        self._check_idle()
        self._has_prompts = True
        running = self._running = asyncio.create_task(self._turn(blocks))
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            await self.cancel()
            raise
        finally:
            self._running = None
        return "cancelled" if running.cancelled() else running.result()

    async def cancel(self) -> None:
        """Stop the turn, if one is running, and wait for its end."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def _turn(self, blocks: Sequence[Block]) -> str:
        try:
            async with aclosing(await self._answer(blocks)) as stream:
                async for event in stream:
                    if self._export is not None:
                        self._export.see(event)
                    await self._show(event)
        except CodeletError as error:
            if (reason := stop_reason(error)) is None:
                raise
            await self._show(events.Note(str(error)))
            return reason
        finally:
            if self._export is not None:
                self._export.save()
        await self._show_notices()
        return "end_turn"

    async def _answer(self, blocks: Sequence[Block]) -> AsyncGenerator[events.Event, None]:
        """Return the events of a prompt, or of the command that it names."""
        content = content_of(blocks)
        words = content.words
        if words.startswith("/"):
            from codelet.frontends.command_prompt import run_command

            answer = await run_command(self.session, words)
            if not isinstance(answer, str):
                return answer
            words = answer
        attached = await mentioned(self.session, words, person=None, pasted=content.images) or Attached()
        for note in attached.notes:
            await self._show(events.Note(note))
        return turn_of(self.session, words, None, attached.replace(text=f"{attached.text}{content.texts}"))

    async def _show(self, event: events.Event) -> None:
        for update in self.updates.of(event, self.session.meter.cost):
            await self._update(update)
        if isinstance(event, events.ModeChanged):
            await self._update({"sessionUpdate": "config_option_update", "configOptions": self.options()})

    async def _show_notices(self) -> None:
        """Show notices and changes from between turns."""
        saving = [] if self._export is None else self._export.notices.take()
        for text in (*self.session.notices.take(), *saving):
            await self._show(events.Note(text))
        for event in self.session.take_reported():
            await self._show(event)

    async def _update(self, update: Json) -> None:
        await self._peer.notify("session/update", {"sessionId": self.name, "update": update})

    async def _ask(self, question: Question) -> Answer:
        """Have the editor ask the user. Without a valid answer nothing is allowed."""
        from codelet.frontends.terminal.question import choices_for

        choices = {each.option or each.means: each for each in choices_for(question) if each.means in _KINDS}
        request: Json = {
            "sessionId": self.name,
            "toolCall": self.updates.asked(question, question.call_id or f"question-{next(self._questions)}"),
            "options": [
                {"optionId": name, "name": each.words, "kind": _KINDS[each.means]} for name, each in choices.items()
            ],
        }
        try:
            answer = await self._peer.request("session/request_permission", request)
            chosen = choices.get(msgspec.convert(answer, Permission).outcome.option_id or "no")
        except (RpcError, msgspec.ValidationError) as error:
            return Answer(False, reason=f"the editor could not ask: {error}")
        if chosen is None or chosen.means == "no":
            return Answer(False)
        return Answer(True, chosen.option, always=chosen.means == "always", mode=chosen.means == "mode")

    def options(self) -> list[Json]:
        """Return the options that the user can switch: mode, model, effort."""
        provider = self.session.provider
        words = taken_words(provider.model)
        efforts = (_OWN_EFFORT, *(EFFORTS if words is None else words))
        return [
            select("mode", "mode", self.session.policy.mode, MODES),
            select("model", "model", provider.model, self._models),
            select("effort", "thought_level", provider.effort or _OWN_EFFORT, efforts),
        ]

    async def set_option(self, option: str, value: str) -> None:
        """Switch an option. Raises RpcError for an unknown option or value, and CodeletError."""
        models, before = self.session.models, self.session.provider
        effort = next((each for each in EFFORTS if each == value), None)
        if option == "mode" and (mode := mode_named(value)) is not None:
            self.session.policy.mode = mode
            await self._show_notices()
            return
        if option not in ("model", "effort") or (option == "effort" and effort is None and value != _OWN_EFFORT):
            raise RpcError(BAD_PARAMETERS, f"there is no {option} {value}")
        self._check_idle()
        if option == "model":
            models.switch(provider_named(value, self._settings.replace(effort=before.effort)))
        else:
            models.change_effort(provider_named(before.model, self._settings.replace(effort=effort)))
        await before.close()

    def _check_idle(self) -> None:
        if self._running is not None:
            raise RpcError(INVALID_REQUEST, _BUSY)
