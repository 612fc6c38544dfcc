"""Names, words, and noise in a line; texts cut between tokens; diffs applied.

It knows the forms of names and diffs, and no natural language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LONGEST_LINE, _PIECE, _MOST_PIECES = 320, 240, 40
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
_HUNKS = re.compile(r"^((?:\*\*\* Begin Patch|@@ |@@$|diff --git ).*)", re.MULTILINE | re.DOTALL)


class _Forms(dict[str, bool]):
    """A cache: does a token have the form of a name in code or a path?"""

    def __missing__(self, token: str) -> bool:
        has = 4 <= len(token) <= 120 and not token[0].isdigit() and _MARKED.search(token) is not None
        has = self[token] = has and not (len(token) >= 20 and _is_random(token))
        return has


class Lexicon:
    """A cache of the names in each line."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, bool]] = {}
        self._forms = _Forms()

    def names(self, line: str) -> dict[str, bool]:
        """Return the words of a line worth counting, and whether each has the form of a name in code or a path."""
        found = self._lines.get(line)
        if found is None:
            forms = self._forms
            found = self._lines[line] = {token: True for token in _NAME.findall(line) if forms[token]}
            words = _WORD.findall(line)
            if not line.isascii():
                words = [*(word for word in words if not _PAIR.match(word)), *_PAIR.findall(line)]
            for word in words:
                found.setdefault(word, False)
        return found

    def is_name(self, token: str) -> bool:
        """Return whether a word that was found has the form of a name."""
        return self._forms.get(token, False)

    def of_text(self, text: str) -> set[str]:
        """Return the names and words of all lines of a text."""
        return set().union(*map(self.names, text.split("\n")))


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
    found, begin = list[str](), 0
    while begin < min(len(line), _MOST_PIECES * _PIECE):
        end = between_tokens(line, min(begin + _PIECE, len(line)), 1, _LONGEST_LINE)
        piece = line[begin:end].strip()
        found += [piece] if len(piece) <= _LONGEST_LINE else []
        begin = end
    return found


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
    """Return a text with its diffs and edits carried out, and the stripped lines that they removed."""
    if not _MAYBE.search(text):
        return text, set()
    removed: set[str] = set()

    def new_side(found: re.Match[str]) -> str:
        removed.update(stripped(found[1]) - stripped(found[2]))
        return found[2]

    def patched(found: re.Match[str]) -> str:
        gone, kept = set[str](), list[str]()
        for line in found[1].split("\n"):
            if line.startswith("-") and not line.startswith("---"):
                gone.add(line[1:].strip())
            else:
                kept.append(line[line.startswith("+") and not line.startswith("+++") :])
        removed.update(gone - {line.strip() for line in kept})
        return "\n".join(kept)

    return _HUNKS.sub(patched, _FENCED.sub(patched, _BLOCK.sub(new_side, text))), removed


def stripped(text: str) -> set[str]:
    """Return the lines of a text without the spaces around them."""
    return {line.strip() for line in text.split("\n")}
