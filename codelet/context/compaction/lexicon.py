"""Names, words, and noise in a line; texts cut between tokens; diffs applied.

It knows the forms of names and diffs, and no natural language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

_SHORTEST, _LONGEST_LINE, _PIECE, _MOST_PIECES = 9, 320, 240, 40
_NAME = re.compile(r"[A-Za-z0-9_$@~./#][A-Za-z0-9_$@~./:#+-]*[A-Za-z0-9_]")
_MARKED = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]|[A-Za-z0-9][_./:-]+[A-Za-z0-9]|[a-zA-Z]\d|\d[a-zA-Z]|^[~@$_#./]")
_WORD = re.compile(r"[^\W\d_]{5,}|(?<![\w.])\d[\d.,:]*\d(?!\w)")
# Scripts from Thai on write words without spaces, or in short blocks: pairs of letters serve as their words.
_DENSE = "\u0e00-\u1fff\u2c00-\u2fff\u3040-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_PAIR = re.compile(f"(?=([{_DENSE}]{{2}}))")
_NO_TOKEN = re.compile(f"[\\s\u3000-\u303f\uff00-\uffef{_DENSE}]")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/=_%-]{20,}")
_ALTERNATION = re.compile(r"\d[A-Za-z]|[A-Za-z](?=\d)")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_LINE_NUMBER = re.compile(r"^\s*\d+(?:→|\t|: ?(?=\s|\S)|\|)")
_LONGEST_TOKEN = 60
_LEFT_OUT = " […] "
_MAYBE = re.compile(r"^(?:\*\*\* Begin Patch|@@ |@@$|diff --git |\s*```diff|<{5,9} |-{5,9} SEARCH)", re.MULTILINE)
_BLOCK = re.compile(
    r"^(?:<{5,9} ?\w*|-{5,9} SEARCH)\n(.*?)^={5,9}\n(.*?)^(?:>{5,9} ?\w*|\+{5,9} REPLACE)$", re.MULTILINE | re.DOTALL
)
_FENCED = re.compile(r"^\s*```diff\n(.*?)^\s*```", re.MULTILINE | re.DOTALL)
_REMOVED, _ADDED = re.compile(r"^-(?!--)(.*)\n?", re.MULTILINE), re.compile(r"^\+(?!\+\+)", re.MULTILINE)
_HUNKS = re.compile(r"^((?:\*\*\* Begin Patch|@@ |@@$|diff --git ).*)", re.MULTILINE | re.DOTALL)


@cache
def is_name(token: str) -> bool:
    """Return whether a token has the form of a name in code or a path."""
    if not 4 <= len(token) <= 120 or token[0].isdigit() or not _MARKED.search(token):
        return False
    return len(token) < 20 or not _is_random(token)


@cache
def names_of(line: str) -> dict[str, bool]:
    """Return the words of a line worth counting, and whether each has the form of a name."""
    found = {token: True for token in _NAME.findall(line) if is_name(token)}
    words = _WORD.findall(line)
    if not line.isascii():
        words = [*(word for word in words if not _PAIR.match(word)), *_PAIR.findall(line)]
    for word in words:
        found.setdefault(word, False)
    return found


def names_in(text: str) -> set[str]:
    """Return the names and words of all lines of a text."""
    return set().union(*map(names_of, text.split("\n")))


@cache
def named_pieces(line: str) -> list[tuple[str, dict[str, bool]]]:
    """Return the pieces of a line that are worth keeping, with their names."""
    found = [(piece, names_of(piece)) for piece in pieces(line) if len(piece) >= _SHORTEST and not is_noise(piece)]
    return [(piece, names) for piece, names in found if names]


def forget_names() -> None:
    """Empty the caches, which would keep every line of a compacted list."""
    named_pieces.cache_clear()
    is_name.cache_clear()
    names_of.cache_clear()


def _is_random(token: str) -> bool:
    """Return whether letters and digits change places as often as in base64, hashes, and signatures."""
    return len(_ALTERNATION.findall(token)) * 9 >= len(token)


def is_noise(line: str) -> bool:
    """Return whether a line is mostly base64, markup, or one run without spaces."""
    if len(line) < 20 and "<" not in line:
        return False
    spent = sum(len(run) for run in _LONG_RUN.findall(line) if _is_random(run))
    spent += sum(map(len, _TAG.findall(line))) if "<" in line else 0
    if spent * 3 > len(line):
        return True
    few_spaces = len(line) > 60 and line.isascii() and line.count(" ") * 30 < len(line)
    return few_spaces and not any("/" in part or "." in part for part in line.split())


def pieces(line: str) -> list[str]:
    """Return a line without its line number; a long one in pieces cut between tokens, at most the first forty."""
    line = line.strip()
    if line[:1].isdigit():
        line = _LINE_NUMBER.sub("", line, count=1).strip()
    if len(line) <= _LONGEST_LINE:
        return [line]
    found, line = list[str](), line[: _MOST_PIECES * _PIECE]
    while line:
        end = between_tokens(line, min(_PIECE, len(line)), 1, _LONGEST_LINE)
        found.append(line[:end].strip())
        line = line[end:]
    return [piece for piece in found if len(piece) <= _LONGEST_LINE]


def between_tokens(text: str, place: int, step: int, most: int = _LONGEST_TOKEN) -> int:
    """Return the nearest place from `place` on, in one direction, that cuts no token; `place` if that is too far."""
    start = place
    while 0 < place < len(text) and not _NO_TOKEN.match(text[place - 1]) and not _NO_TOKEN.match(text[place]):
        place += step
        if abs(place - start) > most:
            return start
    return place if 0 < place < len(text) else start


def clip(text: str, most: int) -> str:
    """Return at most `most` characters: two thirds from the beginning, the rest from the end, no token cut."""
    if len(text) <= most:
        return text
    if most < 60:
        return text[: between_tokens(text, max(0, most), -1)].rstrip()
    head = between_tokens(text, most * 2 // 3, -1)
    tail = between_tokens(text, len(text) - (most - most * 2 // 3 - len(_LEFT_OUT)), 1)
    return f"{text[:head].rstrip()}{_LEFT_OUT}{text[tail:].lstrip()}"


def common_cap(lengths: Sequence[int], room: int) -> int:
    """Return the largest cap under which texts of these lengths fit the room together."""
    left = room
    for place, length in enumerate(sorted(lengths)):
        if length * (len(lengths) - place) > left:
            return max(0, left // (len(lengths) - place))
        left -= length
    return 1 << 40


def as_changed(text: str) -> tuple[str, set[str]]:
    """Return a text with its diffs and edits carried out, and the pieces of the lines that they removed."""
    if not _MAYBE.search(text):
        return text, set()
    removed: set[str] = set()

    def new_side(found: re.Match[str]) -> str:
        removed.update(pieces_in(found[1]) - pieces_in(found[2]))
        return found[2]

    def patched(found: re.Match[str]) -> str:
        kept = _ADDED.sub("", _REMOVED.sub("", found[1]))
        removed.update(pieces_in("\n".join(_REMOVED.findall(found[1]))) - pieces_in(kept))
        return kept

    return _HUNKS.sub(patched, _FENCED.sub(patched, _BLOCK.sub(new_side, text))), removed


def pieces_in(text: str) -> set[str]:
    """Return the pieces of all lines of a text."""
    return {piece for line in text.split("\n") for piece in pieces(line)}
