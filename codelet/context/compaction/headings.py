"""Headings of entries without what stands above: a file's path and a command's folder are written out once a segment.

In real sessions a third of what the evidence takes at a small target are headings, and most of these are the same
folder over and over. `[t9 read …/session.py]` is the file of that name whose path stands in a heading above, and
`[t9 bash cd …; make]` ran in the folder of the last `cd` above that is written out. What reads a segment back puts the
whole paths in again, so that nothing but the text knows of it.
"""

from __future__ import annotations

import re

_LEFT_OUT = "…"
# Shorter paths are written out: it saves little, and they are easier to read.
_SHORTEST_PATH, _SHORTEST_FOLDER = 28, 12
_FOLDER = re.compile(r"(\S+) cd ([^\s;&|\"'$`]+)(; | && )(?=\S)")


class WrittenOut:
    """What the headings of one segment have written out so far, in the order in which they stand."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._folder = ""

    def short(self, label: str) -> str:
        """The label without what stands above; it is remembered."""
        found = _FOLDER.match(label)
        if found and len(found[2]) >= _SHORTEST_FOLDER:
            same, self._folder = found[2] == self._folder, found[2]
            return f"{found[1]} cd {_LEFT_OUT}{found[3]}{label[found.end() :]}" if same else label
        name, path = _file_of(label)
        if not path:
            return label
        tail = _tail(path)
        same, self._paths[tail] = self._paths.get(tail) == path, path
        return f"{name} {tail}" if same else label

    def whole(self, label: str) -> str:
        """The label that `short` left something out of; it is remembered."""
        found = _FOLDER.match(label)
        if found and found[2] == _LEFT_OUT:
            return f"{found[1]} cd {self._folder or _LEFT_OUT}{found[3]}{label[found.end() :]}"
        if found and len(found[2]) >= _SHORTEST_FOLDER:
            self._folder = found[2]
            return label
        name, _, path = label.partition(" ")
        if path.startswith(_LEFT_OUT + "/"):
            return f"{name} {self._paths.get(path, path)}"
        if path := _file_of(label)[1]:
            self._paths[_tail(path)] = path
        return label


def _tail(path: str) -> str:
    return f"{_LEFT_OUT}/{path.rpartition('/')[2]}"


def _file_of(label: str) -> tuple[str, str]:
    """The name of the call and the long path that is all its subject, "" if it is none."""
    name, _, path = label.partition(" ")
    is_path = len(path) >= _SHORTEST_PATH and path.count("/") > 1 and " " not in path and _LEFT_OUT not in path
    return name, path if is_path and not path.endswith("/") else ""
