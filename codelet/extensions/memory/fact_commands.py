"""The command `/facts`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codelet.errors import ToolError, UsageError
from codelet.extensions.memory.fact import LONGEST_FACT, Fact, gives_orders, plain
from codelet.extensions.memory.kept_facts import KeptFacts
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    from codelet.extensions.memory.fact_file import FactFile, StoredFact
    from codelet.extensions.session_view import SessionView

_MOST_LISTED = 50
_BY = {"user": "you", "model": "the model", "export": "the export"}
_USE = (
    "/facts add TEXT, edit N TEXT, forget N; with a file promote N, find WORDS, and fN for its facts. Text that"
    " begins with a word in brackets, [port] 8443, replaces the fact under that word"
)


class FactCommands:
    """The subcommands of `/facts`, on the facts of one session."""

    def __init__(self, facts: KeptFacts) -> None:
        self._facts = facts

    async def run(self, session: SessionView, argument: str) -> str:
        """Run a subcommand; return the text to show. Raises UsageError."""
        action, _, rest = argument.partition(" ")
        rest = rest.strip()
        match action:
            case "":
                return await self._listed()
            case "add" if rest:
                return await self._added(rest)
            case "forget" if rest:
                return await self._forgotten(rest)
            case "promote" if rest:
                return await self._promoted(rest)
            case "edit" if " " in rest:
                number, _, text = rest.partition(" ")
                return await self._edited(number, text)
            case "find" if rest:
                return await self._found(rest)
        raise UsageError(f"unknown use of /facts: {_USE}")

    async def _listed(self) -> str:
        own = self._facts.list.facts
        rows = [_row(number, fact) for number, fact in enumerate(own, 1)]
        if len(rows) > _MOST_LISTED:
            rows = [f"… {len(rows) - _MOST_LISTED} older ones", *rows[-_MOST_LISTED:]]
        if (file := self._facts.file) is not None:
            count, newest = await asyncio.to_thread(lambda: (len(file), file.newest(_MOST_LISTED)))
            rows += [
                "",
                f"{file.path}: {count} fact{'' if count == 1 else 's'}"
                + (", the newest" if count > len(newest) else ""),
            ]
            rows += map(_stored_row, newest)
        return "\n".join([*(rows or ["there are no facts yet"]), "", _USE])

    async def _found(self, text: str) -> str:
        self._file()
        by_words, by_meaning = await asyncio.to_thread(self._facts.look_up, text, _MOST_LISTED)
        rows = [*map(_stored_row, by_words)]
        if by_meaning:
            rows += ["by meaning:", *map(_stored_row, by_meaning)]
        nearest = self._facts.nearest
        return "\n".join([*(rows or ["nothing found"]), *([nearest.broken] if nearest and nearest.broken else [])])

    async def _added(self, text: str) -> str:
        try:
            return await self._facts.remember(text, "user")
        except ToolError as error:
            raise UsageError(str(error)) from None

    async def _forgotten(self, number: str) -> str:
        if number.startswith("f"):
            stored = await self._stored(number)
            await asyncio.to_thread(self._file().forget, stored.number)
            self._facts.forgotten(stored.number)
            return f"forgotten, in the file too: {stored.fact.shown}"
        fact = self._own(number)
        self._facts.list.forget(fact)
        beside = "; the file keeps it, /facts forget fN there" if self._facts.file is not None else ""
        return f"forgotten: {fact.shown}{beside}"

    async def _promoted(self, number: str) -> str:
        """Keep a fact for good, in the file: one of the session is written there first."""
        file = self._file()
        if number.startswith("f"):
            stored = await self._stored(number)
            await asyncio.to_thread(file.keep, stored.number)
            return f"kept in the file whatever its age: {stored.fact.shown}"
        fact = self._facts.without_secrets(self._own(number)).replace(by="user")
        await asyncio.to_thread(file.add, [fact])
        return f"kept in the file whatever its age: {fact.shown}"

    async def _edited(self, number: str, text: str) -> str:
        if number.startswith("f"):
            stored, file = await self._stored(number), self._file()
            new = self._facts.without_secrets(self._reworded(stored.fact, text))
            await asyncio.to_thread(file.replace, stored.number, new)
            self._facts.forgotten(stored.number)
            return f"it now says, in the file too: {new.shown}"
        fact = self._own(number)
        new = self._reworded(fact, text)
        self._facts.list.replace(fact, new)
        return f"it now says: {new.shown}"

    def _reworded(self, fact: Fact, text: str) -> Fact:
        """The fact in the user's words; it keeps its key unless they begin with one. Raises UsageError."""
        key, statement = self._facts.taken_apart(text)
        if not any(character.isalnum() for character in statement):
            raise UsageError("a fact needs words")
        return fact.replace(text=statement, key=key or fact.key, by="user")

    def _own(self, number: str) -> Fact:
        """The session's fact of that number. Raises UsageError."""
        facts = self._facts.list.facts
        place = whole_number(number) or 0
        if not 1 <= place <= len(facts):
            raise UsageError(f"there is no fact {plain(number, 20)}; /facts lists them")
        return facts[place - 1]

    async def _stored(self, number: str) -> StoredFact:
        digits = number[1:]
        known = digits.isascii() and digits.isdigit() and len(digits) < 18
        found = await asyncio.to_thread(self._file().number, int(digits)) if known else None
        if found is None:
            raise UsageError(f"there is no fact {plain(number, 20)} in the file; /facts lists them")
        return found

    def _file(self) -> FactFile:
        if self._facts.file is None:
            raise UsageError("there is no file of facts: --facts FILE names one")
        return self._facts.file


def _row(number: int, fact: Fact) -> str:
    said = f': "{fact.said}"' if fact.said else ""
    place = f", turn {fact.turn}{said}" if fact.turn else ""
    marks = ("" if fact.confirmed else ", unconfirmed") + (f", perhaps the same as: {fact.like}" if fact.like else "")
    return f"{number:>4}  {plain(fact.shown, 2 * LONGEST_FACT)}  ({_BY[fact.by]}{place}{marks})"


def _stored_row(stored: StoredFact) -> str:
    """A fact of the file, with what its wording is."""
    orders = ", worded as an instruction" if gives_orders(stored.fact.text) else ""
    kept = ", kept" if stored.kept else ""
    used = f", used {stored.uses} times" if stored.uses else ""
    said = f': "{stored.fact.said}"' if stored.fact.said else ""
    by = "a user" if stored.fact.by == "user" else "a model" if stored.fact.by == "model" else "an export"
    return f"{f'f{stored.number}':>4}  {plain(stored.fact.shown, 2 * LONGEST_FACT)}  ({by}{said}{kept}{used}{orders})"
