"""The tools of a server: names, descriptions and schemas as vendors accept them, and the results of calls.

An unusable tool is left out, so that it breaks no request.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from hashlib import sha256

from codelet.errors import ToolError
from codelet.messages import JsonSchema, Picture
from codelet.prompt import escape
from codelet.record import Record
from codelet.system.text import clean, one_line, valid_unicode
from codelet.tools.tool import ToolOutput

LONGEST_TOOL_NAME = 64
_LONGEST_DESCRIPTION = 2_000
_LONGEST_MEANING = 1_000
_LARGEST_SCHEMA = 16 << 10
_CHOICES = ("anyOf", "oneOf", "allOf", "not", "enum", "const")
"""Keys that vendors refuse at the root of a schema."""
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_DATA, _NAMES, _WORDS = ("default", "const", "enum", "examples"), ("$schema", "$id"), ("description", "title")
"""Keys with values that are not schemas, keys that are dropped, and keys with texts of the server."""
_CUT = " […]"
_LONGEST_RESULT = 30_000
_MOST_PICTURES = 10


class RemoteTool(Record, kw_only=True):
    """A tool of a server. `remote` is the server's name of it, `name` the name for the model and for rules.

    `fingerprint` changes with the description or the schema. `only_reads` is the server's claim.
    """

    name: str
    remote: str
    description: str
    parameters: JsonSchema
    fingerprint: str
    only_reads: bool = False


class UnusableTool(Exception):
    """A tool cannot be offered; the text is the reason."""


def tool_name(server: str, remote: str) -> str:
    """Return a name for a server's tool that every vendor accepts. A changed name ends in a digest, so that names are
    unique and stable.
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
    described = json.dumps([given.get("description"), schema], sort_keys=True)
    if len(described) > _LARGEST_SCHEMA + (1 << 16) or len(json.dumps(schema)) > _LARGEST_SCHEMA:
        raise UnusableTool(f"its schema is larger than {_LARGEST_SCHEMA >> 10} KiB")
    hints = given.get("annotations")
    return RemoteTool(
        name=tool_name(server, remote),
        remote=remote,
        description=_words(given.get("description"), _LONGEST_DESCRIPTION),
        parameters=_parameters(schema),
        fingerprint=sha256(described.encode()).hexdigest(),
        only_reads=isinstance(hints, dict) and hints.get("readOnlyHint") is True,
    )


def _words(text: object, most: int) -> str:
    """Return a server's text without invisible characters and reminders, at most `most` characters."""
    if not isinstance(text, str):
        return ""
    plain = escape(clean(text[: 2 * most])).strip()
    return plain if len(plain) <= most else plain[: most - len(_CUT)] + _CUT


def _parameters(schema: object) -> JsonSchema:
    """Return a schema that vendors accept. Raises UnusableTool."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise UnusableTool("its schema is not that of an object")
    if choices := [key for key in _CHOICES if key in schema]:
        raise UnusableTool(f"its schema has {choices[0]} at its root, which vendors refuse")
    if not isinstance(schema.get("properties", {}), dict):
        raise UnusableTool("the properties in its schema are no object")
    try:
        plain = _plain({"type": "object", "properties": {}, **schema})
    except RecursionError:
        raise UnusableTool("its schema is nested too deep") from None
    assert isinstance(plain, dict)
    return plain


def _plain(part: object) -> object:
    """Return a part of a schema with cleaned texts. Raises UnusableTool if it is invalid."""
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


def output_from(result: Mapping[str, object], name: str, *, sees: bool) -> ToolOutput:
    """Return the output for a result of the tool `name`; `recall` reads the rest of a long text.

    Images are attached if the model `sees`, otherwise named.
    """
    content, pictures = result.get("content"), list[Picture]()
    texts: list[str] = []
    for item in content if isinstance(content, list) else ():
        texts += _text_of(item, name, pictures, sees=sees)
    if not texts and not pictures and "structuredContent" in result:
        texts.append(json.dumps(result["structuredContent"], ensure_ascii=False, indent=1))
    failed = result.get("isError") is True
    empty = "The call failed without a message." if failed else "Done, without output."
    return ToolOutput(valid_unicode("\n".join(texts)) or empty, failed=failed, most=_LONGEST_RESULT, images=pictures)


def _text_of(item: object, name: str, pictures: list[Picture], *, sees: bool) -> Iterator[str]:
    """Yield the text of one content item; an image is added to the list."""
    match item:
        case {"type": "text", "text": text}:
            yield str(text)
        case {"type": "image", "data": str(encoded)} if sees and len(pictures) < _MOST_PICTURES:
            from codelet.tools.pictures import memory_file, read_picture

            shown = f"picture {len(pictures) + 1} of {name}"
            try:
                data = b64decode(encoded)
                with memory_file(data) as file:
                    pictures.append(read_picture(file, data[:64], shown, len(data)))
                yield f"[{shown}]"
            except (ToolError, ValueError) as error:
                yield f"[{one_line(str(error), 200)}]"
        case {"type": "resource", "resource": dict(resource)} | {"type": "resource_link", **resource}:
            yield f"[{one_line(str(resource.get('uri')), 200)}]"
            if isinstance(resource.get("text"), str):
                yield str(resource["text"])
        case {"type": kind}:
            yield f"[{one_line(str(kind), 40)}, which cannot be shown]"
