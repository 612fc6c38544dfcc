"""The use of the budget: the user's size, the target of a compaction, the share of each category and entry.

Sizes that the user sees are those of the next request; `30%` is a share of its present size.

core: system prompt, tools, reminders. context: verbatim text of earlier turns, which is whole messages, pinned ones
included, and the prose and evidence in segments. history: the rest of the segments, which is the user's words and
recorded state. working: the current turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from codelet.call_record import CallRecord
from codelet.context.tokens import (
    CATEGORIES,
    CompactionOptions,
    ContextWindow,
    Estimate,
    Reason,
    SizeTarget,
    estimate_message,
    shares_of,
)
from codelet.errors import CodeletError
from codelet.messages import Message, kind_of, newest_messages, newest_prompt, reminder_type
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.context.compaction.engine import Compacted
    from codelet.conversation import Parts

# In percent of the budget, or of the user's threshold: the usual target, the largest target, the limit of the newest
# turns, the room besides them, the least size of a text.
_USUAL, _MOST, _TURNS, _REST, _LEAST_TEXT = 35, 80, 60, 10, 5
# By hand, in percent: the part of older turns that is left; the largest part of a conversation for the usual target;
# the limit of the newest turns in a size that the user named.
_OLD, _FAR, _TURNS_OF_SIZE = 35, 85, 75
# Newest turns up to this size stay whole; larger ones are shortened.
_LARGE_TURNS, _LEAST = 10_000, 500
_SIZE = re.compile(r"(\d{1,12}(?:,\d{3}|\.\d{1,9})?)(%|[kKmM]?)(?=\s|\Z)")
_LEAST_BARE = 1_000
BESIDE = "system prompt, tools and reminders"
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}


class NothingToCompact(CodeletError):
    """A compaction by hand would change nothing; the message says why, and what helps."""


class Size(Record):
    """The user's size: `tokens`, or `percent` of the next request; neither is 0."""

    tokens: int | None = None
    percent: float | None = None

    def of(self, now: int) -> int:
        """Return the most tokens for the next request, which has `now`."""
        return self.tokens if self.tokens is not None else max(1, int(now * (self.percent or 100) / 100))


def parsed(argument: str) -> tuple[Size | None, str]:
    """Parse the argument of `/compact`: an optional size and an instruction.

    Raises ValueError for a size of nothing, all, or more.
    """
    found = _SIZE.match(argument)
    number = float(found[1].replace(",", "")) if found else 0.0
    unit = found[2].lower() if found else ""
    if found is None or (not unit and number < _LEAST_BARE):
        return None, argument.strip()  # "3 rules must stay" is an instruction
    instruction = argument[found.end() :].strip()
    if unit == "%":
        if not 0 < number < 100:
            raise ValueError("name a share between 0% and 100% of what the next request has now")
        return Size(percent=number), instruction
    if (tokens := int(number * _UNITS[unit])) <= 0:
        raise ValueError("name a size of at least one token")
    return Size(tokens=tokens), instruction


def refused_limit(limit: int, size: int) -> int:
    """Return the expected limit of a provider that refused a request of this size as too long."""
    return min(limit, size) * 8 // 10


