"""Settings: a row of the table in `settings.py`, the kinds of values, how values are read, and the places of settings
files.

A kind is a function from the value of a file, a variable, a flag or a caller in Python to the value that the program
uses. It raises ValueError that says what the value must be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

from codelet.errors import UsageError
from codelet.messages import JsonSchema
from codelet.record import Record

if TYPE_CHECKING:
    from pathlib import Path

    from codelet.extensions.services import Checker, Hook
    from codelet.providers.catalog import Vendor

ThemeName = Literal["auto", "dark", "light", "colour-blind", "plain"]
"""The themes of the terminal."""

USER_FILE = "user file"
PROJECT_FILE = "project file"
VARIABLE = "variable"
FLAG = "flag"
"""The places from which a setting may come: a project's file, if it is trusted."""


_LARGEST_FILE = 256 << 10
"""Bytes of a settings file: a project's is read before anyone has said that it may be."""


class Group(Record):
    """A heading of the flags in the help, and a line below it."""

    title: str
    about: str | None = None


def text(value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value


def any_text(value: object) -> str:
    """A text, which may be empty."""
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def answer_schema(value: object) -> str | JsonSchema:
    """The name of a file with a JSON Schema, or in Python the schema itself."""
    return value if isinstance(value, dict) else text(value)


def count(value: object) -> int:
    """A positive whole number, or its digits."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 10**9:
        raise ValueError("must be a positive whole number")
    return number


def percent(value: object) -> int:
    """A whole number of %."""
    number = count(value)
    if number > 100:
        raise ValueError("must be a whole percentage, from 1 to 100")
    return number


def four_shares(value: object) -> tuple[int, ...]:
    """Percentages of the budget for core, context, history and working, as a list or as text with commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or len(items) != 4:
        raise ValueError("must be four numbers: core, context, history, working")
    shares = tuple(percent(item.strip() if isinstance(item, str) else item) for item in items)
    if sum(shares) != 100:
        raise ValueError(f"must add up to 100 %, not {sum(shares)}")
    return shares


def count_or_zero(value: object) -> int:
    """A whole number that is not negative, or its digits."""
    return 0 if value in (0, "0") and value is not False else count(value)


def amount(value: object) -> float:
    """A positive number, or its text."""
    try:
        number = float(value if isinstance(value, str | int | float) else "")
    except (TypeError, ValueError):
        raise ValueError("must be a positive number") from None
    if isinstance(value, bool) or not 0 < number < 10**9:
        raise ValueError("must be a positive number")
    return number


def switch(value: object) -> bool:
    """A truth value, or a word for one."""
    known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    raise ValueError("must be true or false")


def names(value: object) -> tuple[str, ...]:
    """A list of texts, or a text with commas."""
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError("must be a list of texts")
    return tuple(item for item in items if item)


def places(value: object) -> tuple[str, ...]:
    """A list of paths, absolute or in the home, or a text with commas."""
    paths = names(value)
    if not all(path.startswith(("/", "~/")) for path in paths):
        raise ValueError("must be a list of paths that begin with / or ~/")
    return paths


def own_vendors(value: object) -> tuple[Vendor, ...]:
    """Tables that each describe a vendor, by its name; or what came of them."""
    if isinstance(value, tuple):
        return value
    from codelet.providers.custom_vendors import vendors_from  # only where a user has one

    return vendors_from(value)


def own_aliases(value: object) -> tuple[tuple[str, str], ...]:
    """A table of short names, each with its model; or the result of reading it."""
    if isinstance(value, tuple):
        return value
    from codelet.providers.choice.names import aliases_from  # only where a user has some

    return tuple(aliases_from(value).items())


def models(value: object) -> tuple[str, ...]:
    """Names of models, in order: a text with commas, or a list of such texts."""
    return tuple(name for item in names([value] if isinstance(value, str) else value) for name in names(item))


def own_hooks(value: object) -> tuple[Hook, ...]:
    """Tables of hooks by their events, or names of JSON files with them; what several places say adds up."""
    if isinstance(value, tuple):
        return value
    from codelet.extensions.services import read_hooks  # only where a user has one

    return tuple(hook for each in (value if isinstance(value, list) else [value]) for hook in read_hooks(each))


def own_checkers(value: object) -> tuple[Checker, ...]:
    """Names of known checkers, or a table with one for each name."""
    if isinstance(value, tuple):
        return value
    from codelet.extensions.services import read_checkers  # only where a user has one

    return read_checkers(value)


def files(value: object) -> tuple[str, ...]:
    """The name of a file, or a list of such names."""
    return tuple(map(text, value if isinstance(value, list | tuple) else [value]))


def own_servers(value: object) -> dict[str, object] | None:
    """A table of MCP servers by name. Its values are read when they start."""
    if value is not None and not isinstance(value, dict):
        raise ValueError("must be a table with a server for each name, such as [mcp_servers.NAME]")
    return value


KEY_ACTIONS = ("send", "newline", "later", "stop", "mode", "search", "editor")
"""The actions that the table `keys` can name."""


def own_keys(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A table of actions, each with a key or a list of keys, such as `send = "c-s"`. The keys are read elsewhere."""
    if isinstance(value, tuple):
        return value
    if not isinstance(value, dict):
        raise ValueError("must be a table, such as: search = 'c-f'")
    for action, keys in value.items():
        if action not in KEY_ACTIONS:
            raise ValueError(f"keys: there is no {action!r}; there are {', '.join(KEY_ACTIONS)}")
        if not names_of_keys(keys):
            raise ValueError(f"keys.{action} must be a key such as 'c-s', or a list of keys")
    return tuple((action, names_of_keys(keys)) for action, keys in value.items())


def names_of_keys(value: object) -> tuple[str, ...]:
    """The keys that a text or a list of texts names; nothing if it is neither."""
    items = [value] if isinstance(value, str) else value
    if isinstance(items, list) and all(isinstance(item, str) and item.strip() for item in items):
        return tuple(items)
    return ()


def rules(value: object) -> tuple[str, ...]:
    """The same; what several places say adds up."""
    return names(value)


class Setting(Record, kw_only=True):
    """One row of the table. A setting without a `group` has no flag.

    `kind` reads a value, or lists the only values. `by`: the places that may set it. `alone`: what the bare flag means;
    the flag then takes the next word only if that is one of the choices. `needs`: the flag does nothing without one of
    these settings. `bound`: a number that a project's file may only lower. `kept`: no tool and no confined command
    writes the file that it names.
    """

    name: str
    default: Any
    kind: Callable[[Any], Any] | tuple[str, ...]
    group: Group | None = None
    about: str = ""
    metavar: str | None = None
    by: Collection[str] = (USER_FILE, VARIABLE, FLAG)
    short: str = ""
    alone: str = ""
    bound: bool = False
    needs: Collection[str] = ()
    kept: bool = False

    def parse(self, value: object) -> Any:
        """Return the value as the program uses it. Raises ValueError, which says what it must be."""
        if not isinstance(self.kind, tuple):
            return self.kind(value)
        if value not in self.kind:
            raise ValueError(f"must be one of {', '.join(self.kind)}")
        return str(value)

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values, if they are listed."""
        return self.kind if isinstance(self.kind, tuple) else ()

    @property
    def flag(self) -> str:
        """The name on the command line; errors use it for every setting."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"CODELET_{self.name.upper()}"

    @property
    def is_switch(self) -> bool:
        """Return whether the flag takes no value."""
        return self.kind is switch

    @property
    def may_repeat(self) -> bool:
        """Return whether the flag may be given several times, each time for more values."""
        return self.kind in (rules, models, files, own_hooks)


def row(
    default: object, kind: object, group: Group | None = None, about: str = "", metavar: str | None = None, **more: Any
) -> Any:
    """Describe one setting in the class of the settings, as `dataclasses.field` describes a field."""
    by = {"by": (USER_FILE, PROJECT_FILE, VARIABLE, FLAG)} if more.get("bound") else {}
    return {"default": default, "kind": kind, "group": group, "about": about, "metavar": metavar} | by | more


def rows_of(settings: type[Record]) -> dict[str, Setting]:
    """Return the rows of a class by name, and leave the defaults in their place."""
    described = ((name, getattr(settings, name)) for name in settings.fields)
    found = {name: Setting(name=name, **each) for name, each in described if isinstance(each, dict)}
    for each in found.values():
        setattr(settings, each.name, each.default)
    return found


class ChosenValues:
    """The `values` that several places give to the rows of a table, by name; a later place wins over an earlier one.

    `sources` has the kind of place that each value came from. A wrong value raises UsageError, which names its place.
    """

    def __init__(self, table: Mapping[str, Setting]) -> None:
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self._table = table

    def take(self, name: str, value: object, place: str, source: str = FLAG) -> None:
        """Add one value; `place` is its place as an error names it, `source` the kind of that place."""
        setting = self._known(name)
        try:
            parsed = setting.parse(value)
        except ValueError as error:
            raise UsageError(f"{place}: {error}") from None
        self.sources[name] = source
        self.values[name] = (*self.values.get(name, ()), *parsed) if setting.kind in (rules, own_hooks) else parsed

    def take_flags(self, given: Mapping[str, object]) -> None:
        """Take in what the command line says. A flag that would do nothing raises UsageError too."""
        for name, value in given.items():
            self.take(name, value, self._known(name).flag)
        for name in given:
            needs = self._known(name).needs
            if needs and not any(self.values.get(each) for each in needs):
                wanted = " or ".join(self._known(each).flag for each in needs)
                raise UsageError(
                    f"{self._known(name).flag} does nothing without {wanted}: give that too, or leave it out"
                )

    def read_file(self, path: Path, source: str) -> None:
        """Take in a settings file, which is the user's or a project's, as `source` says."""
        import tomllib  # only if there is a file: the import costs more than the reading

        try:
            with path.open("rb") as file:
                raw = file.read(_LARGEST_FILE + 1)
            if len(raw) > _LARGEST_FILE:
                raise UsageError(f"{path}: is larger than {_LARGEST_FILE >> 10} KiB, which no settings are")
            found = tomllib.loads(raw.decode("utf-8-sig"))
        except RecursionError:
            raise UsageError(f"{path}: is nested too deep") from None
        except (OSError, ValueError) as error:  # what is no TOML, and digits without end
            raise UsageError(f"{path}: {error}") from None
        for name, value in found.items():
            setting = self._known(name, f"{path}: ")
            if source not in setting.by:
                raise UsageError(f"{path}: {name!r} may not be set in this file")
            users = self.values.get(name)
            self.take(
                name,
                value,
                str(path) if setting.kind in (own_vendors, own_aliases, own_keys) else f"{path}: {name}",
                source,
            )
            if source == PROJECT_FILE and setting.bound and users is not None:
                self.values[name] = min(users, self.values[name])

    def read_variables(self, environment: Mapping[str, str], others: Collection[str]) -> tuple[str, ...]:
        """Add the variables of the table; return those that look like settings but are not, except `others`.

        A near miss of a setting's name raises UsageError too.
        """
        for setting in self._table.values():
            if text := environment.get(setting.variable):
                if VARIABLE not in setting.by:
                    instead = f"give the flag {setting.flag} instead"
                    if FLAG not in setting.by:
                        instead = f"set {setting.name} in your settings file"
                    raise UsageError(f"{setting.variable}: this may not come from a variable; {instead}")
                self.take(setting.name, text, setting.variable, VARIABLE)
        unknown = []
        for variable in environment:
            if not variable.startswith("CODELET_") or variable in others:
                continue
            name = variable.removeprefix("CODELET_").lower()
            if name not in self._table:
                from codelet.system.text.spelling import nearest  # for mistakes only

                if near := nearest(name, self._table):
                    raise UsageError(f"{variable}: unknown setting; did you mean {self._table[near].variable}?")
                unknown.append(variable)
        return tuple(sorted(unknown))

    def _known(self, name: str, place: str = "") -> Setting:
        if name not in self._table:
            from codelet.system.text.spelling import did_you_mean  # for mistakes only

            raise UsageError(f"{place}unknown setting {name!r}{did_you_mean(name, self._table, '{!r}')}")
        return self._table[name]


def is_file(path: Path) -> bool:
    """Return whether there is a file; a folder that may not be entered, such as another user's home, holds none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def project_settings_file(workspace: Path) -> Path:
    """Return the path of a project's settings file."""
    return workspace / ".codelet" / "config.toml"


def user_settings_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the user's settings file; None without a home."""
    from pathlib import Path

    if folder := environment.get("XDG_CONFIG_HOME"):
        return Path(folder) / "codelet" / "config.toml"
    home = environment.get("HOME")
    return Path(home) / ".config" / "codelet" / "config.toml" if home else None
