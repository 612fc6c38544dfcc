"""What an edit took out and what it put in, told from its arguments or from a diff in a text.

Removed text must never be read as what a file says now. Forms: arguments named old and new, patches and unified diffs,
the hunks of a plain `diff`, and blocks of search and replace. A `-` at the head of a line means nothing by itself:
only inside a hunk is the line a removed one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_OLD_KEYS = frozenset(
    "old oldstring oldstr oldtext oldcode oldcontent oldlines search searchstring searchtext searchblock find before "
    "original originaltext targetcontent texttoreplace".split()
)
# Every form has one of these; almost no text has, and to look for them is far cheaper than to read each line.
_HINTS = ("@@", "<<<<<<", "-- SEARCH", "*** ", "```diff", "\n< ", "\n> ")
_UNIFIED = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_COMBINED = re.compile(r"@@@+ -\d")
_PLAIN = re.compile(r"\d+(?:,\d+)?[acd]\d+(?:,\d+)?\Z")
_SEARCH = re.compile(r"<{5,9} (?:SEARCH|ORIGINAL)\b|-{5,9} SEARCH\Z")
_MIDDLE = re.compile(r"={5,9}\Z")
_REPLACED = re.compile(r"(?:>{5,9}|\+{5,9}) (?:REPLACE|UPDATED)\b")
_PATCH_FILE = re.compile(r"\*\*\* (Update|Add|Delete) File: (\S.*)|\*\*(Update|Add|Delete): `([^`\n]+)`\*\*")
_MOVED = re.compile(r"\*\*\* Move to: (\S.*)")
_HEADER = re.compile(r"(?:diff --git |index [0-9a-f]{6,}|--- \S|\+\+\+ \S|new file mode|deleted file mode|Index: )")
_NAME = re.compile(r"(---|\+\+\+) (?:[ab]/)?(\S+)(?:\t.*)?\Z")
_SURE_NAME = re.compile(r"(?:---|\+\+\+) (?:[ab]/|/dev/null)")
_LOOSE_HUNK = re.compile(r"@@(?: |\Z)")
_NO_FILE = "/dev/null"
_SUBSTITUTION = re.compile(r"(?:\A|[;\s])s([/|#,@!:%])((?:(?!\1)[^\\\n]|\\.)*)\1(?:(?!\1)[^\\\n]|\\.)*\1")
# What a basic regular expression takes as it stands, and an extended one does not.
_SWAPPED = re.compile(r"\\([+?(){}|])|([+?(){}|])")
_LONGEST_PATTERN = 300
# A repeated group, or many repetitions, could take a time that grows without bounds.
_SLOW = re.compile(r"\)\s*[*+{]|\\\d|(?:[*+}].*){4}", re.DOTALL)
_FRAME = ("*** Begin Patch", "*** End Patch")


@dataclass
class EditedText:
    """A text with edits: `shown` are the lines that still hold, `removed` pairs of a file ("" if unknown) and lines.

    `written` and `deleted` are the files that a patch changes; a diff that is only printed names none.
    """

    shown: list[str] = field(default_factory=list)
    removed: list[tuple[str, list[str]]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def take_out(self, file: str, line: str) -> None:
        """Count a line as removed."""
        if not self.removed or self.removed[-1][0] != file:
            self.removed.append((file, []))
        self.removed[-1][1].append(line)

    @property
    def text(self) -> str:
        """The lines that still hold, as one text."""
        return "\n".join(self.shown)


def is_old(key: str) -> bool:
    """Whether an argument of that name holds the text that an edit replaces."""
    return key.lower().replace("_", "").replace("-", "") in _OLD_KEYS


def shows_edit(text: str) -> bool:
    """Whether a text may hold a diff, a patch or a block of search and replace."""
    return any(map(text.__contains__, _HINTS))


def without_removed(text: str) -> EditedText:
    """Separate the lines that the diffs, patches and blocks in a text remove from the rest of it."""
    parts = EditedText()
    reader = _Reader(parts)
    for line in text.split("\n"):
        reader.line(line)
    reader.end()
    return parts


class _Reader:
    """Reads a text line by line; `mode` is the form of edit that the line belongs to, "" outside of all."""

    def __init__(self, parts: EditedText) -> None:
        self._parts = parts
        self._mode = ""
        self._file = ""
        self._old = self._new = 0
        # What a block of search and replace looks for: removed only if the block goes on.
        self._searched: list[str] = []

    def line(self, line: str) -> None:
        """Take the next line."""
        line = line.removesuffix("\r")
        if self._begins(line):
            return
        mode = self._mode
        if mode == "unified":
            self._counted(line)
        elif mode == "patch":
            self._in_patch(line)
        elif mode == "combined":
            self._in_combined(line)
        elif mode == "plain":
            self._in_plain(line)
        elif mode in ("search", "replace"):
            self._in_block(line)
        elif not _HEADER.match(line) and line not in _FRAME:
            self._parts.shown.append(line)

    def end(self) -> None:
        """End the text: a block that never got to its middle replaced nothing."""
        self._parts.shown += self._searched

    def _begins(self, line: str) -> bool:
        """Whether the line opens a hunk, a file of a patch or a block."""
        counted = self._mode == "unified"
        if found := _UNIFIED.match(line):
            self._mode = "unified"
            self._old, self._new = int(found.group(1) or 1), int(found.group(2) or 1)
            return True
        if counted:  # a hunk ends with its last line, whatever the lines in it look like
            return False
        if self._mode not in ("search", "replace") and _SEARCH.match(line):
            self._mode = "search"
            return True
        if found := _PATCH_FILE.match(line):
            self._patch_file(found.group(1) or found.group(3), (found.group(2) or found.group(4)).strip())
            return True
        if (name := _NAME.match(line)) and (self._mode != "patch" or _SURE_NAME.match(line)):
            self._name_file(name.group(1), name.group(2))
            return True
        if _COMBINED.match(line):
            self._mode = "combined"
        elif _PLAIN.match(line):
            self._mode = "plain"
        elif line.startswith("```diff") or (_LOOSE_HUNK.match(line) and self._mode in ("", "patch")):
            self._mode = "patch"
        else:
            return False
        return True

    def _name_file(self, sign: str, file: str) -> None:
        """A line of a diff's head: the old file's name, then the new one's."""
        if file != _NO_FILE:
            self._file = file
        if sign == "+++":
            (self._parts.deleted if file == _NO_FILE else self._parts.written).append(self._file)
        self._mode = self._mode and "patch"

    def _patch_file(self, what: str, file: str) -> None:
        self._mode, self._file = "patch", file
        (self._parts.deleted if what == "Delete" else self._parts.written).append(file)
        self._parts.shown.append(f"{what} {file}")

    def _counted(self, line: str) -> None:
        """A line of a hunk that says how many lines it has on both sides."""
        sign, rest = line[:1], line[1:]
        if sign == "\\":
            return
        if sign not in (" ", "+", "-", ""):
            self._mode = ""
            self.line(line)
            return
        if sign == "-":
            self._parts.take_out(self._file, rest)
            self._old -= 1
        else:
            self._parts.shown.append(rest)
            self._new -= 1
            self._old -= sign != "+"
        if self._old <= 0 and self._new <= 0:
            self._mode = ""

    def _in_patch(self, line: str) -> None:
        """A line of a patch whose hunks have no counts: up to its end or the fence."""
        if line.startswith(("*** End", "```")):
            self._mode = ""
        elif found := _MOVED.match(line):
            if self._file in self._parts.written:  # as an update: it stands elsewhere now
                self._parts.written.remove(self._file)
            self._parts.deleted.append(self._file)
            self._file = found.group(1).strip()
            self._parts.written.append(self._file)
        elif line.startswith("-") and not line.startswith("--- "):
            self._parts.take_out(self._file, line[1:])
        elif not _HEADER.match(line):
            self._parts.shown.append(line[1:] if line[:1] in ("+", " ") else line)

    def _in_combined(self, line: str) -> None:
        if line[:1] not in (" ", "+", "-"):
            self._mode = ""
            self.line(line)
        elif "-" in line[:2]:
            self._parts.take_out(self._file, line[2:])
        else:
            self._parts.shown.append(line[2:])

    def _in_plain(self, line: str) -> None:
        if line.startswith("< "):
            self._parts.take_out("", line[2:])
        elif line.startswith("> "):
            self._parts.shown.append(line[2:])
        elif line != "---" and not line.startswith("\\"):
            self._mode = ""
            self.line(line)

    def _in_block(self, line: str) -> None:
        if self._mode == "search" and _MIDDLE.match(line):
            self._mode = "replace"
            for searched in self._searched:
                self._parts.take_out("", searched)
            self._searched = []
        elif self._mode == "search":
            self._searched.append(line)
        elif _REPLACED.match(line):
            self._mode = ""
        else:
            self._parts.shown.append(line)


