"""Moves aside what a confined command made under a name that programs outside the sandbox obey.

Nothing is deleted, nothing is written over, and the name that it gets is obeyed by no program.
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
    """A file, folder or link of such a name, relative to the workspace; `aside` is where it was moved to.

    With `stays` it may be there: a repository or a virtual environment, which commands can only read from then on.
    """

    name: str
    aside: str | None = None
    stays: bool = False


def settle(place: Path, root: Path, *, move: bool) -> MadeFile:
    """Move aside what a command made in the workspace `root`, where it is to be moved and can be.

    What belongs to another user is left alone, and folders in which programs are looked for. A link is moved itself,
    whatever it leads to: a repository or an environment behind it could still be written. A repository stays where it
    is unless it names programs, which git would run outside the sandbox.
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
    """Move it, within its folder, to a name that nothing has."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", place.name).strip("_")
    for number in range(1, _MOST):
        target = place.with_name(f"aside-{number}-{plain}")
        if os.path.lexists(target):
            continue
        if place.is_dir() and not place.is_symlink():
            target.mkdir()  # a folder replaces an empty one only, so nothing of anyone else's is lost
            with suppress(OSError):
                place.rename(target)
                return str(target.relative_to(root))
            target.rmdir()
            return None
        os.link(place, target, follow_symlinks=False)  # fails where there is something by now
        place.unlink()
        return str(target.relative_to(root))
    return None
