"""A project's own settings: the question at the start of the REPL whether to read them."""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from codelet.errors import UsageError
from codelet.extensions.base import OpenedWith
from codelet.extensions.services import profile_places
from codelet.setting_kinds import project_settings_file
from codelet.settings import Settings, current_folder
from codelet.system.text import one_line

_MOST_SHOWN = 300
_LABELS = {"ask": "ask rules", "deny": "deny rules"}


def trusted(settings: Settings, trusting: Callable[[], Settings]) -> Settings:
    """Return `settings`, or those of `trusting`, which reads the project's file, if the user says yes.

    Nothing is asked without a terminal, without such a file or a profile, or if it would change nothing. The changes
    are shown first; an invalid file is reported and left out.
    """
    folder = current_folder()
    file = project_settings_file(folder)
    if settings.trusted or not (file.parent.is_dir() and sys.stdin.isatty() and sys.stdout.isatty()):
        return settings
    profiles = _profiles(settings, folder)  # imports what reads them: not for a project without a folder of its own
    if not (file.is_file() or profiles):
        return settings
    try:
        changed = trusting()
    except UsageError as error:
        sys.stderr.write(f"codelet: the project's settings are not used: {one_line(str(error), _MOST_SHOWN)}\n")
        return settings
    found = {"profiles": profiles, **_texts(changed, folder)}
    changes = _changes(settings, changed) | {kind: ", ".join(names) for kind, names in found.items() if names}
    if not changes:
        return settings
    sys.stdout.write(f"This project brings its own settings ({file.parent.relative_to(folder)}):\n")
    for name, value in changes.items():
        text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        sys.stdout.write(f"  {name} = {one_line(text, _MOST_SHOWN)}\n")
    with suppress(termios.error, OSError):  # what was typed before the question was shown does not answer it
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    sys.stdout.write("Use them for this session? [y/N] ")
    sys.stdout.flush()
    answer = sys.stdin.readline()
    return changed if answer.strip().lower() in ("y", "yes") else settings


def _profiles(settings: Settings, folder: Path) -> list[str]:
    """Return the names of the project's profiles; none if its folder cannot be read."""
    try:
        return sorted(entry.stem for entry in profile_places(settings, folder).in_project[0].iterdir())
    except OSError:
        return []


def _texts(settings: Settings, folder: Path) -> dict[str, list[str]]:
    """Return the names of the project's skills and commands, which are read if it is trusted."""
    given = OpenedWith(settings=settings, workspace=folder)
    patterns: dict[Literal["skills", "commands"], str] = {"skills": "*/SKILL.md", "commands": "**/*.md"}
    found: dict[str, list[str]] = {}
    for kind, pattern in patterns.items() if settings.skills == "on" else ():
        paths = [path for each in given.folders(kind) if each.project for path in each.path.glob(pattern)]
        found[kind] = sorted(path.parent.name if kind == "skills" else path.stem for path in paths)
    return found


def _changes(before: Settings, after: Settings) -> dict[str, object]:
    names = (name for name in after.fields if name not in ("files", "trusted"))
    return {
        _LABELS.get(name, name): getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)
    }
