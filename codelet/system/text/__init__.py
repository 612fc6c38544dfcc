"""The one place that cleans untrusted text for a terminal, a log or a CI runner.

All text from a model, a file, a tool or a repository passes through here before it is shown: `Cleaner` for text that
arrives in chunks, `clean` for whole text, `visible` for approvals, `one_line` for notes. Front ends that use rich put
the result into `rich.text.Text`, never into a markup string.

Removed: escape sequences, control characters, bidirectional controls, invisible characters, variation
selectors and joiners where they join nothing, lone surrogates. Kept: everything that is plain text in any
script, tabs, newlines, emoji with their joiners. With `ci=True`, commands to a CI runner are broken too.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codelet.system.text.workflow import RunnerCommandBreaker


STRING_CAP = 4096
"""Characters that a string sequence (OSC, DCS, …) may take before it counts as never closed."""

MARKS_CAP = 8
"""Combining marks in a row that are kept: more than any script needs, too few to cover other lines."""

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that show nothing, or change the direction of the text around them (a regex class body)."""

CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f"
MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"

EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2"
    "\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff"
)
"""Characters that take an emoji selector or joiner, from Unicode's emoji-variation-sequences (a regex class body)."""

_LONG_GAP = 16
"""Spaces in a row after other text that could push what follows out of sight."""

_LONG_INDENT = 160
"""Columns of indentation that are shown unchanged: rows wrap, so fewer take at most a few rows."""

_TAB_WIDTH = 4
_EMPTY_LINES = 3
"""This many lines in a row that show nothing are replaced by their number."""

_MOST_MARKS = 4
"""Combining marks in a row that a script needs; more would be drawn over other lines, and written for nothing."""

_NO_INK = "\u2800\ufffc\U0001d159\U00013441\U00013442"
"""Characters that count as signs and show nothing, or may (a regex class body)."""

_WITHOUT_INK = ("Zs", "Zl", "Zp", "Cc", "Cf", "Cn", "Co", "Cs")

_HARMLESS = dict.fromkeys(
    (*b"\n\t", *range(0xA1, 0xAD), *range(0xAE, 0x300), *range(0x2010, 0x2028), *range(0x2190, 0x2400))
)
"""Letters, dashes, quotation marks and arrows that are plain text everywhere, and newlines and tabs."""

_STRING_BODY = f"[^\x00-\x1f\x7f-\x9f]{{0,{STRING_CAP}}}"


@cache
def _unsafe() -> re.Pattern[str]:
    """A pattern for one unsafe token; the longest form first."""
    return re.compile(
        rf"(?P<sequence>(?:\x1b\[|\x9b)[0-?]{{0,64}}[ -/]{{0,8}}[@-~]"
        rf"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]){_STRING_BODY}(?:\x07|\x1b\\|\x9c)"
        rf"|\x1b[ -/]{{1,8}}[0-~]|\x1b[0-OQ-WYZ\\`-~])"
        rf"|(?P<crlf>\r\n)|(?P<newline>[\r\x0b\x0c\x85\u2028\u2029])"
        rf"|(?P<joiner>[\u200c\u200d])|(?P<selector>[\ufe0e\ufe0f])"
        rf"|(?P<surrogate>[\ud800-\udfff])"
        rf"|(?P<gone>[{CONTROL}{INVISIBLE}])"
        rf"|(?P<marks>[{MARKS}]+)"
    )


@cache
def _unfinished() -> re.Pattern[str]:
    """The end of a chunk that the next chunk may continue to a whole token."""
    return re.compile(
        rf"(?:(?:\x1b\[|\x9b)[0-?]{{0,64}}[ -/]{{0,8}}"
        rf"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]){_STRING_BODY}\x1b?"
        rf"|\x1b[ -/]{{0,8}})\Z"
    )


_INTRODUCERS = "\x1b\x9b\x9d\x90\x98\x9e\x9f"


def _is_emoji(character: str) -> bool:
    """Return whether the character takes an emoji selector or joiner."""
    return re.match(f"[{EMOJI}]", character) is not None


def _joins_script(character: str) -> bool:
    """Return whether the character belongs to a script whose letters take joiners (Arabic, Syriac, Indic, …)."""
    code = ord(character) if character else 0
    return 0x0620 <= code <= 0x08FF or 0x0900 <= code <= 0x0DFF or 0x0F00 <= code <= 0x109F or code == 0x1780


