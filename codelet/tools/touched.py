"""The folders below the workspace that the model has worked in: what it read, listed, wrote, or ran a command in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codelet.safety.verdict import Touch

MOST_FOLDERS = 1_000
_MOST_WORDS = 500
_MOST_BASES = 8
_WORD = r"""'([^']*)'|"([^"]*)"|([^\s;&|<>()'"`]+)"""  # compiled when it is first needed, not at the start


class Touched:
    """The newest 1,000 folders, in the order of their first touch. `count` grows with each new one."""

    def __init__(self, workspace: Path) -> None:
        self._root = Path(os.path.realpath(workspace))
        self._folders: dict[Path, None] = {}
        self.count = 0

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders, absolute and resolved."""
        return tuple(self._folders)

    @property
    def names(self) -> list[str]:
        """The same relative to the workspace."""
        return [str(folder.relative_to(self._root)) for folder in self._folders]

    def restore(self, names: Iterable[str]) -> None:
        """Take these in place of what is known; a name that leads out of the workspace is left out."""
        self.clear()
        for name in names:
            self._add(Path(os.path.realpath(self._root / name.replace("\0", ""))))

    def clear(self) -> None:
        """Forget all."""
        self._folders.clear()
        self.count += 1

    def note(self, touches: Iterable[Touch], place: Path | None) -> None:
        """Note a call that is about to run; `place` is where its path leads, if it has one."""
        if place is not None:
            self._add(place if place.is_dir() else place.parent)
        for touch in touches:
            if touch.kind == "run":
                for folder in _named(touch.what, self._root):
                    self._add(folder)

    def _add(self, folder: Path) -> None:
        if folder in self._folders or folder == self._root or not folder.is_relative_to(self._root):
            return
        self._folders[folder] = None
        self.count += 1
        if len(self._folders) > MOST_FOLDERS:
            del self._folders[next(iter(self._folders))]


def _named(command: str, root: Path) -> Iterator[Path]:
    """The folders that a shell command stands in, or whose files it names.

    A word that happens to be a folder's name counts too: instructions too many do less harm than too few.
    """
    bases = [str(root)]
    before = ""
    for word in _words(command):
        for base in tuple(bases):
            folder = _folder_of(os.path.join(base, word))
            if folder is None:
                continue
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


def _folder_of(path: str) -> str | None:
    """The folder that a path is, or lies in, resolved; None where there is neither."""
    for place in (path, os.path.dirname(path)):
        if os.path.isdir(place):
            return os.path.realpath(place)
    return None
