"""Renewal: brings the reminders in a session's list up to date, all of them for a turn, the volatile ones each step."""

from __future__ import annotations

from collections.abc import Callable

from codelet import prompt
from codelet.context.ledger import ReminderLedger
from codelet.context.window import ContextWindow
from codelet.events import Event
from codelet.loop.conversation import Conversation, Texts
from codelet.reminders import zones
from codelet.reminders.sources import Sources
from codelet.reminders.token_status import token_status
from codelet.tools.touched import Touched


class Renewal:
    """Brings the reminders of `conversation` up to date. `mask` takes secrets out of a text.

    What the user switched off is taken out, and not gathered either where that costs anything.
    """

    def __init__(
        self,
        conversation: Conversation,
        gauge: ContextWindow,
        sources: Sources,
        ledger: ReminderLedger,
        touched: Touched,
        *,
        mask: Callable[[str], str],
    ) -> None:
        self._conversation = conversation
        self._gauge = gauge
        self._sources = sources
        self.ledger = ledger
        self._touched = touched
        self._mask = mask
        self._known = 0

    async def for_turn(self) -> list[Event]:
        """Gather everything anew, at the start of a turn."""
        if self._sources.bare:
            return []
        self._known = self._touched.count
        head = self._sources.head(self._touched.folders)
        git = await self._sources.git.for_turn() if "gitStatus" not in self.ledger.off else None
        nested = dict.fromkeys(zones.NESTED)
        if not self._prepended:
            return self._renew(head, {"gitStatus": git, **nested})
        # In front, once a turn: the volatile ones say of when they are, as the turn goes on.
        texts = {"gitStatus": git, "tokenStatus": self._token_status()}
        for kind, text in texts.items():
            if text:
                texts[kind] = prompt.AS_OF.format(when=prompt.TURN_START, text=text)
        return self._renew({**head, **texts}, nested)

    def changed(self) -> None:
        """Calls have run that may have changed files: begin at once to see what is different."""
        self._known = -1
        if not self._sources.bare and not self._prepended and "gitStatus" not in self.ledger.off:
            self._sources.git.changed()

    async def for_step(self) -> list[Event]:
        """Renew what changes within a turn, right before a request."""
        if self._sources.bare:
            return []
        texts: dict[str, str | None] = {}
        if self._known != self._touched.count:
            self._known = self._touched.count
            on = "claudeMd" not in self.ledger.off
            texts["nestedClaudeMd"] = self._sources.instructions.more(self._touched.folders) if on else None
        if not self._prepended:
            if "gitStatus" not in self.ledger.off:
                texts["gitStatus"] = await self._sources.git.for_step()
            texts["tokenStatus"] = self._token_status()
        return self._renew({}, texts)

    async def stop(self) -> None:
        """The turn is over: nothing is looked at any more."""
        await self._sources.git.stop()

    @property
    def _prepended(self) -> bool:
        return self._conversation.placement == "prepend"

    def _token_status(self) -> str | None:
        return token_status(self._gauge.size(self._conversation), self._gauge.budget.limit)

    def _renew(self, head: Texts, tail: Texts) -> list[Event]:
        """Bring reminders up to date, without what the user switched off."""
        off = self.ledger.off

        def wanted(texts: Texts) -> Texts:
            return {kind: self._mask(text) if text and kind not in off else None for kind, text in texts.items()}

        return self._conversation.renew(wanted(head), wanted(tail))
