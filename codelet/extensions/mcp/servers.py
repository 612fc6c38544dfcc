"""The settings of MCP servers: the user's table `mcp_servers`, and files with `mcpServers` as in other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codelet.errors import UsageError
from codelet.providers.connection import http_address
from codelet.record import Record
from codelet.system.text.secret_shapes import without_login

MOST_SERVERS = 16
_LONGEST_NAME = 32
_LARGEST_FILE = 256 << 10
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [!-~]?(?:[ -~]*[!-~])?")
_KEYS = frozenset({"command", "args", "env", "cwd", "url", "headers", "type", "timeout", "enabled"})
_KINDS = {"stdio": "command", "http": "url", "streamable-http": "url", "streamable_http": "url"}


class ServerSettings(Record, kw_only=True):
    """The settings of one server: a `command` or a `url`. `timeout` is the time limit of a call, in seconds.

    `environment` is added to the variables of every command. `folder` is the working folder, None for the workspace.
    """

    name: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    folder: str | None = None
    url: str = ""
    headers: Mapping[str, str] = {}
    timeout: float = 60.0


def servers_of(
    tables: Mapping[str, object] | None, files: tuple[str, ...], workspace: Path, variables: Mapping[str, str]
) -> list[ServerSettings]:
    """Return the enabled servers of the user's `tables` and of the `files`; later files win. `variables` are the values
    for `${NAME}`. Raises UsageError.
    """
    found = _servers_in(tables or {}, "mcp_servers", variables, own=True)
    for name in files:
        found |= _servers_in(_tables_in(workspace / Path(name).expanduser()), name, variables, own=False)
    if len(found) > MOST_SERVERS:
        raise UsageError(f"there are {len(found)} MCP servers, at most {MOST_SERVERS} are started; disable some")
    return list(found.values())


def _tables_in(path: Path) -> Mapping[str, Any]:
    """Return the table `mcpServers` of a JSON file. Raises UsageError."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise UsageError(f"--mcp {path}: the file is larger than {_LARGEST_FILE >> 10} KiB")
        found = json.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"--mcp {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--mcp {path}: invalid JSON: {error}") from None
    tables = found.get("mcpServers") if isinstance(found, dict) else None
    if not isinstance(tables, dict):
        raise UsageError(f'--mcp {path}: there must be an object "mcpServers" with a server for each name')
    return tables


def _servers_in(
    tables: Mapping[str, object], place: str, variables: Mapping[str, str], *, own: bool
) -> dict[str, ServerSettings]:
    """Return the enabled servers by name. In codelet's `own` file an unknown key is an error."""
    found: dict[str, ServerSettings] = {}
    for given, table in tables.items():
        where = f"{place}: {given}"
        name = re.sub(r"[^A-Za-z0-9-]+|_+", "_", given).strip("_")
        if not name or len(name) > _LONGEST_NAME:
            raise UsageError(f"{where}: the name of a server has 1 to {_LONGEST_NAME} letters, digits, - or _")
        if not isinstance(table, dict):
            raise UsageError(f"{where}: must be a table with a command or a url")
        if own and (unknown := sorted(table.keys() - _KEYS)):
            raise UsageError(f"{where}: unknown key {unknown[0]!r}; the keys are {', '.join(sorted(_KEYS))}")
        if table.get("enabled") is False or table.get("disabled") is True:
            continue
        if name in found:
            raise UsageError(f"{where}: another server has the name {name} too")
        found[name] = _server(name, table, where, variables)
    return found


def _server(name: str, table: Mapping[str, object], where: str, variables: Mapping[str, str]) -> ServerSettings:
    def text(value: object, key: str) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise UsageError(f"{where}: {key} must be a text")
        return _VARIABLE.sub(lambda found: _value_of(found, f"{where}: {key}", variables), value)

    def texts(key: str) -> dict[str, str]:
        value = table.get(key) or {}
        if not isinstance(value, dict):
            raise UsageError(f"{where}: {key} must be a table of texts")
        return {str(each): text(told, f"{key}.{each}") for each, told in value.items()}

    arguments, kind = table.get("args") or [], table.get("type")
    if kind is not None and kind not in _KINDS:
        raise UsageError(f"{where}: servers of the type {kind!r} are not supported, only stdio and http")
    if ("command" in table) == ("url" in table) or (kind is not None and _KINDS[kind] not in table):
        raise UsageError(f"{where}: give either a command or a url")
    if not isinstance(arguments, list):
        raise UsageError(f"{where}: args must be a list of texts")
    seconds = table.get("timeout", 60)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 600:
        raise UsageError(f"{where}: timeout must be a number of seconds, at most 600")
    words = [] if "url" in table else [table["command"], *arguments]
    url, headers = text(table["url"], "url") if "url" in table else "", texts("headers")
    if wrong := [key for key, told in headers.items() if not _HEADER.fullmatch(f"{key}: {told}")]:
        raise UsageError(f"{where}: headers.{wrong[0]} cannot be sent: a header is ASCII, on one line")
    if url and (http_address(url) is None or not url.isascii() or not url.isprintable() or " " in url):
        raise UsageError(f"{where}: url must be an http or https address, not {without_login(url)!r}")
    return ServerSettings(
        name=name,
        command=tuple(text(each, "args" if place else "command") for place, each in enumerate(words)),
        environment=texts("env"),
        folder=None if table.get("cwd") is None else text(table["cwd"], "cwd"),
        url=url,
        headers={key.lower(): value for key, value in headers.items()},
        timeout=float(seconds),
    )


def _value_of(found: re.Match[str], where: str, variables: Mapping[str, str]) -> str:
    value = variables.get(found[1]) or found[2]
    if value is None:
        raise UsageError(f"{where}: the variable {found[1]} is not set")
    return value
