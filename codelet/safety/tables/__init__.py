"""The reader of the policy's tables, the text files in this folder.

`# …` is a comment, `[name]` begins a section, `name = words` is a row, and an indented line continues it. `name =
@other` repeats a row above. `$name` inserts that row of the section `options`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

Section = dict[str, str]


@cache
def read_table(name: str) -> dict[str, Section]:
    """The sections of a table, each with its rows in order."""
    sections: dict[str, Section] = {}
    rows, key = Section(), ""
    for line in Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line[1:-1], {})
        elif line.startswith(" "):
            rows[key] += f" {line.strip()}"
        elif line and not line.startswith("#"):
            key, _, words = line.partition(" =")
            rows[key] = rows[words.strip()[1:]] if words.startswith(" @") else words.strip()
    groups = sections.get("options", {})
    for rows in sections.values() if groups else ():
        rows |= {key: re.sub(r"\$(\w+)", lambda found: groups[found[1]], words) for key, words in rows.items()}
    return sections


def word_list(table: str, section: str, *rows: str) -> tuple[str, ...]:
    """The words of these rows of a section, by default of all its rows."""
    found = read_table(table)[section]
    return tuple(word for row in rows or found for word in found[row].split())


def rows_by_word(table: str, section: str) -> dict[str, str]:
    """The words of a section, each with the name of its row."""
    return {word: name for name, words in read_table(table)[section].items() for word in words.split()}
