"""Text, code and names as Markdown in which nothing of them acts: no mark-up, link, picture, mention or reference."""

from __future__ import annotations

import re

from codelet.review.hunk_lines import SEPARATOR
from codelet.system.text import with_codes

_SPECIAL = re.compile(r"([\\`*_\[\]|~])")
_CODE = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)")
_LINE_START = re.compile(r"(?m)^(\s*)([#+=/-]|\d+(?=[.)]))")
_REFERENCE = re.compile(r"(?:@|(?<!&)#|://|\bwww\.)(?=\S)|\bGH-(?=\d)")


def markdown_text(text: str) -> str:
    """Text in which nothing is mark-up but spans of code; names and addresses are hidden from the service."""
    parts = _CODE.split(text)
    return "".join(code_span(with_codes(part)) if number % 2 else _escaped(part) for number, part in enumerate(parts))


def _escaped(text: str) -> str:
    """Text in which nothing is mark-up; an empty comment keeps a service from seeing names and addresses in it."""
    escaped = with_codes(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = _LINE_START.sub(_kept, _SPECIAL.sub(r"\\\1", escaped))
    return _REFERENCE.sub(lambda found: f"{found.group()[:-1]}{_broken(found.group()[-1])}", escaped)


def markdown_line(text: str) -> str:
    """Text on one line."""
    return markdown_text(" ".join(text.split()))


def _kept(found: re.Match[str]) -> str:
    """The beginning of a line, if it would make a heading, a rule, a list, or a command to the service (`/approve`)."""
    blank, mark = found.groups()
    return f"{blank}&#{ord(mark[0])};{mark[1:]}"


def _broken(mark: str) -> str:
    """The last sign of a reference, torn from what it refers to."""
    return f"<!-- -->{mark}" if mark in "/." else f"{mark}<!-- -->"


def code_span(text: str) -> str:
    """A code span that holds any text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    blank = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def code_block(text: str, language: str) -> str:
    """A block of code, whatever stands in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    block = with_codes(SEPARATOR.sub(lambda sign: f"⟨U+{ord(sign.group()):04X}⟩", text.rstrip("\n")))
    return f"{fence}{language}\n{block}\n{fence}"
