"""Move aside an entry that a confined command made under a name that programs outside the sandbox obey.

Nothing is deleted or overwritten, and no program obeys the new name.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from codelet.record import Record
from codelet.safety.git_targets import names_programs
from codelet.safety.sensitive_names import DELICATE_FOLDERS

_MOST = 1_000
_ENVIRONMENT_MARK = "pyvenv.cfg"


class MadeFile(Record):
    """A new file, folder or link with such a name, relative to the workspace; `aside` is its new name.

    `stays`: it is a repository or a virtual environment, which commands can only read from now on.
    """

    name: str
    aside: str | None = None
    stays: bool = False


def settle(place: Path, root: Path, *, move: bool) -> MadeFile:
    """Move a new entry of the workspace `root` aside, if `move`.

    Other users' files and the folders of PATH stay. So does a repository, unless it names programs, which git would run
    outside the sandbox. A link is always moved: the repository or environment at its target could still be written.
    """
    name = str(place.relative_to(root))
    programs = place.name == ".git" and not place.is_symlink() and names_programs(place)
    stays = not place.is_symlink() and (place.name == ".git" or os.path.lexists(place / _ENVIRONMENT_MARK))
    if stays and not programs:
        return MadeFile(name, stays=True)
    if not move or (place.parent != root and name not in DELICATE_FOLDERS and not programs):
        return MadeFile(name, stays=stays)
    if str(place) in os.environ.get("PATH", "").split(os.pathsep):
        return MadeFile(name)
    try:
        return MadeFile(name, _moved(place, root) if place.lstat().st_uid == os.geteuid() else None)
    except OSError:
        return MadeFile(name)


def _moved(place: Path, root: Path) -> str | None:
    """Move it to a free name in its folder."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", place.name).strip("_")
    for number in range(1, _MOST):
        target = place.with_name(f"aside-{number}-{plain}")
        if os.path.lexists(target):
            continue
        if place.is_dir() and not place.is_symlink():
            target.mkdir()  # a folder can only replace an empty one
            with suppress(OSError):
                place.rename(target)
                return str(target.relative_to(root))
            target.rmdir()
            return None
        os.link(place, target, follow_symlinks=False)  # fails if the name is taken by now
        place.unlink()
        return str(target.relative_to(root))
    return None
