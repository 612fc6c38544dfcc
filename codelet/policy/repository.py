"""What a repository's own configuration says, read without running git on it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_CONFIG_CAP = 1 << 20


@dataclass(frozen=True)
class Repository:
    """The folder with the work tree, git's folder, and the text of the configuration that came with them."""

    folder: str
    git_folder: str
    configuration: str

    @property
    def filters(self) -> list[str]:
        """The names of the filter drivers that the configuration defines."""
        quoted = re.findall(r'(?im)^\s*\[\s*filter\s+"((?:[^"\\\n]|\\.)*)"\s*\]', self.configuration)
        dotted = re.findall(r"(?im)^\s*\[\s*filter\.([^\]\s]+)\s*\]", self.configuration)
        return sorted({re.sub(r"\\(.)", r"\1", name) for name in quoted} | {name.lower() for name in dotted})

    @property
    def holds_password(self) -> bool:
        """Whether an address in the configuration holds a password or token."""
        return re.search(r"://[^\s/:@]*:[^\s/@]+@|://[^\s/:@]{20,}@", self.configuration) is not None

    @property
    def redirects(self) -> bool:
        """Whether the configuration moves the work tree or includes another file."""
        moves = r"(?im)^\s*(?:\[\s*core\s*\]\s*)?worktree\s*(?:=|$)|^\s*\[\s*include"
        return re.search(moves, self.configuration) is not None


def find_repository(folder: str) -> Repository | None:
    """The repository that git finds from `folder` upwards, or None."""
    while not os.path.lexists(f"{folder}/.git"):
        if folder == "/":
            return None
        folder = folder.rpartition("/")[0] or "/"
    git_folder = f"{folder}/.git"
    if Path(git_folder).is_file():
        pointer = _text(git_folder).partition("gitdir:")[2].strip()
        git_folder = os.path.normpath(f"{folder}/{pointer}" if not pointer.startswith("/") else pointer)
    common = _text(f"{git_folder}/commondir").strip()
    shared = os.path.normpath(f"{git_folder}/{common}") if common and not common.startswith("/") else common
    configuration = "\n".join(
        _text(f"{place}/{name}")
        for place in {git_folder, shared or git_folder}
        for name in ("config", "config.worktree")
    )
    return Repository(folder, git_folder, configuration)


def _text(path: str) -> str:
    """The file's text, "" where there is none, one NUL where it is too large to be a configuration."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_CONFIG_CAP + 1)
    except OSError:
        return ""
    return content.decode("utf-8", "replace") if len(content) <= _CONFIG_CAP else "[include"