class Cleaner:
    """Cleans text that arrives in chunks; where they are cut makes no difference.

    `feed` returns what is settled, `flush` the rest at the end. With `ci=True` the result holds no command that a CI
    runner would obey.
    """

    def __init__(self, *, ci: bool = False) -> None:
        self._pending = ""
        self._before = ""
        self._marks = 0
        self._workflow: RunnerCommandBreaker | None = None
        if ci:
            from codelet.system.text.workflow import RunnerCommandBreaker

            self._workflow = RunnerCommandBreaker()

    def feed(self, chunk: str) -> str:
        """Take a chunk; returns the part of the text that is settled by now and was not returned before."""
        text = self._pending + chunk
        cut = self._settled(text)
        self._pending = text[cut:]
        return self._cleaned(text[:cut], self._pending)

    def flush(self) -> str:
        """Return what is left at the end of the text; a sequence that was never closed shows as plain text."""
        rest, self._pending = self._pending, ""
        cleaned = self._cleaned(rest, "")
        return cleaned if self._workflow is None else cleaned + self._workflow.flush()

    def _settled(self, text: str) -> int:
        """Return how much of `text` no later chunk can change."""
        unfinished = _unfinished()
        start = max(map(text.rfind, _INTRODUCERS))
        if start > 0 and text[start] == "\x1b" and start == len(text) - 1:
            # The escape of a closing "ESC \" is itself an introducer: look from the string's own start.
            earlier = max(text.rfind(mark, max(0, start - STRING_CAP - 2), start) for mark in _INTRODUCERS)
            if earlier >= 0 and unfinished.match(text, earlier):
                return earlier
        if start >= 0 and unfinished.match(text, start):
            return start
        return len(text) - 1 if text and text[-1] in "\r\u200c\u200d" else len(text)

    def _cleaned(self, text: str, following: str) -> str:
        if not text:
            return ""
        unsafe = _unsafe()
        if unsafe.search(text) is None:
            cleaned = text
            self._marks = 0
            self._before = text[-1]
        else:
            cleaned = self._replaced(text, following, unsafe)
        return cleaned if self._workflow is None else self._workflow.feed(cleaned)

    def _replaced(self, text: str, following: str, unsafe: re.Pattern[str]) -> str:
        parts: list[str] = []
        position = 0
        for found in unsafe.finditer(text):
            if found.start() > position:
                self._marks = 0
                self._before = text[found.start() - 1]
                parts.append(text[position : found.start()])
            after = text[found.end()] if found.end() < len(text) else following[:1]
            kept = self._replacement(str(found.lastgroup), found.group(), self._before, after)
            self._before = kept[-1:] or self._before
            parts.append(kept)
            position = found.end()
        if position < len(text):
            self._marks = 0
            self._before = text[-1]
            parts.append(text[position:])
        return "".join(parts)

    def _replacement(self, kind: str, token: str, before: str, after: str) -> str:
        """Return the replacement of one unsafe token between the characters `before` and `after`."""
        if kind == "crlf":
            return token
        if kind == "newline":
            return "\n"
        if kind == "surrogate":
            return "\ufffd"
        if kind == "marks":
            kept = token[: max(0, MARKS_CAP - self._marks)]
            self._marks += len(token)
            return kept
        if kind == "selector":
            return token if _is_emoji(before) or (before and before in "0123456789#*") else ""
        if kind == "joiner":
            emoji = (_is_emoji(before) or before == "\ufe0f") and _is_emoji(after)
            letters = _joins_script(before) and _joins_script(after)
            return token if emoji or letters else ""
        return ""


def clean(text: str) -> str:
    """`text` without anything that a terminal would not show as plain text."""
    others = text.translate(_HARMLESS)
    if others.isascii() and others.isprintable():
        return text  # most text is plain, and the first request need not wait for the pattern to be compiled
    if _unsafe().search(text) is None:
        return text
    cleaner = Cleaner()
    return cleaner.feed(text) + cleaner.flush()


def is_blank(text: str) -> bool:
    """Return whether no one would see anything of `text`: white space, and what `clean` takes out."""
    stripped = text.strip()
    if not stripped or (stripped[0].isascii() and stripped[0].isprintable()):
        return not stripped
    return not clean(stripped).strip()


