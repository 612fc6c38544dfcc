"""Decode the words of a shell command as bash would, or say why that cannot be done.

Only what has one meaning is decoded: plain letters, quotes, a backslash before punctuation, a leading `~`.
A word with an expansion is marked `dynamic`; anything else that bash might rewrite raises UnclearError.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from codelet.safety.shell.syntax import Word


class UnclearError(Exception):
    """The text has a part whose meaning is not certain; the message says which, in words."""


QUOTED_ONLY = "\0"
"""The value of a variable that is known only at run time, and may be used in double quotes only."""

_ESCAPABLE_IN_QUOTES = '$`"\\'
_STARTS_EXPANSION = re.compile(r"[A-Za-z0-9_{(\[*@#?$!-]")
_SPECIAL_QUOTE = re.compile(r"\$'((?:[^'\\]|\\[tnr\\'\"])*)'")
_SPECIAL_LETTERS = {"t": "\t", "n": "\n", "r": "\r"}
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@%^-]+")


class _WordDecoder:
    """Walks over the source of one word; `spans` are the byte ranges of the expansions in it."""

    def __init__(self, raw: str, start: int, spans: Mapping[int, tuple[int, str | None]]) -> None:
        self.raw = raw
        self.start = start
        self.spans = spans
        self.text: list[str] = []
        self.pattern: list[str] = []
        self.is_glob = False
        self.dynamic = False
        self.splits = False
        self.braces: list[str] = []

    def decode(self) -> None:
        raw = self.raw
        position = self._tilde()
        while position < len(raw):
            letter = raw[position]
            if letter == "'":
                end = raw.find("'", position + 1)
                if end < 0:
                    raise UnclearError("a quote that is not closed")
                self._literal(raw[position + 1 : end])
                position = end + 1
            elif letter == '"':
                position = self._double_quoted(position + 1)
            elif letter == "\\":
                position = self._escaped(position)
            elif special := _SPECIAL_QUOTE.match(raw, position):
                self._literal(re.sub(r"\\(.)", lambda found: _SPECIAL_LETTERS.get(found[1], found[1]), special[1]))
                position = special.end()
            elif letter in "$`":
                position = self._expansion(position, quoted=False)
            else:
                self._unquoted(letter, position)
                position += 1
        unquoted = "".join(self.braces)
        if "{" in unquoted and ("," in unquoted or ".." in unquoted):
            raise UnclearError("a brace expansion")
        if re.fullmatch(r"\{\w+\}", raw):
            raise UnclearError("braces that may name a descriptor")

    def _literal(self, text: str) -> None:
        self.text.append(text)
        self.pattern.append(re.sub(r"([^\w/.])", r"\\\1", text, flags=re.ASCII))

    def _tilde(self) -> int:
        if not self.raw.startswith("~"):
            return 0
        rest = self.raw[1:2]
        if rest not in ("", "/"):
            raise UnclearError("a tilde with a name")
        home = os.environ.get("HOME")
        if not home:
            raise UnclearError("a tilde without a home folder")
        self._literal(home)
        return 1

    def _double_quoted(self, position: int) -> int:
        raw = self.raw
        while position < len(raw):
            letter = raw[position]
            if letter == '"':
                return position + 1
            if letter == "\\" and position + 1 < len(raw):
                following = raw[position + 1]
                if following == "\n":
                    raise UnclearError("a line continuation")
                self._literal(following if following in _ESCAPABLE_IN_QUOTES else letter + following)
                position += 2
            elif letter in "$`":
                position = self._expansion(position, quoted=True)
            else:
                self._literal(letter)
                position += 1
        raise UnclearError("a quote that is not closed")

    def _escaped(self, position: int) -> int:
        following = self.raw[position + 1 : position + 2]
        if not following or following.isalnum() or following == "\n":
            raise UnclearError("a backslash before a letter")
        self._literal(following)
        return position + 2

    def _expansion(self, position: int, *, quoted: bool) -> int:
        """Take the expansion that starts here; its end and, where it is known, its value are in `spans`."""
        offset = self.start + len(self.raw[:position].encode())
        if offset in self.spans:
            end, value = self.spans[offset]
            if value == QUOTED_ONLY and not quoted:
                raise UnclearError("a variable, not in quotes")
            if value is None or value == QUOTED_ONLY:
                self.dynamic = True
                self.splits = self.splits or not quoted
            elif not quoted and not _PLAIN.fullmatch(value):
                raise UnclearError("a variable with blanks or wildcards, not in quotes")
            else:
                self._literal(value)
            return len(self.raw.encode()[: end - self.start].decode())
        following = self.raw[position + 1 : position + 2]
        opens_string = not quoted and following in ("'", '"')
        if self.raw[position] == "`" or opens_string or _STARTS_EXPANSION.match(following):
            raise UnclearError("an expansion")
        self._literal("$")
        return position + 1

    def _unquoted(self, letter: str, position: int) -> None:
        if letter in " \t\n;&|<>()#" and not (letter == "#" and position):
            raise UnclearError("a shell sign inside a word")
        if letter == "~" and self.raw[position - 1] in "=:":
            raise UnclearError("a tilde after = or :")
        if letter in "{},.":
            self.braces.append(letter)
        self.is_glob = self.is_glob or letter in "*?["
        self.text.append(letter)
        self.pattern.append(letter)


def decode(raw: str, start: int, end: int, spans: Mapping[int, tuple[int, str | None]]) -> Word:
    """The word with source `raw` at the bytes `start` to `end` of the command.

    `spans` maps the start of each expansion in the command to its end and its value (None where the value
    is known at run time only). Raises UnclearError.
    """
    if _PLAIN.fullmatch(raw):
        return Word(raw, raw, start, end)
    decoder = _WordDecoder(raw, start, spans)
    decoder.decode()
    text = "".join(decoder.text)
    glob = "".join(decoder.pattern) if decoder.is_glob else None
    return Word(text, raw, start, end, glob, decoder.dynamic, decoder.splits)
