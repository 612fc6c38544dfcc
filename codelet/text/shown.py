"""Forms of untrusted text for special places: one line, an approval, a rich markup string."""

from __future__ import annotations

import re

from codelet.text.cleaner import CONTROL, INVISIBLE, clean

_LONG_BLANK = 16


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
    """`text` as an approval shows it: nothing hidden, nothing left out.

    Every character that a terminal would not show is written as its code, and a long run of blanks as its
    length, so that nothing can be pushed out of sight. Newlines and tabs stay.
    """
    shown = re.sub(f"[{CONTROL}{INVISIBLE}\ud800-\udfff\xa0]", _code, text)
    return re.sub(rf"[ \t]{{{_LONG_BLANK},}}", lambda blank: f" ⟨{len(blank.group())} blanks⟩ ", shown)


def _code(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape_markup(text: str) -> str:
    """`text` as a literal inside a rich markup string: whatever rich would read as a tag is escaped."""
    escaped = re.sub(r"(\\*)(\[[a-zA-Z#/@][^\[]*?\])", r"\1\1\\\2", text)
    trailing = len(escaped) - len(escaped.rstrip("\\"))
    return escaped + "\\" * (trailing % 2)


def has_markup(text: str) -> bool:
    """Whether `text` holds a tag that rich would act on: a closing tag, a link, a click action or a style."""
    return any(_is_tag(found.group(1)) for found in re.finditer(r"\[([a-zA-Z#/@][^\[\]]*)\]", text))


_ATTRIBUTES = frozenset(
    [
        "b",
        "bold",
        "d",
        "dim",
        "i",
        "italic",
        "u",
        "underline",
        "uu",
        "underline2",
        "blink",
        "blink2",
        "r",
        "reverse",
        "c",
        "conceal",
        "s",
        "strike",
        "frame",
        "encircle",
        "o",
        "overline",
        "on",
        "not",
        "none",
        "link",
        "default",
        "black",
        "red",
        "green",
        "yellow",
        "blue",
        "magenta",
        "cyan",
        "white",
    ]
)


def _is_tag(body: str) -> bool:
    if body[0] in "/@":
        return True
    name = body.split("=", 1)[0].split()
    if name[0] == "link":
        return "=" in body or len(name) > 1
    # A single letter is far more often an index or a check box than a style.
    if len(name) == 1 and len(name[0]) < 3:
        return False
    return all(_is_style(word) for word in name)


def _is_style(word: str) -> bool:
    if word in _ATTRIBUTES or re.fullmatch(r"#[0-9a-fA-F]{6}|color\(\d{1,3}\)|rgb\([\d,]+\)", word):
        return True
    return re.fullmatch(r"(?:bright|dark|light|deep|hot|medium)_\w+", word) is not None