def valid_unicode(text: str) -> str:
    """`text` with every lone surrogate replaced, so that it can be encoded; pairs become their character."""
    if text.isascii() or re.search("[\ud800-\udfff]", text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_line(text: str, width: int) -> str:
    """`text` cleaned, on one line, at most `width` terminal columns wide, cut with an ellipsis."""
    import unicodedata

    words = " ".join(clean(text[: 8 * width + 64]).split())
    columns = 0
    fits = 0
    for index, character in enumerate(words):
        if not unicodedata.combining(character):
            columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if columns > width:
            return words[:fits] + "…"
        if columns <= width - 1:
            fits = index + 1
    return words


def first_sentence(text: str) -> str:
    """The first sentence without its full stop; that of an abbreviation (e.g., i.e.) ends none."""
    return re.split(r"(?<!\be\.g)(?<!\bi\.e)\.(?:\s|\Z)", text, maxsplit=1)[0]


def visible(text: str) -> str:
    """Return `text` for an approval: nothing hidden, nothing left out.

    Every character that a terminal would not show is written as its code, and a long run of such characters, or of
    spaces after other text, as its length: nothing can be pushed out of sight. Indentation stays unless it would fill
    whole rows. More marks than a script puts on one letter are replaced by a note. Newlines, tabs and the joiners of
    emoji stay.
    """
    joiners = {found.start() for found in _emoji_joiners().finditer(text)} if re.search("[\ufe0f\u200d]", text) else ()
    shown = re.sub(
        rf"[{CONTROL}\x80-\U0010ffff]+", lambda found: _with_ink(found.group(), found.start(), joiners), text
    )
    return re.sub(rf"(?m)(^)?[ \t]{{{_LONG_GAP},}}", _measured, shown)


@cache
def _emoji_joiners() -> re.Pattern[str]:
    """A selector after an emoji or in a keycap, and a joiner between two emoji."""
    joiner = rf"(?:(?<=[{EMOJI}])|(?<=[{EMOJI}]\ufe0f))\u200d(?=[{EMOJI}])"
    return re.compile(rf"(?<=[{EMOJI}])\ufe0f|(?<=[0-9#*])\ufe0f(?=\u20e3)|{joiner}")


def _measured(found: re.Match[str]) -> str:
    """A long run of spaces or tabs as its length, unless it is the indentation of a line."""
    run = found.group()
    if found[1] is not None and len(run.expandtabs(_TAB_WIDTH)) <= _LONG_INDENT:
        return run
    name = "spaces" if "\t" not in run else "tabs" if " " not in run else "spaces and tabs"
    return f" ⟨{len(run)} {name}⟩ "


class _Coder(Cleaner):
    """Writes as its code what a cleaner would take out."""

    def _replacement(self, kind: str, token: str, before: str, after: str) -> str:
        kept = super()._replacement(kind, token, before, after)
        return kept or re.sub(f"[{CONTROL}{INVISIBLE}\ud800-\udfff]", lambda found: _code(found.group()), token)


def with_codes(text: str) -> str:
    """`text` with every letter that `clean` would take out, because no one sees it, written as its code."""
    if clean(text) == text:
        return text
    coder = _Coder()
    return coder.feed(text) + coder.flush()


def visible_command(text: str) -> str:
    """A shell command as an approval shows it: as `visible`, and lines in a row that show nothing as their number.

    Lines of spaces, also with a backslash at the end, and of empty comments show nothing.
    """
    lines: list[str] = []
    waiting: list[str] = []
    for line in [*text.split("\n"), None]:
        if line is not None and re.fullmatch(r"[ \t]*#*[ \t]*\\?", line):
            waiting.append(line)
            continue
        if len(waiting) < _EMPTY_LINES:
            lines += map(visible, waiting)
        else:
            lines.append(f"⟨{len(waiting)} empty lines⟩")
        waiting.clear()
        if line is not None:
            lines.append(visible(line))
    return "\n".join(lines)


def _with_ink(run: str, start: int, joiners: Container[int]) -> str:
    """Return a run that begins at `start`, with codes for characters without ink, and no more marks on a letter than a
    script needs. The characters at `joiners` stay.
    """
    import unicodedata

    hidden = re.compile(f"[{INVISIBLE}{_NO_INK}]")
    parts: list[str] = []
    codes: list[str] = []
    marks = 0
    for place, character in enumerate(f"{run}\n", start):
        category = unicodedata.category(character)
        if place not in joiners and character != "\n" and (category in _WITHOUT_INK or hidden.match(character)):
            codes.append(_code(character))
            continue
        parts.append("".join(codes) if len(codes) < _LONG_GAP else f" ⟨{len(codes)} characters like {codes[0]}⟩ ")
        marks = marks + 1 if category[0] == "M" and not codes else int(category[0] == "M")
        codes.clear()
        if marks <= _MOST_MARKS:
            parts.append(character)
        elif marks == _MOST_MARKS + 1:
            parts.append("⟨more marks⟩")
    return "".join(parts[:-1])


def _code(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
