"""The folders that a shell command names, of a workspace."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

_MOST_WORDS = 500
_MOST_BASES = 8
_WORD = r"""'([^']*)'|"([^"]*)"|([^\s;&|<>()'"`]+)"""


def folders_named(command: str, root: Path) -> Iterator[Path]:
    """Return the folders that a shell command runs in, or whose files it names.

    A word that happens to be a folder's name counts too: instructions too many do less harm than too few.
    """
    bases = [str(root)]
    before = ""
    for word in _words(command):
        for base in tuple(bases):
            path = os.path.join(base, word)
            place = next(filter(os.path.isdir, (path, os.path.dirname(path))), None)
            if place is None:
                continue
            folder = os.path.realpath(place)
            yield Path(folder)
            if before in ("cd", "pushd", "-C") and folder not in bases and len(bases) < _MOST_BASES:
                bases.append(folder)
        before = word


def _words(command: str) -> Iterator[str]:
    """The words that may be paths, without quotes; `--option=path` gives its path."""
    for found in islice(re.finditer(_WORD, command), _MOST_WORDS):
        word = next((part for part in found.groups() if part), "")
        word = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        if word and "\0" not in word:
            yield word
