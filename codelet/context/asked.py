"""What a user who compacts by hand asks for, the size that this means for the conversation, and what it would do.

Sizes are those of the next request, the one measure that previews, receipts and `/context` give. `30%` is a share of
what the next request has now.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet.context.tokens import Estimate
from codelet.errors import CodeletError
from codelet.messages import Message, kind_of, newest_messages
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.context.compaction import CompactionReport

# Without a size: what comes before the newest turns is made so much smaller, in per cent.
_OLD_PERCENT = 35
# Newest turns of no more tokens stay whole unless something says otherwise; longer ones are made smaller inside.
LARGE_TURNS = 10_000
_LEAST = 500
_SIZE = re.compile(r"(\d{1,12}(?:[.,]\d{1,9})?)(%|[kKmM]?)(?=\s|\Z)")
_LEAST_BARE = 1_000
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}


class Size(Record):
    """The size that a user asks for: `tokens`, or `percent` of what the next request has; neither is 0."""

    tokens: int | None = None
    percent: float | None = None

    def of(self, now: int) -> int:
        """Tokens that the next request, which has `now`, is to have at most."""
        return self.tokens if self.tokens is not None else max(1, int(now * (self.percent or 100) / 100))


class CompactionPreview(Record):
    """What a compaction would do: its report, the next request's size before and after in tokens, and its cost.

    `pays_after` is the number of requests after which rewriting a warm cache is paid back, 0 for a cold one.
    """

    report: CompactionReport
    before: int
    after: int
    pays_after: int


class NothingToCompact(CodeletError):
    """A compaction by hand would change nothing; the message says why, and what would."""


def parsed(argument: str) -> tuple[Size | None, str]:
    """Parse what `/compact` was given: a size, if it begins with one, and the instruction that follows.

    Raises ValueError with a sentence for a size that makes no sense: nothing, all, or more.
    """
    found = _SIZE.match(argument)
    if found is None:
        return None, argument.strip()
    number, unit = found.group(1), found.group(2).lower()
    if not unit and float(number.replace(",", "")) < _LEAST_BARE:
        return None, argument.strip()  # "3 rules must stay" is an instruction
    instruction = argument[found.end() :].strip()
    if unit == "%":
        percent = float(number.replace(",", "."))
        if not 0 < percent < 100:
            raise ValueError("name a share between 0% and 100% of what the next request has now")
        return Size(percent=percent), instruction
    grouped = "," in number and len(number.rpartition(",")[2]) == 3 and not unit  # 20,000
    tokens = int(float(number.replace(",", "" if grouped else ".")) * _UNITS[unit])
    if tokens <= 0:
        raise ValueError("name a size of at least one token")
    return Size(tokens=tokens), instruction


class ManualRequest(Record):
    """Where a compaction by hand stands: the conversation, the room beside it, and what the newest turns take.

    All in tokens; `beside` is what no compaction makes smaller, `now` the next request's size.
    """

    now: int
    beside: int
    body: int
    newest: int
    turns: int

    def target(self, size: Size | None) -> int:
        """The size for the conversation. Raises NothingToCompact."""
        if size is not None:
            wanted = size.of(self.now)
            if wanted >= self.now:
                raise NothingToCompact(f"the next request has {self.now:,} tokens already, {wanted:,} were asked for")
            # The conversation's share of what the estimate calls too large or too small.
            estimated = self.beside + self.body
            return wanted * min(estimated, self.now) // max(1, self.now) - self.beside
        old = self.body - self.newest
        if 4 * old >= self.body and old > 2 * _LEAST:
            return self.newest + max(_LEAST, old * _OLD_PERCENT // 100)
        if self.newest > LARGE_TURNS:
            return self.body * _OLD_PERCENT // 100
        raise NothingToCompact(self._why())

    def _why(self) -> str:
        """Why nothing is taken out, in words."""
        beside = f"system prompt, tools and reminders take {self.beside:,}"
        if self.body == 0:
            return f"there is no conversation yet; {beside} tokens"
        turns = "newest turn" if self.turns == 1 else f"newest {self.turns} turns"
        hint = "; `/compact 50%` shortens them too" if self.newest > 4 * _LEAST else ""
        old = self.body - self.newest
        older = f"{old:,} tokens are older: too few to summarize" if old else "nothing is older"
        stay = "stays" if self.turns == 1 else "stay"
        return f"the {turns} ({self.newest:,} tokens) {stay} verbatim, {older}{hint}; {beside}"


def manual_request(body: Sequence[Message], now: int, beside: int, keep_last: int, estimate: Estimate) -> ManualRequest:
    """Measure a conversation for a compaction by hand."""
    count = newest_messages(body, keep_last) if keep_last else 0
    summaries = next((place for place, message in enumerate(body) if kind_of(message) != "segment"), len(body))
    count = min(count, len(body) - summaries)
    sizes = list(map(estimate, body))
    turns = sum(kind_of(message) == "prompt" for message in body[len(body) - count :])
    return ManualRequest(now, beside, sum(sizes), sum(sizes[len(sizes) - count :]), turns)
