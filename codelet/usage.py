"""Usage: tokens as the provider reports them, normalised once.

A module of its own, small as it is: events and every provider need it, and nothing else of this folder.
"""

from __future__ import annotations

from codelet.record import Record


class Usage(Record, kw_only=True):
    """Tokens of one request, or a sum of several. `total_input` includes cached tokens.

    OpenAI-like servers and Gemini report input with the cached part included; Anthropic without, so its
    adapter sums the three fields. `reasoning` is the part of `output` spent on reasoning, `cache_write_hour` the part
    of `cache_write` that is kept for an hour. All zeros say that nothing was reported: a request without a single
    token does not exist.
    """

    total_input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    cache_write_hour: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            total_input=self.total_input + other.total_input,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_write_hour=self.cache_write_hour + other.cache_write_hour,
        )

    @property
    def known(self) -> bool:
        """Return whether any was reported; what no one reported is unknown, and not 0."""
        return self != Usage()

    @property
    def consistent(self) -> Usage:
        """The same, but where more is said to be of the cache than was read at all that was left out of the input.

        Some gateways report so; a difference below nothing would make each request pay back what others cost.
        """
        cached = self.cache_read + self.cache_write
        return self if cached <= self.total_input else self.replace(total_input=self.total_input + cached)

    @property
    def cache_share(self) -> float | None:
        """The share of all input that was read from the cache, 0 to 1; None if no input was reported."""
        return round(self.cache_read / self.total_input, 3) if self.total_input else None

    @property
    def total(self) -> int:
        """Everything that was read and written."""
        return self.total_input + self.output


class ChargedUsage(Usage, kw_only=True):
    """The usage of one request whose server says itself what it charged: `cost` in US dollars."""

    cost: float
