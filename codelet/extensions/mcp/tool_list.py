"""The tools of a server as codelet takes them: their names, what is sent of their descriptions and schemas, and which
are left out, since one of them must not cost the others, or a request.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

from codelet.prompt import escape
from codelet.record import Record
from codelet.system.text import clean, one_line

LONGEST_TOOL_NAME = 64
_LONGEST_DESCRIPTION = 2_000
_LONGEST_MEANING = 1_000
_LARGEST_SCHEMA = 16 << 10
_CHOICES = ("anyOf", "oneOf", "allOf", "not", "enum", "const")
"""What vendors do not take at the root of a schema."""
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_DATA, _NAMES, _WORDS = ("default", "const", "enum", "examples"), ("$schema", "$id"), ("description", "title")
"""Keys whose values are no schemas, that are left out, and that hold words of the server's."""
_CUT = " […]"


class RemoteTool(Record, kw_only=True):
    """A tool of a server. `remote` is the server's own name of it, `name` the one that the model and rules use.

    `fingerprint` is another one when the server says something else of the tool. `only_reads` is the server's claim.
    """

    name: str
    remote: str
    description: str
    parameters: dict[str, Any]
    fingerprint: str
    only_reads: bool = False


class UnusableTool(Exception):
    """A tool cannot be offered; the text says why."""


def tool_name(server: str, remote: str) -> str:
    """Return the name of a server's tool as every vendor takes it. One that had to be changed gets a part of a digest,
    so that two tools never share a name, and none ever gets another's.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", remote)
    name = f"mcp__{server}__{plain}"
    if plain == remote and len(name) <= LONGEST_TOOL_NAME:
        return name
    digest = sha256(remote.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[: LONGEST_TOOL_NAME - 9]}_{digest}"


def remote_tool(server: str, given: object) -> RemoteTool:
    """Return a tool as an answer lists it. Raises UnusableTool."""
    remote = given.get("name") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(remote, str) or not remote:
        raise UnusableTool("it has no name")
    schema = given.get("inputSchema")
    said = json.dumps([given.get("description"), schema], sort_keys=True)
    if len(said) > _LARGEST_SCHEMA + (1 << 16) or len(json.dumps(schema)) > _LARGEST_SCHEMA:
        raise UnusableTool(f"its schema is larger than {_LARGEST_SCHEMA >> 10} KiB")
    hints = given.get("annotations")
    return RemoteTool(
        name=tool_name(server, remote),
        remote=remote,
        description=_words(given.get("description"), _LONGEST_DESCRIPTION),
        parameters=_parameters(schema),
        fingerprint=sha256(said.encode()).hexdigest(),
        only_reads=isinstance(hints, dict) and hints.get("readOnlyHint") is True,
    )


def _words(text: object, most: int) -> str:
    """Return a server's words without what no one sees and without reminders, at most so many characters."""
    if not isinstance(text, str):
        return ""
    plain = escape(clean(text[: 2 * most])).strip()
    return plain if len(plain) <= most else plain[: most - len(_CUT)] + _CUT


def _parameters(schema: object) -> dict[str, Any]:
    """Return a schema as vendors take it. Raises UnusableTool."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise UnusableTool("its schema is not that of an object")
    if choices := [key for key in _CHOICES if key in schema]:
        raise UnusableTool(f"its schema has {choices[0]} at its root, which vendors do not take")
    if not isinstance(schema.get("properties", {}), dict):
        raise UnusableTool("the properties in its schema are no object")
    try:
        made: dict[str, Any] = _plain({"type": "object", "properties": {}, **schema})
    except RecursionError:
        raise UnusableTool("its schema is nested too deep") from None
    return made


def _plain(part: object) -> Any:
    """Return a part of a schema with its words cleaned. Raises UnusableTool where it is not in order."""
    if isinstance(part, list):
        return list(map(_plain, part))
    if not isinstance(part, dict):
        return part
    kinds, reference = part.get("type", ()), part.get("$ref", "#")
    if isinstance(kinds, str | list) and not _TYPES.issuperset([kinds] if isinstance(kinds, str) else map(str, kinds)):
        raise UnusableTool(f"its schema has the unknown type {one_line(str(kinds), 60)}")
    if isinstance(reference, str) and not reference.startswith("#"):
        raise UnusableTool("its schema refers to one elsewhere")
    made = {name: value if name in _DATA else _plain(value) for name, value in part.items() if name not in _NAMES}
    return made | {name: _words(made[name], _LONGEST_MEANING) for name in _WORDS if isinstance(made.get(name), str)}
