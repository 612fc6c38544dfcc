"""Where the commands of a line run, and what every `cd` changes for those after it."""

from __future__ import annotations

import os
from pathlib import Path

from codelet.record import Record
from codelet.safety.paths import contained, workspace_root
from codelet.safety.shell.nested import changes_shell
from codelet.safety.shell.program_arguments import RefusedError
from codelet.safety.shell.script_parser import Redirect, SimpleCommand

_MOST_FOLDERS = 4
"""Folders that a command may run in after the `cd`s before it."""


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
    """The folders in which the parts of a line may run, in the order in which they come.

    `sure` are those after `&&`, where every `cd` before has worked, `all` those in any case. With `lost` a command may
    have changed the folder, or what words mean, in a way that is not followed.
    """

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.sure = self.all = frozenset((workspace_root(workspace),))
        self.lost = False
        self._shell, self._outside = 0, (self.sure, self.all)

    def ran_by_rule(self, part: SimpleCommand) -> None:
        """Note a command that a rule lets run although it is not understood: a builtin may have changed its shell."""
        self.lost = self.lost or changes_shell([word.text for word in part.words])

    def of(self, part: SimpleCommand | Redirect) -> frozenset[str]:
        """The folders that the part may run in."""
        if part.shell != self._shell:
            if self._shell:
                self.sure, self.all = self._outside
            self._shell, self._outside = part.shell, (self.sure, self.all)
        if part.after != "&&":
            self.sure = self.all
        return self.sure

    def change(self, part: SimpleCommand, folders: frozenset[str]) -> None:
        """Note a `cd` of this part into one of `folders`."""
        self.all |= folders
        self.sure = self.all if part.inner or part.after == "||" else folders


def change_folder(command: SimpleCommand, folders: Folders) -> None:
    """Follow a `cd`; raises RefusedError where it is not certain where it leads."""
    words = [word.text for word in command.words[1:]]
    if words[:1] == ["--"]:
        words.pop(0)
    if len(words) != 1 or words[0].startswith("-") or not words[0] or not command.words[-1].plain:
        raise RefusedError("cd to a place that is not certain")
    if os.environ.get("CDPATH") and not words[0].startswith(("/", ".")):
        raise RefusedError("cd with CDPATH set")
    root = workspace_root(folders.workspace)
    reached = {folder_reached("cd", words[0], Location(cwd, root)) for cwd in folders.of(command)}
    if len(reached) > _MOST_FOLDERS:
        raise RefusedError("too many folders to follow")
    folders.change(command, frozenset(reached))
