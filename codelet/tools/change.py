"""A change to one file, worked out before it is made: what `write` and `edit` have in common."""

from __future__ import annotations

from pathlib import Path

from codelet.record import Record
from codelet.tools import encoding
from codelet.tools.diff import unified
from codelet.tools.files import Fingerprint
from codelet.tools.replace import replace
from codelet.tools.seen import EVERY, ShownLines
from codelet.tools.tool import ToolContext

MOST_BYTES = 10 << 20
"""Larger files are neither edited nor compared."""


class Change(Record):
    """One file's text before and after it, and how that is written to the disk.

    `before` is None where there was no file, or none with text. `summary` is what the model is told.
    `expected` is the fingerprint that the file must have when the change is made, None for a new file.
    `unseen` says in words what of the file the model was shown, where it would replace more than that.
    `whole` marks a text that the model wrote from beginning to end.
    """

    path: Path
    name: str
    before: str | None
    after: str
    form: encoding.Format
    expected: Fingerprint | None
    summary: str
    unseen: str = ""
    whole: bool = False

    def diff(self) -> str:
        """The change as a person should see it."""
        head = f"(the diff leaves out what {self.name} held: no text)\n" if self._hides_old() else ""
        return head + unified(self.before or "", self.after, self.name)

    def make(self, context: ToolContext) -> None:
        """Write the file and remember it as seen. Raises ToolError; then the old file is whole."""
        data = encoding.encode(self.after, self.form)
        written = replace(self.path, data, self.name, self.expected)
        known = context.lines.pop(self.path, None)
        context.seen[self.path] = written
        if self.whole:
            context.saw(ShownLines(self.path, written, (EVERY,)))
        elif known is not None and known.fingerprint == self.expected and self.before is not None:
            context.saw(known.after(self.before, self.after, written))

    def _hides_old(self) -> bool:
        return self.before is None and self.expected is not None


def with_line_ends_of(text: str, example: str) -> str:
    """The text with CRLF line ends if most lines of the example have them."""
    ends = example.count("\r\n")
    if not ends or 2 * ends <= example.count("\n"):
        return text
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
