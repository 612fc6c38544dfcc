"""Tells in little time that a text cannot hold a token of the known forms, so that the exact search can be spared.

The exact search costs a tenth of a second a megabyte; an export of a long session would wait for it. What stands here
may say yes too often, never no where the exact search finds something: a test draws tokens from its own pattern.
"""

from __future__ import annotations

import re
from functools import cache

# Each alone makes the exact search worth its time.
_RARE = (
    "-----BEGIN", "sk-", "_live_", "_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox",
    "AKIA", "ASIA", "ABIA", "ACCA", "AIza", "xai-", "pypi-", "eyJ", "SG.", "age-secret-key", "\u0130", "\u0131",
)  # fmt: skip
# These are common in plain text: they count with what must follow.
_COMMON = (
    *((name, name + r"_?-?[A-Za-z0-9]{30}") for name in ("hf", "gsk", "npm", "r8", "dop_v1", "tvly", "pplx")),
    ("://", r"://[^\s/:@]*:[^\s/@]+@"),
)
_HEADER = "authorization"


@cache
def _following() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((mark, re.compile(pattern)) for mark, pattern in _COMMON)


def may_hold_token(text: str) -> bool:
    """Whether the text is worth an exact search for tokens."""
    return (
        any(mark in text for mark in _RARE)
        or any(mark in text and pattern.search(text) is not None for mark, pattern in _following())
        or _HEADER in text.lower()
    )
