"""One session of an editor: its turns, its questions, and what the user can switch in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any

from codelet import events
from codelet.context import Attached
from codelet.errors import CodeletError
from codelet.extensions.services import asking
from codelet.frontends.acp.peer import BAD_PARAMETERS, INVALID_REQUEST, Peer, RpcError
from codelet.frontends.acp.prompt_blocks import taken
from codelet.frontends.acp.updates import Update, Updates, select, stop_reason
from codelet.loop.session import Session
from codelet.opening import mentioned, models_to_choose, provider_named, session_from, turn_of
from codelet.providers.effort import taken_words
from codelet.providers.protocol import EFFORTS
from codelet.safety.verdict import MODES, Answer, Question, Touch, mode_named
from codelet.settings import Settings

_OWN_EFFORT = "default"
_MODELS_SECONDS = 3.0
_MOST_MODELS = 200
_KINDS = {"yes": "allow_once", "always": "allow_always", "mode": "allow_always", "no": "reject_once"}
_BUSY = "a turn is running in this session: cancel it, or wait for its end"


class EditorSession:
    """A session, known to the editor as `name`; `session` is there once it is open."""

    session: Session
    updates: Updates

    def __init__(self, name: str, peer: Peer, settings: Settings) -> None:
        self.name = name
        self._peer = peer
        self._settings = settings
        self._running: asyncio.Task[str] | None = None
        self._models: Sequence[str] = ()
        self._questions = count(1)

    async def open(self, folder: Path) -> None:
        """Open the session in a folder. Raises CodeletError."""
        self.session = await session_from(self._settings, folder, ask=self._ask, extensions=[asking()])
        self.updates = Updates(folder, self._touched)
        now = self.session.provider.model
        try:
            async with asyncio.timeout(_MODELS_SECONDS):
                found = [model.name for model in await models_to_choose(self._settings, now)]
        except (CodeletError, TimeoutError):  # a server that lists none
            found = []
        self._models = list(dict.fromkeys([now, *found]))[:_MOST_MODELS]

    async def close(self) -> None:
        """Stop the turn and end the session."""
        await self.cancel()
        await self.session.close()

    async def announce(self) -> None:
        """Tell the editor which commands there are, and what was noticed while the session was opened."""
        from codelet.frontends.terminal.slash_commands.command_list import commands_for

        commands = [
            {"name": each.name, "description": each.help, "input": {"hint": each.arguments} if each.arguments else None}
            for each in commands_for(self.session)
            if (each.show or each.prompts) and " " not in each.name
        ]
        await self._update({"sessionUpdate": "available_commands_update", "availableCommands": commands})
        await self._tell_rest()

    async def prompt(self, blocks: Sequence[dict[str, Any]]) -> str:
        """Run a turn until it ends or is cancelled; the reason for its end. Raises RpcError and CodeletError."""
        self._check_idle()
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

    async def _turn(self, blocks: Sequence[dict[str, Any]]) -> str:
        try:
            async with aclosing(await self._answer(blocks)) as stream:
                async for event in stream:
                    await self._show(event)
        except CodeletError as error:
            if (reason := stop_reason(error)) is None:
                raise
            await self._show(events.Note(str(error)))
            return reason
        await self._tell_rest()
        return "end_turn"

    async def _answer(self, blocks: Sequence[dict[str, Any]]) -> AsyncGenerator[events.Event, None]:
        """Return the events of a prompt, or of the command that it names."""
        words, texts, pictures = taken(blocks)
        if words.startswith("/"):
            from codelet.frontends.command_prompt import answer_of_command, prompt_of_command

            given = await prompt_of_command(self.session, words)
            if given is None and (shown := answer_of_command(self.session, words, piped=False)) is not None:
                return shown
            words = words if given is None else given
        attached = await mentioned(self.session, words, person=None, pasted=pictures) or Attached()
        for note in attached.notes:
            await self._show(events.Note(note))
        return turn_of(self.session, words, None, attached.replace(text=f"{attached.text}{texts}"))

    async def _show(self, event: events.Event) -> None:
        for update in self.updates.of(event, self.session.meter.cost):
            await self._update(update)
        if isinstance(event, events.ModeChanged):
            await self._update({"sessionUpdate": "config_option_update", "configOptions": self.options()})

    async def _tell_rest(self) -> None:
        """Show what was noticed or changed between turns."""
        for event in [*map(events.Note, self.session.notices.take()), *self.session.take_reported()]:
            await self._show(event)

    async def _update(self, update: Update) -> None:
        await self._peer.notify("session/update", {"sessionId": self.name, "update": update})

    def _touched(self, name: str, arguments: object) -> Sequence[Touch] | None:
        tool = self.session.toolbox.tool_named(name, arguments)
        return None if tool is None or not isinstance(arguments, dict) else tool.touched(arguments)

    async def _ask(self, question: Question) -> Answer:
        """Have the user asked by the editor. Without a usable answer nothing is allowed."""
        from codelet.frontends.terminal.question import choices_for

        choices = {each.option or each.means: each for each in choices_for(question) if each.means in _KINDS}
        asked = {
            "sessionId": self.name,
            "toolCall": self.updates.asked(question, question.call_id or f"question-{next(self._questions)}"),
            "options": [
                {"optionId": name, "name": each.words, "kind": _KINDS[each.means]} for name, each in choices.items()
            ],
        }
        try:
            answer = await self._peer.request("session/request_permission", asked)
            chosen = answer["outcome"].get("optionId", "no")
        except (RpcError, LookupError, TypeError, AttributeError) as error:
            return Answer(False, reason=f"the editor could not ask: {error}")
        means, said = (choices[chosen].means, choices[chosen].option) if chosen in choices else ("no", "")
        return Answer(means != "no", said, always=means == "always", mode=means == "mode")

    def options(self) -> list[Update]:
        """Return what the user can switch: mode, model, effort."""
        provider = self.session.provider
        words = taken_words(provider.model)
        efforts = (_OWN_EFFORT, *(EFFORTS if words is None else words))
        return [
            select("mode", "mode", self.session.policy.mode, MODES),
            select("model", "model", provider.model, self._models),
            select("effort", "thought_level", provider.effort or _OWN_EFFORT, efforts),
        ]

    async def set_option(self, option: str, value: str) -> None:
        """Switch one of the options. Raises RpcError for one that there is not, and CodeletError."""
        models, before = self.session.models, self.session.provider
        effort = next((each for each in EFFORTS if each == value), None)
        if option == "mode" and (mode := mode_named(value)) is not None:
            self.session.policy.mode = mode
            await self._tell_rest()
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
