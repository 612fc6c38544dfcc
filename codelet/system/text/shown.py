"""Forms of untrusted text for special places: one line, the question of an approval."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache

from codelet.system.text.cleaner import CONTROL, EMOJI, INVISIBLE, Cleaner, clean

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
