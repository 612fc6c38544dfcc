"""The settings of MCP servers: the user's table `mcp_servers`, and files with `mcpServers` as in other programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from codelet.errors import UsageError
from codelet.extensions.front_matter import FileFault, converted, read_json_file
from codelet.providers.connection import http_address
from codelet.system.text.secret_shapes import without_login

MOST_SERVERS = 16
_LONGEST_NAME = 32
_LARGEST_FILE = 256 << 10
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [!-~]?(?:[ -~]*[!-~])?")
_Text = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]


class ServerSettings(Struct, kw_only=True):
    """The settings of one server: a `command` or a `url`. `timeout` is the time limit of a call, in seconds.

    `env` is added to the variables of every command. A relative `cwd` is one in the workspace.
    """

    name: str
    command: _Text = ""
    args: list[_Text] = []
    env: dict[str, _Text] = {}
    cwd: _Text = "."
    url: str = ""
    headers: dict[str, str] = {}
    type: Literal["stdio", "http", "streamable-http", "streamable_http"] | None = None
    timeout: Annotated[float, Meta(gt=0, le=600)] = 60.0
    enabled: bool = True


_KEYS = frozenset(ServerSettings.__struct_fields__) - {"name"}


def servers_of(
    tables: Mapping[str, object] | None, files: tuple[str, ...], workspace: Path, variables: Mapping[str, str]
) -> list[ServerSettings]:
    """Return the enabled servers of the user's `tables` and of the `files`; later files win. `variables` are the values
    for `${NAME}`. Raises UsageError.
    """
    found = _servers_in(tables or {}, "mcp_servers", variables, own=True)
    for name in files:
        path = workspace / Path(name).expanduser()
        try:
            content = read_json_file(path, _LARGEST_FILE)
        except FileFault as fault:
            raise UsageError(f"--mcp {path}: {fault}") from None
        listed = content.get("mcpServers") if isinstance(content, dict) else None
        if not isinstance(listed, dict):
            raise UsageError(f'--mcp {path}: there must be an object "mcpServers" with a server for each name')
        found |= _servers_in(listed, name, variables, own=False)
    if len(found) > MOST_SERVERS:
        raise UsageError(f"there are {len(found)} MCP servers, at most {MOST_SERVERS} are started; disable some")
    return list(found.values())


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
        try:
            server = converted({**_filled(table, variables), "name": name}, ServerSettings)
            _check(server)
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
        server.headers = {key.lower(): value for key, value in server.headers.items()}
        found[name] = server
    return found


def _filled(value: dict[str, object], variables: Mapping[str, str]) -> dict[str, object]:
    """Return a server's table without empty values, and with the variables' values. Raises ValueError."""

    def text_of(found: re.Match[str]) -> str:
        text = variables.get(found[1]) or found[2]
        if text is None:
            raise ValueError(f"the variable {found[1]} is not set")
        return text

    def filled(part: object) -> object:
        if isinstance(part, str):
            return _VARIABLE.sub(text_of, part)
        if isinstance(part, list):
            return [filled(each) for each in part]
        return {key: filled(each) for key, each in part.items()} if isinstance(part, dict) else part

    return {key: filled(part) for key, part in value.items() if part is not None}


def _check(server: ServerSettings) -> None:
    """Raise ValueError for settings that do not go together, or cannot be sent."""
    wanted = {None: server.command or server.url, "stdio": server.command}.get(server.type, server.url)
    if bool(server.command) == bool(server.url) or not wanted:
        raise ValueError("give either a command or a url")
    if wrong := [key for key, value in server.headers.items() if not _HEADER.fullmatch(f"{key}: {value}")]:
        raise ValueError(f"headers.{wrong[0]} cannot be sent: a header is ASCII, on one line")
    url = server.url
    if url and (http_address(url) is None or not url.isascii() or not url.isprintable() or " " in url):
        raise ValueError(f"url must be an http or https address, not {without_login(url)!r}")
