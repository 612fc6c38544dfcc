"""What a one-shot run came to, for every output format."""

from __future__ import annotations

from codelet.record import Record
from codelet.tokens.usage import Usage


class Outcome(Record):
    """The answer and how it ended: `partial` if something cut it short, `exit_status` as the process ends.

    `cost` is in US dollars, None where prices are unknown; `refused` are the calls the policy refused.
    """

    result: str
    partial: bool
    exit_status: int
    error: str | None
    usage: Usage
    cost: float | None
    refused: tuple[str, ...]