def conversation_targets(
    parts: Parts, window: ContextWindow, options: CompactionOptions, reason: Reason, size: Size | None = None
) -> list[SizeTarget]:
    """Return the targets of a compaction, best first.

    The first is the larger of 35 % of the budget and the newest turns with 10 % of it, at most 80 %. Each turn of the
    newest ones stays whole if they take at most 60 % together. Raises NothingToCompact for a compaction by hand that
    would change nothing, and IrreducibleContext if there is no room for a target.
    """
    shares = shares_of(window.budget.limit, options.shares)
    # With the usual shares the newest turns come first, whatever earlier ones then have left.
    context = None if options.shares == tuple(CATEGORIES.values()) else shares["context"]
    found = _usual_targets(parts, window, options, context, overflow=reason == "overflow")
    total = sum(map(window.estimate, parts.body))
    if reason == "entries":
        found = [target.replace(size=min(target.size, total)) for target in found]
    elif size is not None:
        found = _named_target(parts, window, size, total)
    elif reason == "asked" and not (found and 100 * found[0].size <= _FAR * total):
        segments = sum(kind_of(message) == "segment" for message in parts.body)
        count = newest_messages(parts.body, options.keep_last) if options.keep_last else 0
        newest = parts.body[max(segments, len(parts.body) - count) :]
        turns = sum(kind_of(message) == "prompt" for message in newest)
        smaller = smaller_size(total, sum(map(window.estimate, newest)), turns)
        wanted = min([smaller, *(target.size for target in found[:1])])
        larger = [target for target in found if smaller < target.size < total]
        found = [SizeTarget(size=wanted, whole=wanted * 95 // 100, unseen=wanted * 95 // 100), *larger]
    if not found:
        from codelet.context.compaction.engine import IrreducibleContext

        now, beside = window.size(parts), window.beside(parts)
        limit = size.of(now) if size is not None else window.budget.limit
        limit = refused_limit(limit, now) if reason == "overflow" else limit
        raise IrreducibleContext(min(limit, beside), {BESIDE: beside})
    return [target.replace(history=shares["history"], context=context) for target in found]


def _named_target(parts: Parts, window: ContextWindow, size: Size, total: int) -> list[SizeTarget]:
    """Return the target for a size that the user named, for a conversation of `total` tokens."""
    now, beside = window.size(parts), window.beside(parts)
    if (wanted := size.of(now)) >= now:
        raise NothingToCompact(f"the next request has {now:,} tokens already, {wanted:,} were asked for")
    # The estimate may be off: take the conversation's share of the error.
    wanted = wanted * min(beside + total, now) // max(1, now) - beside
    whole = wanted * _TURNS_OF_SIZE // 100
    return [SizeTarget(size=wanted, whole=whole, unseen=whole)] if wanted > 0 else []


def smaller_size(body: int, newest: int, turns: int) -> int:
    """Return the size by hand of a conversation of `body` tokens, of which the newest `turns` have `newest`.

    Raises NothingToCompact.
    """
    old = body - newest
    if 4 * old >= body and old > 2 * _LEAST:
        return newest + max(_LEAST, old * _OLD // 100)
    if newest > _LARGE_TURNS:
        return body * _OLD // 100
    if body == 0:
        raise NothingToCompact("there is no conversation yet")
    which, stay, it = ("newest turn", "stays", "it") if turns == 1 else (f"newest {turns} turns", "stay", "them")
    hint = f"; `/compact 50%` shortens {it}, too" if newest > 4 * _LEAST else ""
    older = f"only {old:,} are" if old else "nothing is"
    raise NothingToCompact(f"the {which} ({newest:,} tokens) {stay} verbatim, and {older} older{hint}")


def _usual_targets(
    parts: Parts, window: ContextWindow, options: CompactionOptions, context: int | None, *, overflow: bool
) -> list[SizeTarget]:
    body, budget, beside = parts.body, window.budget, window.beside(parts)
    estimated, real = beside + sum(map(window.estimate, body)), max(1, window.size(parts))
    base = refused_limit(budget.limit, real) if overflow else budget.limit
    if options.at is not None:
        base = min(base, options.at * budget.limit // 90)
    most = base * _MOST // 100 if overflow else budget.hard_trigger - 1
    if real > estimated:  # the estimate is too low: aim lower by as much
        base, most = base * estimated // real, most * estimated // real
    room, least = base * _MOST // 100 - beside, base * _LEAST_TEXT // 100
    for_turns = min(base * _TURNS // 100, room - least)
    wanted = min(options.keep_last, sum(kind_of(message) == "prompt" for message in body))
    sizes = {
        turns: sum(map(window.estimate, body[len(body) - newest_messages(body, turns) :]))
        for turns in range(wanted, 0, -1)
    }
    fitting = (
        turns for turns, size in sizes.items() if size <= for_turns and (context is None or size - sizes[1] <= context)
    )
    turns, note = next(fitting, 0), ""
    kept = sizes[turns] if turns else min(max(0, room - least), _unseen_size(body, window.estimate))
    if turns < wanted:
        note = (
            f"{turns} of the newest {wanted} turns stay verbatim: "
            f"{wanted} take {sizes[wanted]:,} tokens, and {max(0, for_turns):,} fit"
        )
    first = min(room, max(base * _USUAL // 100 - beside, kept + base * _REST // 100))
    tries = dict.fromkeys([first, base * _TURNS // 100 - beside, most - beside])
    return [
        SizeTarget(size=size, whole=kept if turns else 0, unseen=max(0, size - least), note=note)
        for size in tries
        if size >= first and size > 0
    ]


def _unseen_size(body: Sequence[Message], estimate: Estimate) -> int:
    """Return the size of the results that the model has not seen, with their call and the newest prompt."""
    if not body or kind_of(body[-1]) not in ("prompt", "tool"):
        return 0
    place = len(body) - 1
    while place > 0 and body[place]["role"] == "tool":
        place -= 1
    prompt = newest_prompt(body)
    return sum(map(estimate, body[place:])) + (estimate(body[prompt]) if 0 <= prompt < place else 0)


def passed_shares(made: Compacted, target: SizeTarget, estimate: Estimate) -> list[str]:
    """Name the shares set by the user that a compaction's result exceeds, as pinned messages can do."""
    if not made.report.tier or target.context is None:
        return []
    used = category_sizes(cast("list[Message]", made.messages), estimate, 0)
    over = {"context": used["context"] - target.context, "history": used["history"] - (target.history or 0)}
    return [f"The share of {name} is exceeded by {tokens:,} tokens." for name, tokens in over.items() if tokens > 0]


class Share(Record):
    """One category: its tokens and its limit."""

    name: str
    used: int
    limit: int


def category_sizes(messages: Sequence[Message], measure: Estimate, fixed: int) -> dict[str, int]:
    """Return the tokens by category; `fixed` is the size of system prompt and tools."""
    from codelet.context.compaction.segments import parse_segment

    used = dict.fromkeys(CATEGORIES, 0)
    used["core"] = fixed
    current = newest_prompt(messages) % (len(messages) + 1)  # without a prompt: after the last
    for place, message in enumerate(messages):
        size, kind = measure(message), kind_of(message)
        if kind == "segment":
            text = message["content"] or ""
            entries = [entry for entry in parse_segment(text).entries if entry.label != "user"]
            quoted = sum(len(line) + 1 for entry in entries for line in (entry.label, *entry.lines))
            used["context"] += size * quoted // max(1, len(text))
            used["history"] += size - size * quoted // max(1, len(text))
        else:
            used["core" if kind == "reminder" else "working" if place >= current else "context"] += size
    return used


class ContextRow(Record):
    """One entry: `tokens` is an estimate, `turn` counts the user's prompts from 1 as segments do (0: none yet).

    `number` is the message's index in the list; the system prompt and the tools have -1. `anchor` are the kinds and
    weights of the anchors in a prompt's turn.
    """

    number: int
    role: str
    source: str
    tokens: int
    turn: int = 0
    pinned: bool = False
    anchor: str = ""


def context_rows(
    messages: Sequence[Message],
    system_tokens: int,
    tool_tokens: int,
    is_pinned: Callable[[Message], bool],
    records: Iterable[CallRecord] = (),
) -> list[ContextRow]:
    """Return the rows, the system prompt and the tools first."""
    from codelet.context.compaction.observed import anchors_of, observations_of
    from codelet.context.compaction.reading import ReadSession

    session = ReadSession(messages, {record.id: record for record in records})
    anchors: dict[int, list[str]] = {}
    for found in anchors_of(session, observations_of(session)):
        anchors.setdefault(found.turn, []).append(f"{found.kind} {found.weight}")
    rows = [ContextRow(-1, "system", "system prompt", system_tokens), ContextRow(-1, "system", "tools", tool_tokens)]
    for number, message in enumerate(messages):
        kind, source, turn = kind_of(message), str(message["role"]), session.turns[number]
        if kind == "reminder":
            source, turn = f"reminder {reminder_type(message)}", 0
        elif calls := message.get("tool_calls"):
            source = "calls " + ", ".join(call["function"]["name"] for call in calls)
        elif kind == "segment":
            source = "compacted turns"
        anchor = ", ".join(anchors.get(turn, ())) if source == "user" else ""
        tokens = estimate_message(message)
        rows.append(ContextRow(number, message["role"], source, tokens, turn, is_pinned(message), anchor))
    return rows


def floor_of(rows: Sequence[ContextRow]) -> dict[str, int]:
    """Return the tokens that no compaction can save, by part, without empty parts."""
    floor = {
        "system prompt and tools": sum(row.tokens for row in rows if row.number < 0),
        "reminders": sum(row.tokens for row in rows if row.source.startswith("reminder")),
        "pinned": sum(row.tokens for row in rows if row.pinned),
    }
    return {part: tokens for part, tokens in floor.items() if tokens}
