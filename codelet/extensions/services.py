"""Functions of single extensions for other parts of codelet. Each extension is imported at its first use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codelet.extensions.base import Extension, extension_of

if TYPE_CHECKING:
    from codelet.extensions.diagnostics import Checker as Checker
    from codelet.extensions.file_history import ChangeLog as ChangeLog
    from codelet.extensions.file_history import FileBack as FileBack
    from codelet.extensions.file_history import RanCommand as RanCommand
    from codelet.extensions.file_history.place_state import PlaceState as PlaceState
    from codelet.extensions.hooks import Hook as Hook
    from codelet.extensions.mcp.client import Mcp
    from codelet.extensions.memory.fact import TextSearch as TextSearch
    from codelet.extensions.memory.fact import TextSource as TextSource
    from codelet.extensions.profiles.extension import ProfilePlaces
    from codelet.extensions.profiles.profile import Profile as Profile
    from codelet.extensions.session_view import ExtensionSettings, SessionView
    from codelet.tools.tool import BackgroundTasks


def asking() -> Extension:
    """Return the extension with the tool `ask_user`."""
    from codelet.extensions.user_questions import Asking

    return Asking()


def background_tasks(session: SessionView) -> BackgroundTasks:
    """Return the session's commands in the background."""
    from codelet.extensions.tasks import Tasks

    found = extension_of(session, Tasks)
    assert found is not None
    return found


def file_history(session: SessionView) -> ChangeLog:
    """Return the log of a session's changes."""
    from codelet.extensions.file_history import FileHistory

    found = extension_of(session, FileHistory)
    assert found is not None
    return found.log


def is_planning(session: SessionView) -> bool:
    """Return whether the session is in plan mode."""
    from codelet.extensions.plans import Plans

    plans = extension_of(session, Plans)
    return plans is not None and plans.planning


def plan_first(session: SessionView, wanted: bool) -> bool:
    """Begin or end plan mode; return whether the session can plan."""
    from codelet.extensions.plans import Plans

    plans = extension_of(session, Plans)
    if plans is not None:
        plans.planning = wanted
    return plans is not None


def profile_in_force(settings: ExtensionSettings, workspace: Path, name: str) -> Extension:
    """Return the extension that applies a profile. Raises UsageError."""
    from codelet.extensions.profiles.extension import ProfilePlaces, Profiles

    places = ProfilePlaces.of(settings, workspace)
    return Profiles(places, places.read(name), named=True)


def profile_places(settings: ExtensionSettings, workspace: Path) -> ProfilePlaces:
    """Return the folders of profiles."""
    from codelet.extensions.profiles.extension import ProfilePlaces

    return ProfilePlaces.of(settings, workspace)


def mcp_servers(settings: ExtensionSettings, workspace: Path) -> Mcp:
    """Return the MCP servers of the settings, not started. Raises UsageError."""
    from codelet.extensions.mcp.client import Mcp

    return Mcp.of(settings, workspace)


def read_hooks(value: object) -> tuple[Hook, ...]:
    """Return the hooks in a table of events, or in the JSON file of that name. Raises ValueError."""
    from codelet.extensions.hooks import hooks_from, hooks_in_file

    return hooks_in_file(value) if isinstance(value, str) else hooks_from(value)


def read_checkers(value: object) -> tuple[Checker, ...]:
    """Return the checkers that a setting names. Raises ValueError."""
    from codelet.extensions.diagnostics import checkers_from

    return checkers_from(value)


def text_search(texts: TextSource, model: Path | None) -> TextSearch | None:
    """Return a search of these texts by meaning, or None without a model."""
    from codelet.extensions.memory.fact import meaning_search

    return meaning_search(texts, model)
