"""Where the commands of a script run: each shell of it, and what every `cd` changes for those after it."""

from __future__ import annotations

import os
from pathlib import Path

from codelet.record import Record
from codelet.safety.paths import contained, workspace_root
from codelet.safety.shell.nested import changes_shell
from codelet.safety.shell.program_arguments import RefusedError
from codelet.safety.shell.script_parser import Redirect, SimpleCommand


class Location(Record):
    """Where a command runs: the current folder and the workspace's root, both resolved."""

    cwd: str
    root: str


def folder_reached(who: str, text: str, place: Location) -> str:
    """The folder of the workspace that `who`, a `cd` or the like, reaches by `text`; RefusedError where there is none.

    It must not be reached through a link: `cd ..` afterwards would lead elsewhere for bash than for the kernel.
    """
    spelled = text if text.startswith("/") else f"{place.cwd}/{text}"
    target = os.path.realpath(spelled)
    if not text or target != os.path.normpath(spelled):
        raise RefusedError(f"{who} {text} goes through a link" if text else f"{who} without a folder")
    if not contained(target, place.root):
        raise RefusedError(f"{who} {text} leaves the workspace")
    if not Path(target).is_dir():
        raise RefusedError(f"there is no folder {text}")
    return target


class Folders:
    """The possible current folders of each shell in a script.

    `sure` are those behind `&&`, where every `cd` before has worked, `all` those in any case. Nothing is known any more
    of the shells in `changed`.
    """

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.sure: dict[tuple[int, ...], frozenset[str]] = {}
        self.all: dict[tuple[int, ...], frozenset[str]] = {}
        self.changed: set[tuple[int, ...]] = set()

    def known(self, part: SimpleCommand | Redirect) -> bool:
        """Whether the part's folder, and what its words mean there, can be told."""
        return not any(part.scope[:length] in self.changed for length in range(len(part.scope) + 1))

    def ran_by_rule(self, part: SimpleCommand) -> None:
        """Note a command that a rule lets run although it is not understood: a builtin may have changed its shell."""
        if changes_shell([word.text for word in part.words]):
            self.changed.add(part.scope)

    def of(self, part: SimpleCommand | Redirect) -> frozenset[str]:
        """The folders that the part may run in."""
        for length in range(len(part.scope), -1, -1):
            scope = part.scope[:length]
            if scope in self.all:
                if part.after != "&&":
                    self.sure[scope] = self.all[scope]
                return self.sure[scope]
        root = frozenset((workspace_root(self.workspace),))
        self.sure[()] = self.all[()] = root
        return root

    def change(self, part: SimpleCommand, folders: frozenset[str]) -> None:
        """Note a `cd` of this part into one of `folders`."""
        before = self.of(part)
        self.all[part.scope] = before | folders
        self.sure[part.scope] = folders if part.after != "||" else before | folders
