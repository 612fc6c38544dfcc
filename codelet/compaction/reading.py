"""A normalised list read once: for each message its role, text, turn and deeds. Everything after works on this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from codelet.compaction.calls import Deed, read_call
from codelet.compaction.content import AnyMessage, calls_of
from codelet.compaction.segments import Segment, parse
from codelet.compaction.signals import EXIT_MARK, is_error_line
from codelet.messages import kind_of, reminder_type
from codelet.tokens.estimate import text_of


@dataclass(frozen=True)
class Reading:
    """One message, read. `kind` is system, reminder, segment, user, assistant, result or other."""

    kind: str
    text: str
    turn: int
    deeds: tuple[Deed, ...] = ()
    answers: Deed | None = None
    segment: Segment | None = None
    reminder: str | None = None

    @cached_property
    def errors(self) -> tuple[str, ...]:
        """The first two lines that report an error; looked for once, as several parts ask."""
        if not is_error_line(self.text):
            return ()
        lines = map(str.strip, self.text.split("\n"))
        told = (line for line in lines if 8 <= len(line) <= 400 and is_error_line(line))
        return tuple(islice((line for line in told if not EXIT_MARK.fullmatch(line)), 2))


def read(messages: Sequence[AnyMessage]) -> list[Reading]:
    """Read a normalised list. Turns count from 1 and go on after the turns that segments stand for."""
    found: list[Reading] = []
    turn = 0
    made: dict[str, Deed] = {}
    for message in messages:
        kind = kind_of(message)
        if kind == "reminder":
            found.append(Reading("reminder", text_of(message), turn, reminder=reminder_type(message)))
        elif kind == "segment":
            segment = parse(text_of(message))
            turn = max(turn, segment.last)
            found.append(Reading("segment", text_of(message), turn, segment=segment))
        elif kind == "prompt":
            turn += 1
            found.append(Reading("user", text_of(message), turn))
        elif kind == "assistant":
            deeds = tuple(read_call(call) for call in calls_of(message))
            made = {deed.call_id: deed for deed in deeds}
            found.append(Reading("assistant", text_of(message), turn, deeds))
        elif kind == "tool":
            answers = made.get(str(message.get("tool_call_id")))
            found.append(Reading("result", text_of(message), turn, answers=answers))
        else:
            found.append(Reading("other", text_of(message), turn))
    for index, message in enumerate(messages):
        if message.get("role") not in ("system", "developer"):
            break
        found[index] = Reading("system", found[index].text, 0)
    return found
