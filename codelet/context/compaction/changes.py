"""What a diff or an edit in a text removed and put in, so that old lines are never shown as what a file says now."""

from __future__ import annotations

import re

_MAYBE = re.compile(r"^(?:\*\*\* Begin Patch|@@ |@@$|diff --git |\s*```diff|<{5,9} |-{5,9} SEARCH)", re.MULTILINE)
_BLOCK = re.compile(
    r"^(?:<{5,9} ?\w*|-{5,9} SEARCH)\n(.*?)^={5,9}\n(.*?)^(?:>{5,9} ?\w*|\+{5,9} REPLACE)$", re.MULTILINE | re.DOTALL
)
_FENCED = re.compile(r"^\s*```diff\n(.*?)^\s*```", re.MULTILINE | re.DOTALL)
_HUNK = re.compile(r"^(?:\*\*\* Begin Patch|@@ |@@$|diff --git )", re.MULTILINE)


def as_changed(text: str) -> tuple[str, set[str]]:
    """Return a text with its diffs and edits carried out, and the stripped lines that they removed."""
    if not _MAYBE.search(text):
        return text, set()
    removed: set[str] = set()

    def new_side(found: re.Match[str]) -> str:
        removed.update(stripped(found[1]) - stripped(found[2]))
        return found[2]

    def new_lines(found: re.Match[str]) -> str:
        changed, gone = _patched(found[1])
        removed.update(gone)
        return changed

    text = _BLOCK.sub(new_side, text)
    text = _FENCED.sub(new_lines, text)
    hunk = _HUNK.search(text)
    if hunk is not None:
        changed, gone = _patched(text[hunk.start() :])
        removed |= gone
        text = text[: hunk.start()] + changed
    return text, removed


def _patched(text: str) -> tuple[str, set[str]]:
    kept, removed = [], set()
    for line in text.split("\n"):
        if line.startswith("-") and not line.startswith("---"):
            removed.add(line[1:].strip())
        else:
            kept.append(line[1:] if line.startswith("+") and not line.startswith("+++") else line)
    return "\n".join(kept), removed - {line.strip() for line in kept}


def stripped(text: str) -> set[str]:
    """Return the lines of a text without the spaces around them."""
    return {line.strip() for line in text.split("\n")}
