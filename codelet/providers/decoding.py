"""Reads what a server sent without trusting its shape: what does not fit is the provider's failure, not codelet's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codelet.errors import ProviderError
from codelet.providers.base import Chunk

NO_MARKER = "the answer was cut: the stream ended without its finish marker"
"""What is said of an answer that ends as if it were whole. Another attempt may give all of it."""


def decoded(decode: Callable[[dict[str, Any]], list[Chunk]], event: dict[str, Any]) -> list[Chunk]:
    """The chunks that `decode` reads from an event; raises ProviderError where its parts have other types."""
    try:
        return decode(event)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ProviderError("the answer is garbled: an event has an unknown shape") from None


def text_of(value: Any) -> str:
    """A text; null is an empty one, of a list of parts the parts of text count. Raises TypeError for the rest."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(text_of(part.get("text")) for part in value if part.get("type") == "text")
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {type(value).__name__}")
    return value


MOST_TOKENS = 10**9
"""More than any request has: a larger number is no count, and sums of such numbers would leave an export's range."""


def count_of(value: Any) -> int:
    """A whole number of tokens; what is none counts as 0, since usage is never worth losing an answer for."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return 0
    return int(value)


def counts_in(value: Any) -> dict[str, Any]:
    """An object that holds counts; what is none holds none, for the same reason."""
    return value if isinstance(value, dict) else {}
