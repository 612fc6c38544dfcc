"""The user's settings for the terminal: keys, colours, notifications, history file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import UsageError
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.setting_kinds import ThemeName
    from codelet.settings import Settings


class Preferences(Record, kw_only=True):
    """The user's settings for the terminal.

    `keys` pairs actions with prompt_toolkit key sequences; they override other bindings.
    """

    edit_mode: str = "emacs"
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    notify: str = "off"
    title: bool = False
    history: Path | None = None
    theme: ThemeName = "auto"


def preferences_of(settings: Settings) -> Preferences:
    """Return the preferences. Raises UsageError for an unknown key."""
    keys = [(action, _sequence(action, key)) for action, named in settings.keys for key in named]
    return Preferences(
        edit_mode=settings.edit_mode,
        keys=tuple(keys),
        notify=settings.notify,
        title=settings.title,
        history=None if settings.history is None else Path(settings.history).expanduser(),
        theme=settings.theme,
    )


def _sequence(action: str, text: str) -> tuple[str, ...]:
    """Parse a key sequence such as `c-x c-e`, `a-enter` (Esc Enter), or `f5`."""
    from prompt_toolkit.key_binding import KeyBindings

    keys: list[str] = []
    for key in text.split():
        keys += ["escape", key[2:]] if key.startswith("a-") and len(key) > 2 else [key]
    try:
        added = KeyBindings()
        added.add(*keys)(lambda event: None)
    except ValueError:
        raise UsageError(
            f"keys.{action}: there is no key {text!r}; keys are written like c-s, a-enter, f5, s-tab"
        ) from None
    return tuple(getattr(key, "value", key) for key in added.bindings[0].keys)
