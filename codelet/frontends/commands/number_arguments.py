"""Numbers as arguments of commands: what argparse calls, and what it says of a wrong one.

Short because two commands share it, and neither may import the other.
"""

from __future__ import annotations

import argparse

from codelet.system.text import one_line
from codelet.system.text.typed import whole_number


def positive(text: str) -> int:
    """Return a positive whole number. Raises ArgumentTypeError."""
    number = whole_number(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{one_line(text, 60)!r} is not a positive whole number")
    return number


def share(text: str) -> float:
    """Return a number from 0 to 1. Raises ArgumentTypeError."""
    return _number(text, 1.0)


def coverage(text: str) -> float:
    """Return a number of %. Raises ArgumentTypeError."""
    return _number(text.removesuffix("%"), 100.0)


def _number(text: str, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {most:g}")
    return number
