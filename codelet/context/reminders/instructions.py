"""claudeMd: the user's instructions for the model, from CLAUDE.md or else AGENTS.md.

The user's own file comes first, then the files from the repository's root down to the workspace, then those of folders
below it that the model has worked in. A line can import another file by `@path`, with limits on depth and size, and
only from the tree that the file belongs to: a repository must not include files from elsewhere, nor files whose names
mark them as secret.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.events import Notices

if TYPE_CHECKING:
    from codelet.safety.verdict import Touch

NAMES = ("CLAUDE.md", "AGENTS.md")

MOST_FOLDERS = 1_000
_FILE_LIMIT = 40_000
_TOTAL_LIMIT = 80_000
_IMPORT_DEPTH = 5
# An import; or what has none: fenced code, a span of code, a comment.
_IMPORT = (
    r"(?ms)^[ \t]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,}).*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)|"
    r"`[^`\n]*`|<!--.*?(?:-->|\Z)|"
    r"(?:^|(?<=\s))@(?P<path>(?:~/|(?:\.{1,2}/)*|/)\w(?:[\w./-]*[\w/-])?)"
)


class Touched:
    """The folders below the workspace that the model has worked in: the newest 1,000, by first touch."""

    def __init__(self, workspace: Path) -> None:
        self._root = Path(os.path.realpath(workspace))
        self._folders: dict[Path, None] = {}

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(self._folders)

    @property
    def names(self) -> list[str]:
        return [str(folder.relative_to(self._root)) for folder in self._folders]

    def restore(self, names: Iterable[str]) -> None:
        """Replace the folders by these names; a name that leads out of the workspace is ignored."""
        self.clear()
        for name in names:
            self._add(Path(os.path.realpath(self._root / name.replace("\0", ""))))

    def clear(self) -> None:
        self._folders.clear()

    def note(self, touches: Iterable[Touch], place: Path | None) -> None:
        """Note a call that is about to run; `place` is the target of its path, if it has one."""
        if place is not None:
            self._add(place if place.is_dir() else place.parent)
        for touch in touches:
            if touch.kind == "run":
                from codelet.tools.touched import folders_named  # once a command runs

                for folder in folders_named(touch.what, self._root):
                    self._add(folder)

    def _add(self, folder: Path) -> None:
        if folder in self._folders or folder == self._root or not folder.is_relative_to(self._root):
            return
        self._folders[folder] = None
        if len(self._folders) > MOST_FOLDERS:
            del self._folders[next(iter(self._folders))]


class Instructions:
    """The instruction files of one workspace. `folders` are those that the model has worked in."""

    def __init__(self, workspace: Path, notices: Notices | None = None) -> None:
        self._notices = notices or Notices()
        self._workspace = workspace.resolve()
        self._root = repository_root(self._workspace) or self._workspace
        self._sent: set[Path] | None = None

    def _report(self, line: str, text: str) -> None:
        """Notify the user once about a file with this text."""
        self._notices.say(line, once=(line, hash(text)))

    def text(self, folders: Iterable[Path] = ()) -> str | None:
        """Return the reminder's text; None without instructions."""
        files = self._files(folders)
        self._sent = {path for path, _ in files}
        body = self._joined(files)
        return prompt.INSTRUCTIONS.format(body=body) if body else None

    def in_force(self) -> list[Path]:
        """Return the files that are sent with the first prompt."""
        return [path for path, _ in self._files(())]

    def forget(self) -> None:
        """Begin a turn: `more` has nothing until `text` is called."""
        self._sent = None

    def more(self, folders: Iterable[Path]) -> str | None:
        """Return the files that the last `text` did not have; None without any."""
        if self._sent is None:
            return None
        sent = self._sent
        body = self._joined([file for file in self._files(folders) if file[0] not in sent])
        return prompt.MORE_INSTRUCTIONS.format(body=body) if body else None

    def _files(self, worked_in: Iterable[Path]) -> list[tuple[Path, Path]]:
        """Return the instruction files in order, each with the tree that limits its imports."""
        found: dict[Path, Path] = {}
        own = next(filter(None, map(instruction_file, user_folders())), None)
        if own is not None:
            own = own.resolve()  # often a link to a folder of dotfiles
            found[own] = own.parent
        folders = [self._root, *_below(self._root, self._workspace)]
        nested = {parent for folder in worked_in for parent in _below(self._workspace, folder)}
        for folder in [*folders, *sorted(nested)]:
            if (path := instruction_file(folder)) is not None:
                found.setdefault(path, self._root)
        return list(found.items())

    def _joined(self, files: Iterable[tuple[Path, Path]]) -> str:
        """Return the texts of the files under their names, up to the limit."""
        from codelet.system.text import with_codes  # only if there are instructions

        parts: list[str] = []
        left = _TOTAL_LIMIT
        for path, tree in files:
            text = read_instructions(path, tree, self._report)
            # As codes: what the user cannot see gives no orders.
            coded = with_codes(text)
            if not (body := (f"{prompt.CODED}\n\n{coded}" if coded != text else text).strip()):
                continue
            part = f"# {path}\n\n{body}"
            if len(part) > left:
                self._report(f"{path} and later instruction files are cut: {_TOTAL_LIMIT:,} characters are sent", body)
            parts.append(part[:left])
            left -= len(parts[-1])
            if left <= 0:
                parts.append(prompt.INSTRUCTIONS_CUT)
                break
        return "\n\n".join(parts)


