"""The facts of one session and their file: add, look up, forget, and the questions about them between turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import ToolError
from codelet.extensions.memory.fact import (
    LONGEST_FACT,
    LONGEST_KEY,
    LONGEST_PROMPT,
    Fact,
    FactList,
    Origin,
    keyed,
    normal,
    plain,
)
from codelet.messages import newest_prompt

if TYPE_CHECKING:
    from codelet.extensions.memory.fact_file import FactFile, StoredFact
    from codelet.extensions.memory.fact_search import TextSearch
    from codelet.extensions.session_view import SessionView

FACT_OF_USER = (
    "Not kept: the user keeps {fact!r}, which only the user can change. If it is out of date, say so to the user."
)
_FACTS_FULL = "Not kept: the user's own facts take all the room. Ask the user to remove some with /facts forget."
_NOT_ASKED = "Not forgotten: only the user may decide that, and no one can be asked. Tell the user what is out of date."
MOST_OF_FILE = 12
"""The most facts of the file that are sent with a prompt."""
_SAME = 0.75
"""The least similarity of two facts that may be duplicates."""


class KeptFacts:
    """The facts of one session in `list`, and the file in which they are shared, if there is one.

    `model` is the user's file for the search by meaning, if it is not the installed one. With a file each new fact is
    written there too, without its secrets; what is read from there is data, and is shown as what it is.
    """

    def __init__(self, file: Path | None, model: Path | None, clock: Callable[[], float]) -> None:
        self.list = FactList()
        self._session: SessionView
        self._clock = clock
        self._found: list[StoredFact] = []
        self._compactions = 0
        self._refused: set[str] = set()
        self._alike: list[tuple[Fact, Fact | StoredFact]] = []
        self.file: FactFile | None = None
        self.nearest: TextSearch | None = None
        if file is not None:
            from codelet.extensions.memory.fact_file import FactFile
            from codelet.extensions.memory.fact_search import meaning_search

            self.file = FactFile(file)
            self.nearest = meaning_search(self.file, model)

    def look_up(self, text: str, most: int) -> tuple[list[StoredFact], list[StoredFact]]:
        """The file's facts for a text: so many that share words with it, and a few more that are near it by meaning.

        The search by meaning takes a second the first time, in a large file: not for the event loop.
        """
        if self.file is None:
            return [], []
        by_words = self.file.find(text, most)
        if self.nearest is None:
            return by_words, []
        return by_words, self.file.used(self.nearest.find(text, {stored.number for stored in by_words}))

    async def remember(self, text: str, by: Origin, key: str = "") -> str:
        """Keep a fact, in the file too if there is one; what came of it, in a sentence. Raises ToolError."""
        messages = self._session.messages
        place = newest_prompt(messages)
        prompt = plain(messages[place]["content"] or "", LONGEST_PROMPT) if place >= 0 else ""
        fact = self._new_fact(text, key, by).replace(said=prompt)
        if not any(character.isalnum() for character in fact.text):
            raise ToolError("a fact needs words")
        held = None if by == "user" else self.list.users(fact)
        if held is None and self.file is not None:
            held = await asyncio.to_thread(self.file.add, [self.without_secrets(fact)])
        if held is not None and normal(held.text) != normal(fact.text):
            raise ToolError(FACT_OF_USER.format(fact=held.shown))
        added = self.list.add(fact) if held is None else "known"
        if added == "new":
            other: Fact | StoredFact | None = self.list.related(fact)
            if other is None:
                other = await asyncio.to_thread(self._nearest_in_file, fact)
            self._alike += [] if other is None else [(fact, other)]
        return {
            "full": _FACTS_FULL,
            "new": f"kept: {fact.shown}",
            "known": f"known already: {fact.shown}",
            "replaced": f"kept instead of the previous {fact.key}: {fact.text}",
        }[added]

    def _nearest_in_file(self, fact: Fact) -> StoredFact | None:
        """Return the nearest fact of the file by meaning, if it may be a duplicate and has no other key."""
        if self.file is None or self.nearest is None:
            return None
        same = {stored.number for stored in self.file.find(fact.text, MOST_OF_FILE) if stored.fact.text == fact.text}
        near = [self.file.number(number) for number in self.nearest.find(fact.shown, same, _SAME)]
        return next((stored for stored in near if stored is not None and stored.fact.key in ("", fact.key)), None)

    async def between_turns(self) -> None:
        """Ask about the values in a handoff, and about facts that may be duplicates.

        If no one can be asked, the values are kept as unconfirmed, and the newer of two facts is marked.
        """
        approvals = self._session.toolbox.approvals
        asks = self._session.toolbox.ask is not None and not self._session.policy.yes
        if values := self._named_values():
            shown = "\n".join(f"- {fact.shown}" for fact in values)
            why = "a compaction's handoff says so"
            yes = asks and await approvals.put("facts", "keep what the handoff names", shown, why)
            for fact in values:
                if yes:
                    with suppress(ToolError):  # the user keeps another value
                        await self.remember(fact.text, "model", fact.key)
                elif not asks:
                    self.list.add(fact)
            if yes or not asks:
                how = "kept" if yes else "kept as unconfirmed"
                self._session.notices.say(f"facts {how}: {', '.join(fact.shown for fact in values)}")
            self._refused.update(normal(fact.text) for fact in values)
        alike, self._alike = self._alike, []
        for fact, other in alike:
            older = other if isinstance(other, Fact) else other.fact
            shown = f"- {older.shown}\n+ {fact.shown}"
            if not asks:
                self.list.mark_like(fact, older)
            elif await approvals.put("facts", "merge two facts: the newer stays", shown, "they may say the same"):
                await self.drop(other)

    def _named_values(self) -> list[Fact]:
        """The values of the newest handoff whose compaction was made that are neither known nor refused."""
        compactor = self._session.compactor
        if compactor.count == self._compactions or compactor.narrator is None:
            return []
        self._compactions = compactor.count
        known = {name for fact in self.list.facts if fact.confirmed for name in (normal(fact.text), normal(fact.key))}
        values = []
        for line in compactor.narrator.accepted:
            key, text = self._split(line)
            if key and not {normal(key), normal(text)} & (known | self._refused):
                values.append(self._new_fact(text, key, "model").replace(confirmed=False))
        return values

    def _new_fact(self, text: str, key: str, by: Origin) -> Fact:
        key, text = self._split(text, key)
        return Fact(text=text, key=key, by=by, turn=self._session.turns, when=round(self._clock(), 3))

    async def drop(self, fact: Fact | StoredFact) -> None:
        """Remove a fact of the session or of the file."""
        if isinstance(fact, Fact):
            self.list.forget(fact)
        elif self.file is not None:
            await asyncio.to_thread(self.file.forget, fact.number)
            self._found = [each for each in self._found if each.number != fact.number]

    async def forget(self, text: str) -> str:
        """Remove the fact with this text from the session and the file, if the user says yes. Raises ToolError."""
        same = normal(keyed(text)[1])
        found: list[Fact | StoredFact] = [fact for fact in self.list.facts if normal(fact.text) == same]
        if self.file is not None:
            stored = await asyncio.to_thread(self.file.find, text, MOST_OF_FILE)
            found += [each for each in stored if normal(each.fact.text) == same]
        if not found:
            raise ToolError("unknown fact; give its listed text")
        toolbox = self._session.toolbox
        if toolbox.ask is None:
            raise ToolError(_NOT_ASKED)
        if not await toolbox.approvals.put(
            "facts", "forget a fact", plain(text, LONGEST_FACT), "the model asks for it"
        ):
            raise ToolError("the user wants to keep it")
        for each in found:
            await self.drop(each)
        return f"forgotten: {plain(text, LONGEST_FACT)}"

    def _split(self, text: str, key: str = "") -> tuple[str, str]:
        """Return the masked key and statement of a text. Without a `key` the text can begin with one."""
        if not key:
            key, text = keyed(text)
        mask = self._session.mask
        return plain(mask(key), LONGEST_KEY), plain(mask(text), LONGEST_FACT)

    def without_secrets(self, fact: Fact) -> Fact:
        """Return the fact with all secrets masked, for the file."""
        mask = self._session.safeguards.hides.mask
        return fact.replace(
            text=mask(fact.text, patterns=True), key=mask(fact.key, patterns=True), said=mask(fact.said, patterns=True)
        )
