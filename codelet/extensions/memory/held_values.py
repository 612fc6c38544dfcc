"""What was decided, as a compaction's handoff has it: offered as facts, kept on a person's yes alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from codelet.errors import CodeletError, ToolError
from codelet.extensions.base import Extension, extension_of
from codelet.extensions.memory.fact import LONGEST_FACT, normal, plain

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

MOST_OFFERED = 10
"""Values in one question."""

_VALUE = re.compile(r"(?:values? that holds? now|decided)\b[^:]{0,40}:\s*(\S.*)", re.IGNORECASE)


def values_in(lines: Iterable[str]) -> list[str]:
    """What the lines of a handoff say under the heading for decisions, each once, the first ones."""
    told = (found[1] for line in lines if (found := _VALUE.match(line)))
    once = {normal(text): text for text in (plain(text, LONGEST_FACT) for text in told) if normal(text)}
    return list(once.values())[:MOST_OFFERED]


class HeldValues(Extension):
    """Asks about them, once the compaction is made.

    What was refused is not asked again. Where nobody can be asked, and with `--yes`, where nobody wants to be, nothing
    is kept.
    """

    def __init__(self) -> None:
        self._session: SessionView
        self._refused: set[str] = set()
        self._seen: tuple[str, ...] = ()

    def attach(self, session: SessionView) -> None:
        self._session = session

    async def between_turns(self) -> None:
        """Offer the values of the last narrative, once."""
        narrator = self._session.compactor.narrator
        if narrator is None or narrator.told is self._seen:
            return
        self._seen = narrator.told
        for text in await self.offer(narrator.told):
            self._session.notices.say(text)

    async def offer(self, lines: Sequence[str]) -> list[str]:
        """Ask about the values in the lines of a narrative; what came of it, in sentences for the user."""
        session = self._session
        found = values_in(map(session.mask, lines))
        if not found or session.toolbox.ask is None or session.policy.yes:
            return []
        from codelet.extensions.memory.remembering import Facts

        facts = extension_of(session, Facts)
        if facts is None:
            return []
        known = {normal(fact.text) for fact in facts.list.facts} | self._refused
        values = [text for text in found if normal(text) not in known]
        if not values:
            return []
        where = f", and in {facts.file.path.name}" if facts.file is not None else ""
        yes = await session.toolbox.approvals.put(
            "facts",
            f"keep what holds now{where}",
            "\n".join(f"- {text}" for text in values),
            "the hand-over of the compaction says so; only a yes keeps it",
        )
        if not yes:
            self._refused.update(map(normal, values))
            return []
        try:
            for text in values:
                await facts.remember(text, "model")
        except (CodeletError, ToolError) as error:
            return [f"not all of it was kept: {error}"]
        return [f"{len(values)} fact{'' if len(values) == 1 else 's'} kept; /facts lists them"]
