"""A number that the user typed.

Short because it is all that its callers, which have nothing else in common, share.
"""

from __future__ import annotations

_LONGEST = 9


def whole_number(text: str) -> int | None:
    """Return the whole number that a text consists of; None for any other text, or for more than nine digits.

    `int` takes digits of all scripts, signs and spaces, and raises ValueError for thousands of digits.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST else None
