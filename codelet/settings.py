"""Settings: defaults < user file < trusted project file < environment < flags; frozen once made.

A project's file belongs to the repository, so it is read only with `--trust` and may only choose a model,
tighten limits and add ask and deny rules: never commands, endpoints, keys or allow rules.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from codelet.errors import UsageError
from codelet.policy.verdict import Mode
from codelet.providers import Transport
from codelet.providers.catalog import Vendor
from codelet.record import Record
from codelet.reminders.zones import Placement
from codelet.sandbox import Use


class Settings(Record):
    """What the user chose. Times are in seconds, sizes in tokens, cost in US dollars; None is "not set".

    `given` names what the command line set, `files` the files that were read; `vendors` are the user's.
    """

    model: str | None = None
    api_base: str | None = None
    api_key: str | None = None
    transport: Transport = "auto"
    mode: Mode = "ask"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    yes: bool = False
    ask_timeout: float | None = None
    sandbox: Use = "auto"
    sandbox_network: bool = False
    audit: str | None = None
    raw: bool = False
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    tools: tuple[str, ...] | None = None
    bare: bool = False
    reminders: Placement = "tail"
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    timeout: float | None = None
    allow_cut: bool = False
    window: int | None = None
    budget: int | None = None
    compact: str = "auto"
    compact_at: int | None = None
    keep_last: int = 3
    compact_entries: int | None = None
    narrative: bool = False
    shares: tuple[int, ...] = (5, 30, 15, 50)
    connect_timeout: float = 15.0
    first_token_timeout: float = 300.0
    chunk_timeout: float = 120.0
    retries: int = 4
    export: str | None = None
    export_every: int = 1
    export_archive: bool = False
    snapshots: str | None = None
    resume: str | None = None
    force: bool = False
    given: frozenset[str] = frozenset()
    files: tuple[Path, ...] = ()
    vendors: tuple[Vendor, ...] = ()


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value


def _any_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def _one_of(*names: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return str(value)

    return check


def _count(value: Any) -> int:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 10**9:
        raise ValueError("must be a positive whole number")
    return number


def _percent(value: Any) -> int:
    number = _count(value)
    if number > 100:
        raise ValueError("must be a whole number of per cent")
    return number


def _shares(value: Any) -> tuple[int, ...]:
    """Per cent of the budget for core, context, history and working, as a list or as text with commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or len(items) != 4:
        raise ValueError("must be four numbers: core, context, history, working")
    shares = tuple(_percent(item.strip() if isinstance(item, str) else item) for item in items)
    if sum(shares) != 100:
        raise ValueError(f"must add up to 100 per cent, not {sum(shares)}")
    return shares


def _retries(value: Any) -> int:
    return 0 if value in (0, "0") and value is not False else _count(value)


