"""The attributes that make git show no content of secret files, and run no converter or filter of the repository.

`info/attributes` overrides every `.gitattributes` of the tree. A sandbox with mounts puts these lines there, so that
`git log -p`, `show`, `diff`, `stash show -p` and `log -G` treat secret files as binary.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from codelet.safety import sensitive_names
from codelet.safety.paths import contained
from codelet.system.git.hardening import find_repository

_CAP = 1 << 15
_MARKS = (b"filter", b"include")
"""Without these words, a repository's configuration can define no filter."""
_READS_INPUT = frozenset(("head", "tail", "wc", "sort", "uniq", "cat", "tac", "nl", "cut", "tr"))
_PLAIN = re.compile(r"[\w ./:=,+@%^~'\"|&;*\n-]+")
_OPTION = re.compile(r"-[a-zA-Z0-9]+|--[a-z-]+|\d+|'.'|-d.")


def find_attributes(root: str) -> tuple[str, bytes] | None:
    """The folder `info` of the repository around a workspace, and the new content of its `attributes`.

    None without a folder to mount over, or if its own attributes are too long to be included.
    """
    repository = find_repository(root)
    if repository is None or not os.path.isdir(folder := f"{repository.common}/info") or os.path.islink(folder):
        return None
    if not contained(repository.common, root) and not contained(repository.common, repository.folder):
        return None
    own = _text(f"{folder}/attributes")
    if len(own) > _CAP:
        return None
    lines = ["* !diff", *_lines()]
    if any(mark in _text(place).lower() for place in repository.configurations for mark in _MARKS):
        lines.append("* !filter")
    return folder, own + b"\n" + "\n".join(lines).encode() + b"\n"


def _lines() -> list[str]:
    """A line for each pattern of `sensitive_names`, the exceptions last."""
    copies = [f"*{ending} -diff" for ending in sensitive_names.COPIES]
    files = [f"{_any_case(pattern)} -diff" for pattern in sensitive_names.SECRET_FILES if "/" not in pattern]
    places = [name for name in (*sensitive_names.SECRET_FILES, *sensitive_names.SECRET_PLACES) if "/" in name]
    inside = [f"**/{_any_case(place)} -diff" for place in places]
    inside += [f"**/{_any_case(folder)}/** -diff" for folder in sensitive_names.SECRET_FOLDERS]
    return [*copies, *files, *(f"{_any_case(name)} !diff" for name in sensitive_names.NOT_SECRET), *inside]


def _any_case(pattern: str) -> str:
    return re.sub("[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", pattern)


def _text(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_CAP + 1) if Path(path).is_file() else b""
    except OSError:
        return b""


def runs_only_git(command: str) -> bool:
    """Return whether each command of a line is git, or reads nothing but git's output: then it needs the tracked files
    unchanged, and prints none of them. A line with more than plain words does not count.
    """
    if not _PLAIN.fullmatch(command) or re.search(r"(?<!&)&(?!&)", command):
        return False
    for line in re.split(r"&&|\|\||[;\n]", command):
        first, *readers = line.split("|")
        words = first.split()
        moved = words[:1] == ["cd"] and len(words) == 2
        if words and not moved and words[:1] != ["git"]:
            return False
        for reader in readers:
            name, *rest = reader.split() or [""]
            if name not in _READS_INPUT or not all(map(_OPTION.fullmatch, rest)):
                return False
    return True
