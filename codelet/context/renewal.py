"""Renewal: brings the reminders in a session's list up to date, all of them for a turn, the volatile ones each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codelet import prompt
from codelet.context.ledger import ReminderLedger
from codelet.events import Event
from codelet.messages import Message
from codelet.reminders import zones
from codelet.reminders.sources import Sources
from codelet.reminders.token_status import token_status
from codelet.tools.touched import Touched


class Renewal:
    """Works on the session's own list. `mask` takes secrets out of a text, `measure` gives the size of the list and
    the budget in tokens, `head_changed` is called where everything behind the head stands elsewhere now.

    What the user switched off is taken out, and not gathered either where that costs anything.
    """

    def __init__(
        self,
        messages: list[Message],
        sources: Sources,
        ledger: ReminderLedger,
        touched: Touched,
        *,
        placement: zones.Placement,
        mask: Callable[[str], str],
        measure: Callable[[], tuple[int, int]],
        head_changed: Callable[[str], None],
    ) -> None:
        self.placement = placement
        self._messages = messages
        self._sources = sources
        self._ledger = ledger
        self._touched = touched
        self._mask = mask
        self._measure = measure
        self._head_changed = head_changed
        self._known = 0

    async def for_turn(self) -> list[Event]:
        """Gather everything anew, at the start of a turn."""
        if self._sources.bare:
            return []
        self._known = self._touched.count
        head = self._sources.head(self._touched.folders)
        git = await self._sources.git.for_turn() if "gitStatus" not in self._ledger.off else None
        if self.placement == "prepend":
            return self._in_front({**head, "gitStatus": git})
        changes = self._renew(head, zones.HEAD)
        if changes:
            self._head_changed("")
        return changes + self._renew({"gitStatus": git, **dict.fromkeys(zones.NESTED)}, zones.TAIL)

    def _in_front(self, texts: dict[str, str | None]) -> list[Event]:
        """All reminders in front, once a turn: the volatile ones say of when they are, as the turn goes on."""
        texts["tokenStatus"] = token_status(*self._measure())
        for kind in ("gitStatus", "tokenStatus"):
            if text := texts[kind]:
                texts[kind] = prompt.AS_OF.format(when=prompt.TURN_START, text=text)
        changes = self._renew(texts, zones.PREPENDED)
        if changes:
            self._head_changed("--reminders prepend renews it each turn")
        return changes + self._renew(dict.fromkeys(zones.NESTED), zones.NESTED)

    def changed(self) -> None:
        """Calls have run that may have changed files: begin at once to see what is different."""
        self._known = -1
        if not self._sources.bare and self.placement == "tail" and "gitStatus" not in self._ledger.off:
            self._sources.git.changed()

    async def for_step(self) -> list[Event]:
        """Renew what changes within a turn, right before a request."""
        if self._sources.bare:
            return []
        texts: dict[str, str | None] = {}
        if self._known != self._touched.count:
            self._known = self._touched.count
            on = "claudeMd" not in self._ledger.off
            texts["nestedClaudeMd"] = self._sources.instructions.more(self._touched.folders) if on else None
        if self.placement == "prepend":
            return self._renew(texts, zones.NESTED) if texts else []
        if "gitStatus" not in self._ledger.off:
            texts["gitStatus"] = await self._sources.git.for_step()
        texts["tokenStatus"] = token_status(*self._measure())
        return self._renew(texts, zones.TAIL)

    async def stop(self) -> None:
        """The turn is over: nothing is looked at any more."""
        await self._sources.git.stop()

    def _renew(self, texts: Mapping[str, str | None], zone: tuple[str, ...]) -> list[Event]:
        """Bring a zone up to date, without what the user switched off."""
        off = self._ledger.off
        wanted = {kind: self._mask(text) if text and kind not in off else None for kind, text in texts.items()}
        return zones.renew(self._messages, wanted, zone)