def _amount(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError("must be a positive number") from None
    if isinstance(value, bool) or not 0 < number < 10**9:
        raise ValueError("must be a positive number")
    return number


def _flag(value: Any) -> bool:
    known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    raise ValueError("must be true or false")


def _names(value: Any) -> tuple[str, ...]:
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError("must be a list of texts")
    return tuple(item for item in items if item)


PARSERS: dict[str, Callable[[Any], Any]] = {
    "model": _text,
    "api_base": _text,
    "api_key": _text,
    "transport": _one_of("auto", "native", "litellm"),
    "mode": _one_of("read-only", "ask", "auto-edit", "auto"),
    "allow": _names,
    "ask": _names,
    "deny": _names,
    "yes": _flag,
    "ask_timeout": _amount,
    "sandbox": _one_of("auto", "on", "off"),
    "sandbox_network": _flag,
    "audit": _text,
    "raw": _flag,
    "system_prompt": _any_text,
    "append_system_prompt": _text,
    "tools": _names,
    "bare": _flag,
    "reminders": _one_of("tail", "prepend"),
    "max_turns": _count,
    "max_tokens": _count,
    "max_cost": _amount,
    "timeout": _amount,
    "allow_cut": _flag,
    "window": _count,
    "budget": _count,
    "compact": _one_of("auto", "off"),
    "compact_at": _percent,
    "keep_last": _count,
    "compact_entries": _count,
    "narrative": _flag,
    "shares": _shares,
    "connect_timeout": _amount,
    "first_token_timeout": _amount,
    "chunk_timeout": _amount,
    "retries": _retries,
    "export": _text,
    "export_every": _count,
    "export_archive": _flag,
    "snapshots": _text,
    "resume": _text,
    "force": _flag,
}

# What writes and reads sessions is asked for each time, by name.
_FLAGS_ONLY = frozenset({"raw", "export", "export_every", "export_archive", "snapshots", "resume", "force"})
_USER_FILE_REFUSES = _FLAGS_ONLY | {"api_key", "yes"}
_ENVIRONMENT_REFUSES = _FLAGS_ONLY | {"yes", "allow"}
_PROJECT_FILE_TAKES = frozenset(
    {
        "model",
        "max_turns",
        "max_tokens",
        "max_cost",
        "timeout",
        "window",
        "ask",
        "deny",
        "budget",
        "compact",
        "compact_at",
        "compact_entries",
        "keep_last",
        "shares",
    }
)


_NOT_SETTINGS = frozenset({"CODELET_REDIS_PASSWORD", "CODELET_SHARED"})
"""Variables that are read elsewhere: the password of a Redis database, the data that some tests need."""


def load_settings(
    flags: Mapping[str, Any],
    *,
    workspace: Path,
    trust: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """The settings in force; `flags` holds what the command line named. Raises UsageError naming the place."""
    settings = Settings()
    user_file = user_settings_file(environment)
    if user_file is not None and _is_file(user_file):
        settings = _from_file(settings, user_file, frozenset(PARSERS) - _USER_FILE_REFUSES | {"vendors"})
    project_file = project_settings_file(workspace)
    if trust and _is_file(project_file):
        settings = _from_file(settings, project_file, _PROJECT_FILE_TAKES)
    for key in PARSERS:
        name = f"CODELET_{key.upper()}"
        if not environment.get(name):
            continue
        if key in _ENVIRONMENT_REFUSES:
            raise UsageError(f"{name}: this may not come from a variable; give the flag {_flag_name(key)} instead")
        settings = _with(settings, key, environment[name], name)
    _check_names(environment)
    for key, value in flags.items():
        if value is not None:
            settings = _with(settings, key, value, _flag_name(key))
    return settings.replace(given=frozenset(key for key, value in flags.items() if value is not None))


def _check_names(environment: Mapping[str, str]) -> None:
    """Raise UsageError for a variable that is nearly the name of a setting. Others may be anybody's."""
    for name in environment:
        if not name.startswith("CODELET_") or name in _NOT_SETTINGS:
            continue
        key = name.removeprefix("CODELET_").lower()
        if key not in PARSERS and (near := _nearest(key)):
            raise UsageError(f"{name}: unknown setting; did you mean CODELET_{near.upper()}?")


def _nearest(key: str) -> str | None:
    from codelet.text.spelling import nearest  # for mistakes only

    return nearest(key, PARSERS)


def _flag_name(key: str) -> str:
    return "--" + key.replace("_", "-")


def project_settings_file(workspace: Path) -> Path:
    """Where a project's own settings stand."""
    return workspace / ".codelet" / "config.toml"


def user_settings_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the user's settings stand; None without a home."""
    if folder := environment.get("XDG_CONFIG_HOME"):
        return Path(folder) / "codelet" / "config.toml"
    home = environment.get("HOME")
    return Path(home) / ".config" / "codelet" / "config.toml" if home else None


def _is_file(path: Path) -> bool:
    """Whether there is a file; a folder that may not be entered, such as another user's home, holds none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _from_file(settings: Settings, path: Path, allowed: frozenset[str]) -> Settings:
    import tomllib  # only where there is a file: the import costs more than the reading

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    if "vendors" in values and "vendors" in allowed:
        settings = settings.replace(vendors=_vendors(values.pop("vendors"), path))
    for key, value in values.items():
        if key not in PARSERS and key != "vendors":
            near = _nearest(key)
            raise UsageError(f"{path}: unknown setting {key!r}" + (f"; did you mean {near!r}?" if near else ""))
        if key not in allowed:
            raise UsageError(f"{path}: {key!r} may not be set in this file")
        settings = _with(settings, key, value, f"{path}: {key}")
    return settings.replace(files=(*settings.files, path))


def _vendors(table: object, path: Path) -> tuple[Vendor, ...]:
    from codelet.providers.custom_vendors import vendors_from

    try:
        return vendors_from(table)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _with(settings: Settings, key: str, value: Any, place: str) -> Settings:
    """One more setting. Rules add up, everything else replaces."""
    try:
        parsed = PARSERS[key](value)
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None
    if key in ("allow", "ask", "deny"):
        parsed = (*getattr(settings, key), *parsed)
    return settings.replace(**{key: parsed})