def instruction_file(folder: Path) -> Path | None:
    """Return a folder's instruction file: CLAUDE.md, or AGENTS.md if that has no text."""
    found = [folder / name for name in NAMES if _is_regular(folder / name)]
    return next((path for path in found if len(found) == 1 or _head_of(path)[0].strip()), None)


def user_folders() -> list[Path]:
    """Return the folders of the user's own instructions; the first file found is used."""
    home = os.environ.get("HOME")
    config = os.environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    folders = [Path(config) / "codelet"] if config else []
    return [*folders, Path(home) / ".claude"] if home else folders


def repository_root(folder: Path) -> Path | None:
    """Return the nearest folder upwards that has `.git`."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)


def read_instructions(path: Path, tree: Path, report: Callable[[str, str], None]) -> str:
    """Return a file's text, with each allowed `@path` outside code replaced by that file's text, within the limits.

    Each file is read once, from inside `tree` after links are followed. `report` takes a notice about a file, and its
    text.
    """
    tree, done, left = tree.resolve(), set[Path](), _TOTAL_LIMIT

    def read(path: Path, depth: int) -> str:
        nonlocal left
        target = _allowed(path, tree)
        if target is None or target in done or left <= 0:
            return ""
        done.add(target)
        text, doubt = _head_of(target)
        if doubt:
            report(f"{target} {doubt}", text)
        left -= len(text)

        def imported(match: re.Match[str]) -> str:
            if (name := match["path"]) is None:
                return match[0]
            place = Path(os.path.expanduser(name)) if name.startswith("~/") else target.parent / name
            return read(place, depth + 1).strip() if _allowed(place, tree) else match[0]

        return re.sub(_IMPORT, imported, text) if depth < _IMPORT_DEPTH and "@" in text else text

    return read(path, 0)


def _allowed(path: Path, tree: Path) -> Path | None:
    """Return the resolved path if a tool can read it in the tree without asking, and no part of it is hidden."""
    from codelet.safety.paths import judge_path  # only if there is an instruction file

    found = judge_path(str(path), "read", tree, shell=True)
    if found.action != "allow" or found.place is None or not _is_regular(found.place):
        return None
    hidden = any(part.startswith(".") for part in found.place.relative_to(tree).parts)
    return None if hidden else found.place


def _head_of(path: Path) -> tuple[str, str]:
    """Return a file's text, from UTF-8, up to the limit; and what is wrong with it."""
    try:
        with path.open("rb") as file:
            whole = file.read(4 * _FILE_LIMIT + 4).decode("utf-8-sig", "replace")
    except OSError as error:
        return "", f"cannot be read ({error.strerror}): the model is not sent it"
    text = whole[:_FILE_LIMIT]
    doubts = ["is not in UTF-8: undecodable bytes are sent as �"] if "�" in text else []
    if len(whole) > len(text):
        doubts.append(f"is cut: the model is sent its first {_FILE_LIMIT:,} characters")
        text += prompt.INSTRUCTION_FILE_CUT
    return text, "; it ".join(doubts)


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _below(top: Path, folder: Path) -> list[Path]:
    """Return the folders from below `top` down to `folder`; none if it is not inside."""
    if not folder.is_relative_to(top):
        return []
    names = folder.relative_to(top).parts
    return [top.joinpath(*names[: count + 1]) for count in range(len(names))]
