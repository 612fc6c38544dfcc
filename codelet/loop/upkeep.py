"""Upkeep: what a conversation needs before each request, so that it fits and is up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from codelet import events, prompt
from codelet.context import Compactor, ContextWindow, Entry, Reminders
from codelet.context.tokens import estimate_text
from codelet.conversation import Conversation, Placement, PlacementChoice
from codelet.errors import CodeletError
from codelet.extensions.base import Extension, offered_by
from codelet.loop.models import AskedServer, Models
from codelet.loop.toolbox import Toolbox
from codelet.messages import Message, user
from codelet.providers.protocol import Request
from codelet.system.text import valid_unicode
from codelet.tools.tool import Tool

if TYPE_CHECKING:
    from codelet.loop.required_answer import RequiredAnswer

_SMALL_WINDOW = 4_000
"""Tokens that any model takes: a longer first request waits until the server has said how much it takes."""

_SILENT_WAIT = 0.5
"""Seconds that the first request waits for extensions before a notice."""


class Upkeep:
    """Cuts the user's input to size, compacts if needed, renews the reminders, offers new tools.

    `system` is the system prompt; `window.fixed` follows from it and from the tools. `steering` hands over prompts that
    the user typed for the running turn; `required` is the schema that the final answer has to meet, which the system
    prompt contains; `schema` is only sent, and not checked. `unseen` says that no part of an answer is shown before it
    is whole, so that it can be requested again. `server` asks the model's server.
    `placement` says where changing reminders go. `patience` is for how many seconds the first request waits for what
    extensions prepare.
    """

    def __init__(
        self,
        conversation: Conversation,
        window: ContextWindow,
        toolbox: Toolbox,
        compactor: Compactor,
        entry: Entry,
        reminders: Reminders,
        extensions: Sequence[Extension],
        *,
        system: str,
        models: Models,
        placement: PlacementChoice,
        begin_turn: Callable[[str], None],
    ) -> None:
        self.system = system
        self._placement = placement
        self.server = AskedServer(models, toolbox)
        self._models = models
        self._begin_turn = begin_turn
        self.steering: Callable[[], Sequence[str]] | None = None
        self.required: RequiredAnswer | None = None
        self.schema: dict[str, Any] | None = None
        self.unseen = False
        self.patience = 10.0
        self._prepared = False
        self._conversation = conversation
        self._window = window
        self._toolbox = toolbox
        self.compactor = compactor
        self.entry = entry
        self.reminders = reminders
        self._extensions = extensions
        window.fixed = self.fixed_size

    @property
    def fixed_size(self) -> int:
        """The plain estimate of system prompt and tools in tokens."""
        return estimate_text(self.system) + estimate_text(str(self._toolbox.schemas))

    def request(self, messages: Sequence[Message] | None = None, max_output: int | None = None) -> Request:
        """Return the next request, or one with other messages."""
        tools = self._toolbox.schemas
        if messages is not None:
            return Request(self.system, messages, tools=tools, max_output=max_output)
        schema = self.schema if self.required is None else self.required.schema
        sent, tail = self._conversation.sent(), len(self._conversation.tail)
        return Request(self.system, sent, tail, tools, max_output=max_output, schema=schema, unseen=self.unseen)

    def add_tool(self, tool: Tool) -> None:
        """Offer one more tool from the next request on: the provider's cache of the whole list is lost by it."""
        self._toolbox.add(tool)
        self._window.fixed = self.fixed_size

    def instruct(self, system: str) -> None:
        """Tell the model this first from the next request on: the provider's cache of the whole list is lost by it."""
        self.system = system
        self._window.fixed = self.fixed_size

    def offer_only(self, names: Collection[str] | None) -> None:
        """Offer the tools of these names alone from the next request on, or all again; the cache is lost by it."""
        self._toolbox.offer_only(names)
        self._window.fixed = self.fixed_size

    async def before_turn(self) -> AsyncGenerator[events.Event, None]:
        """Gather the reminders again, and before the first request wait for extensions that are not ready.

        During that time a server that a long prompt waits for can answer.
        """
        self._ask_before_long()
        self._conversation.placement = self._reminders_go
        async with aclosing(self._prepare()) as preparation:
            async for event in preparation:
                yield event
        for tool in offered_by(self._extensions):
            if self._toolbox.known.get(tool.name, tool) is not tool:
                self.add_tool(tool)
        for event in await self.reminders.for_turn():
            yield event

    async def _prepare(self) -> AsyncGenerator[events.Event, None]:
        """Wait for what extensions prepare, once; say so where it takes long, and what they have to say of it."""
        waiting = [] if self._prepared else [(each, name) for each in self._extensions if (name := each.awaited())]
        self._prepared = True
        if not waiting:
            return
        preparing = [asyncio.create_task(each.prepare(self.patience)) for each, _ in waiting]
        try:
            _, late = await asyncio.wait(preparing, timeout=_SILENT_WAIT)
            if late:
                names = [name for task, (_, name) in zip(preparing, waiting, strict=True) if task in late]
                yield events.Note(f"waiting for {' and '.join(names)}")
            for told in await asyncio.gather(*preparing):
                for sentence in told:
                    yield events.Note(sentence)
        finally:
            for task in preparing:
                task.cancel()

    async def context_for(self, text: str) -> str:
        """Return what extensions add to a prompt. Raises CodeletError if one refuses it."""
        added = [more for each in self._extensions if (more := await each.prompted(text))]
        return "".join(prompt.ADDED_CONTEXT.format(text=self._toolbox.masker.mask(more)) for more in added)

    async def steer(self) -> list[events.Event]:
        """Append the prompts that the user typed during the step, as separate messages.

        All calls before it have their results by now, so the list is valid, and what was sent stays its prefix.
        """
        seen: list[events.Event] = []
        for text in self.steering() if self.steering is not None else ():
            try:
                more = await self.context_for(text)
            except CodeletError as error:
                seen.append(events.Note(self._toolbox.masker.mask(str(error))))
                continue
            self._begin_turn(text)
            self._conversation.append(user(valid_unicode(f"{text}{more}")))
            seen.append(events.Steering(text))
        return seen

    async def before_step(self, overflow: bool) -> AsyncGenerator[events.Event, None]:
        """Make the list fit and renew the volatile reminders. `overflow`: the provider said that it was too long."""
        self._ask_before_long()
        self._conversation.placement = self._reminders_go  # the step before may have shown that the model needs another
        await self.server.settle()
        self.entry.fit()
        reason = "overflow" if overflow else self.compactor.due()
        if reason in ("overflow", "hard") and self.entry.shrink():
            reason = None
        while self.entry.reduced:
            size = self._window.size(self._conversation)
            yield events.Compaction(
                phase="reduced", reason="entry", before=size, after=size, note=self.entry.reduced.pop(0)
            )
        self._window.settle(self._conversation)
        if reason is not None:
            async with aclosing(self.compactor.run(reason)) as steps:
                async for event in steps:
                    yield event
        for tool in offered_by(self._extensions):
            if tool.name not in self._toolbox.known:
                self.add_tool(tool)
        for event in await self.reminders.for_step():
            yield event
        self.reminders.count()

    @property
    def _reminders_go(self) -> Placement:
        """Return where changing reminders go with the model that answers now."""
        if self._placement != "auto":
            return self._placement
        return "append" if self._models.current.prefix_bound else "tail"

    def answering(self) -> None:
        """The provider has begun to answer, so that it was sent the list."""
        self.entry.sent()
        self.reminders.sent()
        self.server.begin()

    def _ask_before_long(self) -> None:
        """Ask the server before a long first request, which it might cut silently."""
        if self._window.size(self._conversation) > _SMALL_WINDOW:
            self.server.begin()

    async def goes_on(self, answer: str) -> bool:
        """Put into the list why the turn may not end with this answer; False if no extension says so."""
        for each in self._extensions:
            if why := await each.stopping(answer):
                self._conversation.append(user(prompt.GO_ON.format(reason=self._toolbox.masker.mask(why))))
                return True
        return False

    async def between_turns(self) -> None:
        """The turn is done, or a compaction by hand is: have extensions ask the user."""
        for each in self._extensions:
            await each.between_turns()
