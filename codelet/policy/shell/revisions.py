"""Revisions with a path, taken apart as git does."""

from __future__ import annotations

import re
from collections.abc import Iterator


def revision_path(text: str) -> str | None:
    """The path in `REVISION:PATH` or `:N:PATH` as git takes it apart, or None where the text is a revision alone.

    A colon in braces belongs to the revision: `HEAD^{/fix: all}:a.txt`, `main@{10:30:00}:a.txt`.
    """
    if text.startswith(":/"):
        return None
    if text.startswith(":"):
        return re.sub(r"^:(?:[0-3]:)?", "", text)
    depth = 0
    for position, letter in enumerate(text):
        if letter == "{":
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
        elif letter == ":" and not depth:
            return text[position + 1 :]
    return None


def possible_paths(text: str) -> Iterator[str]:
    """Every path that a word may name as a revision with a path, as a range of two, or as a pattern of paths."""
    for one in {text, *text.split("..", 1), *text.split("...", 1)}:
        path = revision_path(one.lstrip("^"))
        if path is not None:
            yield path or "."
        # What git tries first, and what another version reads otherwise: every reading is judged.
        yield from (part for part in (one.partition(":")[2], one.rpartition(":")[2]) if part)
    if text.startswith(":"):
        yield re.sub(r"^:\([^)]*\)|^:[!^/]*", "", text) or "."
