"""What a one-shot run came to, for every output format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from codelet.events import Cut
from codelet.record import Record
from codelet.tokens.usage import Usage


class Outcome(Record):
    """The answer and how it ended: `partial` if something cut it short, `exit_status` as the process ends.

    `cost` is in US dollars, None where prices are unknown; `refused` are the calls the policy refused, and `denied`
    says why of those among them that no flag would have permitted; `cut` is the input that was not sent whole.
    `model` is None where none was settled on; `turns` counts steps, as `--max-turns` does; `duration` is the
    wall-clock time in seconds.
    """

    result: str
    partial: bool
    exit_status: int
    error: str | None
    usage: Usage
    cost: float | None
    refused: tuple[str, ...]
    denied: Mapping[str, str] = MappingProxyType({})
    cut: tuple[Cut, ...] = ()
    model: str | None = None
    turns: int = 0
    duration: float = 0.0


def unread(cut: Sequence[Cut]) -> str:
    """In words what of the input the model was not sent; empty where it was sent all of it."""
    parts = [f"of {each.name} the model was sent {each.read:,} of {each.bytes:,} bytes" for each in cut]
    return "; ".join(part for part, each in zip(parts, cut, strict=True) if each.read < each.bytes)
