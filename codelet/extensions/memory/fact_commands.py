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
    "/facts add TEXT, forget N; with a file promote N, find WORDS, and fN for its facts. Text that"
    " begins with a word in brackets, [port] 8443, replaces the fact under that word"
)


class FactCommands:
    """The subcommands of `/facts`, on the facts of one session."""

    def __init__(self, facts: KeptFacts) -> None:
        self._facts = facts

    async def run(self, session: SessionView, argument: str) -> str:
        """Run a subcommand; return the text to show. Raises UsageError."""
        action, _, rest = argument.partition(" ")
        match action, rest.strip():
            case "", "":
                return await self._listed()
            case "add", text if text:
                try:
                    return await self._facts.remember(text, "user")
                except ToolError as error:
                    raise UsageError(str(error)) from None
            case "forget", number if number:
                return await self._forget(number)
            case "promote", number if number:
                return await self._promote(number)
            case "find", words if words:
                return await self._find(words)
        raise UsageError(f"unknown use of /facts: {_USE}")

    async def _listed(self) -> str:
        own, file = self._facts.list.facts, self._facts.file
        rows = [_row(number, fact) for number, fact in enumerate(own, 1)]
        if len(rows) > _MOST_LISTED:
            rows = [f"… {len(rows) - _MOST_LISTED} older ones", *rows[-_MOST_LISTED:]]
        if file is not None:
            count, newest = await asyncio.to_thread(lambda: (len(file), file.newest(_MOST_LISTED)))
            some = ", the newest" if count > len(newest) else ""
            rows += ["", f"{file.path}: {count} fact{'' if count == 1 else 's'}{some}", *map(_stored_row, newest)]
        return "\n".join([*(rows or ["there are no facts yet"]), "", _USE])

    async def _find(self, words: str) -> str:
        self._file()
        by_words, by_meaning = await asyncio.to_thread(self._facts.look_up, words, _MOST_LISTED)
        rows = [*map(_stored_row, by_words)]
        if by_meaning:
            rows += ["by meaning:", *map(_stored_row, by_meaning)]
        nearest = self._facts.nearest
        return "\n".join([*(rows or ["nothing found"]), *([nearest.broken] if nearest and nearest.broken else [])])

    async def _forget(self, number: str) -> str:
        fact = await self._numbered(number)
        await self._facts.drop(fact)
        if not isinstance(fact, Fact):
            return f"forgotten, in the file too: {fact.fact.shown}"
        more = "; the file keeps it, /facts forget fN there" if self._facts.file is not None else ""
        return f"forgotten: {fact.shown}{more}"

    async def _promote(self, number: str) -> str:
        """Keep a fact for good, in the file: one of the session is written there first."""
        file, fact = self._file(), await self._numbered(number)
        if isinstance(fact, Fact):
            fact = self._facts.without_secrets(fact).replace(by="user")
            await asyncio.to_thread(file.add, [fact])
        else:
            await asyncio.to_thread(file.keep, fact.number)
            fact = fact.fact
        return f"kept in the file whatever its age: {fact.shown}"

    async def _numbered(self, name: str) -> Fact | StoredFact:
        """Return the session's fact N, or the file's fact fN. Raises UsageError."""
        number, own = whole_number(name.removeprefix("f")) or 0, self._facts.list.facts
        found: Fact | StoredFact | None = None
        if name.startswith("f") and number < 2**63:
            found = await asyncio.to_thread(self._file().number, number)
        elif 1 <= number <= len(own):
            found = own[number - 1]
        if found is None:
            raise UsageError(f"there is no fact {plain(name, 20)}; /facts lists them")
        return found

    def _file(self) -> FactFile:
        if self._facts.file is None:
            raise UsageError("there is no file of facts: --facts FILE names one")
        return self._facts.file


def _row(number: int, fact: Fact) -> str:
    prompt = f': "{fact.said}"' if fact.said else ""
    place = f", turn {fact.turn}{prompt}" if fact.turn else ""
    marks = ("" if fact.confirmed else ", unconfirmed") + (f", perhaps the same as: {fact.like}" if fact.like else "")
    return f"{number:>4}  {plain(fact.shown, 2 * LONGEST_FACT)}  ({_BY[fact.by]}{place}{marks})"


def _stored_row(stored: StoredFact) -> str:
    orders = ", worded as an instruction" if gives_orders(stored.fact.text) else ""
    kept = ", kept" if stored.kept else ""
    used = f", used {stored.uses} times" if stored.uses else ""
    prompt = f': "{stored.fact.said}"' if stored.fact.said else ""
    by = "a user" if stored.fact.by == "user" else "a model" if stored.fact.by == "model" else "an export"
    return f"{f'f{stored.number}':>4}  {plain(stored.fact.shown, 2 * LONGEST_FACT)}  ({by}{prompt}{kept}{used}{orders})"
