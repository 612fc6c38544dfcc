"""Usage: tokens as the provider reports them, in one form.

A small, separate module: events and every provider need it, and nothing else here.
"""

from __future__ import annotations

from codelet.record import Record


class Usage(Record, kw_only=True):
    """Tokens of one request, or a sum. `total_input` includes cached tokens.

    OpenAI-like servers and Gemini include the cached part in the input; Anthropic does not, so its wire adds it.
    `reasoning` is part of `output`, `cache_write_hour` the part of `cache_write` that is cached for an hour. All zeros
    mean that nothing was reported.
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
        """Return whether any tokens were reported; unreported is unknown, not 0."""
        return self != Usage()

    @property
    def consistent(self) -> Usage:
        """The same, with cached tokens added to an input that is smaller than they are.

        Some gateways report so; negative differences would reduce the cost of other requests.
        """
        cached = self.cache_read + self.cache_write
        return self if cached <= self.total_input else self.replace(total_input=self.total_input + cached)

    @property
    def cache_share(self) -> float | None:
        """The cached share of all input, 0 to 1; None without input."""
        return round(self.cache_read / self.total_input, 3) if self.total_input else None

    @property
    def total(self) -> int:
        """All input and output."""
        return self.total_input + self.output


class ChargedUsage(Usage, kw_only=True):
    """The usage of one request with the server's own charge: `cost` in US dollars."""

    cost: float
