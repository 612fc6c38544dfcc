"""The user's input: a prompt and its piped input, and the part of each that is in the list and was sent.

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
    """A text with its whole size: all of it, or its ends around NOT_IN_MEMORY, whose place is `gap`."""

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
    """One text of the user's: `what` is `prompt` or `stdin`, `text` the part in memory, `key` its id in the archive.

    `sent` are the ranges that the model was sent.
    """

    def __init__(self, what: str, given: Piped) -> None:
        self.what = what
        self.text = prompt.escape(given.text)
        self.key = ""
        self.sent: list[tuple[int, int]] = []
        self.in_memory = given.gap is None
        """True if all of it is in memory."""
        self._bytes, self._lines = given.bytes, given.lines
        start, end = given.gap or (0, 0)
        moved = len(prompt.escape(given.text[:start])) - start
        self._gap = start + moved, end + moved
        self._missing = 0 if self.in_memory else max(0, given.bytes - byte_length(given.text) + end - start)

    @property
    def account(self) -> Cut:
        """Its size and the part that the model was sent, in bytes."""
        read = place = 0
        for start, end in sorted(self.sent):
            read += byte_length(self.text[max(start, place) : end])
            place = max(place, end)
        whole = self.in_memory and read == byte_length(self.text)
        return Cut(what=self.what, bytes=self._bytes, read=self._bytes if whole else min(read, self._bytes - 1))

    def excerpt(self, room: int) -> Excerpt:
        """Return its text for the list, in at most `room` characters, or as few as the marker allows."""
        text = self.text
        if self.in_memory and len(text) <= room:
            return Excerpt(text, ((self, 0, len(text)),))
        left = max(0, room - len(self._marker(0, 0)) - 40)
        head, tail = ends(text, left) if self.in_memory or len(text) > left else self._gap
        shown = text[:head] + self._marker(head, tail) + text[tail:]
        return Excerpt(shown, ((self, 0, head), (self, tail, len(text))))

    def _marker(self, head: int, tail: int) -> str:
        name = "stdin" if self.what == "stdin" else "the prompt"
        says = prompt.CUT_INPUT.format(what=name, size=self._bytes, lines=self._lines)
        if not self.key:
            return prompt.CUT_MARKER.format(says=says + prompt.CUT_LOST)
        between = f"{line_at(self.text, head)}-{line_at(self.text, max(head, tail - 1))}"
        says += prompt.CUT_KEPT.format(id=self.key, between=between)
        says += prompt.CUT_MISSING.format(missing=self._missing) if self._missing else ""
        return prompt.CUT_MARKER.format(says=says)


class Excerpt(Record):
    """The text in the list for some input, and the ranges of the inputs in that text."""

    text: str
    ranges: tuple[tuple[Input, int, int], ...]


def composed(inputs: Sequence[Input], room: int) -> Excerpt:
    """Return a prompt and its piped input in at most about `room` characters."""
    if len(inputs) == 1:
        return inputs[0].excerpt(room)
    words, piped = inputs
    room -= len(prompt.STDIN.format(text="")) + 2
    if len(words.text) + len(piped.text) > room or not piped.in_memory:
        own = words.excerpt(spent := min(len(words.text), room // 2))
        read = piped.excerpt(room - spent)
    else:
        own, read = (each.excerpt(len(each.text)) for each in inputs)
    return Excerpt(f"{own.text}\n\n{prompt.STDIN.format(text=read.text)}", (*own.ranges, *read.ranges))


def cut_in(text: str) -> tuple[Cut, ...]:
    """Return the cuts by the markers in a prompt's text; the text around a marker counts as read."""
    opening, closing = prompt.STDIN.split("{text}")
    found = []
    for part in text.split(f"\n\n{opening}", 1):
        if marker := re.search(_MARKER, part):
            size = int(marker[2].replace(",", ""))
            read = byte_length(part.removesuffix(closing)) - byte_length(marker[0])
            found.append(Cut(what=marker[1].removeprefix("the "), bytes=size, read=min(read, size - 1)))
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


def cut(text: str, most: int, recall_id: str = "") -> str:
    """Cut a text to `most` characters: head and tail, 60 to 40.

    The marker has the number of lines left out, and the `recall_id` of the whole text.
    """
    if len(text) <= most:
        return text
    total = text.count("\n") + 1
    hint = f"; recall entry={recall_id}" if recall_id else ""
    marker = f"\n[… {{}} lines left out of {len(text)} characters{hint} …]\n"
    if (room := most - len(marker.format(total))) < 40:
        return text[: max(0, most)]
    head, tail = ends(text, room)
    left_out = max(0, total - text.count("\n", 0, head) - text.count("\n", tail) - 1)
    return f"{text[:head].removesuffix(chr(10))}{marker.format(left_out)}{text[tail:]}"
