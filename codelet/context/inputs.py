"""The user's input: a prompt and its piped input, the part in the list, and the part that was sent.

A text that does not fit is cut to both ends, with a marker between them that has its size and how to read the rest.
Places in a text are offsets in characters; lines count from 1, bytes from 0, in UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from codelet import prompt
from codelet.events import Cut
from codelet.messages import Picture
from codelet.record import Record

_MARKER = r"\n\[… cut here: (stdin|the prompt) has ([0-9,]+) bytes in [0-9,]+ lines and does not fit; .*?…\]\n"


class Piped(Record):
    """Piped input: all of it, or its ends as `both_ends` if it is too large for memory; then `gap` is between them.

    `bytes` and `lines` are its whole size.
    """

    text: str
    bytes: int
    lines: int
    gap: tuple[int, int] | None = None


class Refused(Record):
    """A file that was not attached: the policy's reason, and whether it is denied whatever the flags."""

    path: str
    reason: str
    denied: bool


class Attached(Record):
    """The attachments of a prompt: `text` to add after it, and `images`.

    `names` lists them for the user, `notes` the files that are not attached; `refused` are those that the policy did
    not permit.
    """

    text: str = ""
    images: tuple[Picture, ...] = ()
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()


class Input:
    """One text of the user's, named `what`. `cut` is set if it was not sent whole.

    `text` is what is in memory: all of it, or its ends as `both_ends` with a `gap`. `key` is its id in the archive.
    """

    def __init__(
        self,
        what: str,
        text: str,
        size: int | None = None,
        lines: int | None = None,
        gap: tuple[int, int] | None = None,
    ) -> None:
        self.what = what
        self.cut = False
        self.key = ""
        self.sent = Spans()
        self._bytes = byte_length(text) if size is None else size
        self._lines = line_count(text) if lines is None else lines
        self.text = prompt.escape(text)
        self.in_memory = gap is None
        """Whether all of it is in memory."""
        start, end = gap or (0, 0)
        moved = len(prompt.escape(text[:start])) - start if len(self.text) != len(text) else 0
        self._gap = start + moved, end + moved
        self._missing = max(0, self._bytes - byte_length(text) + end - start) if gap is not None else 0

    @property
    def account(self) -> Cut:
        """Its size and the part that the model was sent, in bytes."""
        if self.in_memory and self.sent.cover(self.text):
            return Cut(what=self.what, bytes=self._bytes, read=self._bytes)
        return Cut(what=self.what, bytes=self._bytes, read=min(self.sent.bytes_of(self.text), self._bytes - 1))

    def excerpt(self, room: int, *, recall: bool) -> Excerpt:
        """Return its text for the list, in at most `room` characters, or as few as the marker allows."""
        text = self.text
        if self.in_memory and len(text) <= room:
            return Excerpt(text, ((self, 0, len(text)),))
        left = max(0, room - len(self._marker(0, 0, recall=recall)) - 40)
        head, tail = ends(text, left) if self.in_memory or len(text) > left else self._gap
        shown = text[:head] + self._marker(head, tail, recall=recall) + text[tail:]
        return Excerpt(shown, ((self, 0, head), (self, tail, len(text))))

    def _marker(self, head: int, tail: int, *, recall: bool) -> str:
        name = "stdin" if self.what == "stdin" else "the prompt"
        says = prompt.CUT_INPUT.format(what=name, size=self._bytes, lines=self._lines)
        if not recall or not self.key:
            return prompt.CUT_MARKER.format(says=says + prompt.CUT_LOST)
        between = f"{line_at(self.text, head)}-{line_at(self.text, max(head, tail - 1))}"
        says += prompt.CUT_KEPT.format(id=self.key, between=between)
        if self._missing:
            says += prompt.CUT_MISSING.format(missing=self._missing)
        return prompt.CUT_MARKER.format(says=says)


