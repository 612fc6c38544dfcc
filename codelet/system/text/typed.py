"""What a person typed where a number is wanted.

Short because it is all that those places, which have nothing else in common, share.
"""

from __future__ import annotations

_LONGEST = 9


def whole_number(text: str) -> int | None:
    """The number that a text is made of, 0 among them; None if it is none, or one of more than nine digits.

    `int` takes digits of all scripts, signs and spaces, and raises ValueError for thousands of digits.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST else None