def texts_in(value: object, old: bool = False) -> Iterator[tuple[bool, str]]:
    """Yield (removed, text) pairs for the arguments of an edit; what it removes comes before what it adds."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=lambda name: not is_old(str(name))):
            yield from texts_in(value[key], old or is_old(str(key)))
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item, old)
    elif isinstance(value, str):
        yield old, value
    elif value is not None and not isinstance(value, bool):  # a switch of the tool, no text
        yield old, json.dumps(value, default=str)


def substituted(scripts: Iterable[str], *, extended: bool) -> list[re.Pattern[str]]:
    """Patterns of the lines that the substitutions of some scripts for sed or perl replace."""
    old = [text for script in scripts for _, text in _SUBSTITUTION.findall(script)]
    return [pattern for text in old if (pattern := _compiled(text, extended=extended)) is not None]


def _compiled(text: str, *, extended: bool) -> re.Pattern[str] | None:
    """The pattern of a substitution; None if Python does not know its syntax, or it could be slow."""
    if not extended:
        text = _SWAPPED.sub(lambda found: found.group(1) or "\\" + found.group(2), text)
    try:
        return re.compile(text, re.MULTILINE) if len(text) <= _LONGEST_PATTERN and not _SLOW.search(text) else None
    except (re.error, RecursionError, OverflowError):
        return None