class Excerpt(Record):
    """The text in the list for some input, and the ranges of the inputs in that text."""

    text: str
    ranges: tuple[tuple[Input, int, int], ...]


def composed(inputs: Sequence[Input], room: int, *, recall: bool) -> Excerpt:
    """Return a prompt and its piped input in at most about `room` characters."""
    if len(inputs) == 1:
        return inputs[0].excerpt(room, recall=recall)
    words, piped = inputs
    frame = prompt.STDIN.format(text="")
    room -= len(frame) + 2
    if len(words.text) + len(piped.text) <= room and piped.in_memory:
        shares = len(words.text), len(piped.text)
    else:
        spent = min(len(words.text), room // 2)
        shares = spent, room - spent
    own, read = (each.excerpt(share, recall=recall) for each, share in zip(inputs, shares, strict=True))
    return Excerpt(f"{own.text}\n\n{prompt.STDIN.format(text=read.text)}", (*own.ranges, *read.ranges))


def both_ends(head: str, tail: str) -> tuple[str, tuple[int, int]]:
    """Return both ends of a text with a line between them, and the place of this line."""
    return f"{head}{prompt.NOT_IN_MEMORY}{tail}", (len(head), len(head) + len(prompt.NOT_IN_MEMORY))


def cut_in(text: str) -> tuple[Cut, ...]:
    """Return the cuts by the markers in a prompt's text; the text around a marker counts as read."""
    found = []
    for marker in re.finditer(_MARKER, text):
        piped = marker[1] == "stdin"
        opening, closing = prompt.STDIN.split("{text}")
        start = text.find(opening, 0, marker.start()) + len(opening) if piped and opening in text else 0
        end = text.rfind(closing, marker.end()) if piped else text.find(f"\n\n{opening}", marker.end())
        beside = text[start : marker.start()] + text[marker.end() : end if end >= 0 else len(text)]
        size = int(marker[2].replace(",", ""))
        found.append(Cut(what="stdin" if piped else "prompt", bytes=size, read=min(byte_length(beside), size - 1)))
    return tuple(found)


def byte_length(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def line_count(text: str) -> int:
    """Return the number of lines, with an unfinished last one."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def line_at(text: str, place: int) -> int:
    """Return the number of the line at a place."""
    return text.count("\n", 0, place) + 1


def place_of_line(text: str, number: int) -> int:
    """Return the place of a line's beginning; the end of the text if there are fewer lines."""
    place = 0
    for _ in range(number - 1):
        place = text.find("\n", place) + 1
        if place == 0:
            return len(text)
    return place


def byte_at(text: str, place: int) -> int:
    """Return the number of the first byte of the character at a place."""
    return place if text.isascii() else byte_length(text[:place])


def place_of_byte(text: str, number: int) -> int:
    """Return the place of the character with a byte, or the text's end."""
    if text.isascii():
        return min(number, len(text))
    return len(text.encode("utf-8", "replace")[:number].decode("utf-8", "ignore"))


def ends(text: str, room: int) -> tuple[int, int]:
    """Return the end of a head and the beginning of a tail with at most `room` characters together, 60 to 40.

    Both are at line ends if there is one in the outer half.
    """
    if len(text) <= room:
        return len(text), len(text)
    most, start = room * 6 // 10, len(text) - room * 4 // 10
    head = text.rfind("\n", most // 2, most) + 1 or most
    return head, text.find("\n", start, start + room * 2 // 10) + 1 or start


class Spans:
    """Ranges of one text, as places, merged."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        """Add the characters from `start` to before `end`."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted([*self._spans, (start, max(start, end))]):
            if merged and first <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        self._spans = merged

    def bytes_of(self, text: str) -> int:
        """Return the number of bytes of `text` in the ranges."""
        return sum(byte_length(text[start:end]) for start, end in self._spans)

    def cover(self, text: str) -> bool:
        """Return whether the ranges cover all of `text`."""
        return not text or any(start <= 0 and end >= len(text) for start, end in self._spans)
