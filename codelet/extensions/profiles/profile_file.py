"""A profile from the text of a file: YAML, flat or with `config:`, in which every name must be one that is known.

What could grow, run or stand for something else is refused, and each fault has its line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from codelet.extensions.profiles.profile import AUTONOMY, RISKS, VERBOSITIES, Profile, ProfileFault
from codelet.providers.protocol import EFFORTS
from codelet.record import Record
from codelet.system.text import clean, one_line

_LONGEST_PROMPT = 32_000
_LONGEST_LINE = 500
_MOST_TOOLS = 100
_MOST_STEPS = 10_000

_MOST_DEPTH = 6
_MOST_NODES = 2_000
_TAG = "tag:yaml.org,2002:"
_ELSEWHERE = {
    "bash": "bash",
    "edit": "edit",
    "file_edit": "edit",
    "file_read": "read",
    "file_write": "write",
    "glob": "find",
    "grep": "grep",
    "ls": "find",
    "multiedit": "edit",
    "read": "read",
    "shell": "bash",
    "write": "write",
}
"""What tools are called in other programs, in small letters, and here."""


def read_yaml(name: str, text: str, source: str, own: frozenset[str]) -> Profile:
    """The profile in YAML. `own` are codelet's tools. Raises ProfileFault."""
    fields = dict(_mapping(read_nodes(text)))
    inner = fields.pop("config", None)
    if inner is not None:
        for key, node in _mapping(inner).items():
            if key in fields:
                raise ProfileFault(node.line, f"has {one_line(key, 60)!r} in config and beside it")
            fields[key] = node
    for key, node in fields.items():
        if key not in _READERS and key != "id":
            raise ProfileFault(node.line, f"has the unknown name {one_line(key, 60)!r}{_meant(key, [*_READERS, 'id'])}")
    given = fields.pop("id", None)
    if given is not None and (told := _line(given, "id")) != name:
        raise ProfileFault(given.line, f"has the id {told!r}, but the file's name says {name!r}: give both the same")
    values: dict[str, Any] = {key: _READERS[key](node, key) for key, node in fields.items()}
    values["allowed_tools"], notes = _known(values.get("allowed_tools"), fields.get("allowed_tools"), own)
    return Profile(name=name, source=source, notes=notes, **values)


def _mapping(node: Node) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise ProfileFault(node.line, "must hold names with values")
    return node.value


def _text(node: Node, key: str) -> str:
    if not isinstance(node.value, str) or node.kind != "str":
        hint = ": put it in quotes" if isinstance(node.value, str) and node.value else ""
        raise ProfileFault(node.line, f"{key} must be a text{hint}")
    text = clean(node.value).strip()
    if not text:
        raise ProfileFault(node.line, f"{key} must not be empty")
    if len(text) > _LONGEST_PROMPT:
        raise ProfileFault(node.line, f"{key} is longer than {_LONGEST_PROMPT:,} characters")
    return text


def _line(node: Node, key: str) -> str:
    text = " ".join(_text(node, key).split())
    if len(text) > _LONGEST_LINE:
        raise ProfileFault(node.line, f"{key} is longer than {_LONGEST_LINE} characters")
    return text


def _names(node: Node, key: str) -> tuple[str, ...]:
    if not isinstance(node.value, list):
        raise ProfileFault(node.line, f"{key} must be a list of names")
    if len(node.value) > _MOST_TOOLS:
        raise ProfileFault(node.line, f"{key} has more than {_MOST_TOOLS} names")
    return tuple(_line(item, f"each of {key}") for item in node.value)


def _count(node: Node, key: str) -> int:
    text = node.value if node.kind == "int" else ""
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MOST_STEPS):
        raise ProfileFault(node.line, f"{key} must be a whole number from 1 to {_MOST_STEPS:,}")
    return int(text)


def _one_of(*choices: str) -> Callable[[Node, str], str]:
    def read(node: Node, key: str) -> str:
        if node.value not in choices:
            raise ProfileFault(node.line, f"{key} must be one of {', '.join(choices)}")
        return str(node.value)

    return read


_READERS: dict[str, Callable[[Node, str], Any]] = {
    "system_prompt": _text,
    "allowed_tools": _names,
    "autonomy_mode": _one_of(*AUTONOMY),
    "max_iterations": _count,
    "risk_tolerance": _one_of(*RISKS),
    "verbosity": _one_of(*VERBOSITIES),
    "model": _line,
    "effort": _one_of(*EFFORTS),
    "description": _line,
}


def _known(
    names: tuple[str, ...] | None, node: Node | None, own: frozenset[str]
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The tools as they are called here, and a note on those that are not here; a slip of the keys is an error."""
    if names is None or node is None:
        return None, ()
    found: list[str] = []
    strangers: list[str] = []
    for name in names:
        here = _ELSEWHERE.get(name.lower(), name)
        if here in own or here.startswith("mcp__"):
            found.append(here)
        elif meant := _meant(name, own):
            raise ProfileFault(_line_of(node, name), f"names the unknown tool {name!r}{meant}")
        else:
            strangers.append(name)
    notes = (f"codelet has no tool {', '.join(strangers)}: left out",) if strangers else ()
    return tuple(dict.fromkeys(found)), notes


def _line_of(node: Node, name: str) -> int:
    items = node.value if isinstance(node.value, list) else []
    return next((item.line for item in items if item.value == name), node.line)


def _meant(name: str, known: Any) -> str:
    from codelet.system.text.spelling import did_you_mean

    return did_you_mean(name, known, "{!r}")


class Node(Record):
    """A value and its line: a text with the kind that YAML sees in it, a list of nodes, or nodes by name."""

    value: str | list[Any] | dict[str, Any]
    kind: str
    line: int


def read_nodes(text: str) -> Node:
    """The one document in a text. Raises ProfileFault."""
    try:
        _check(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = one_line(str(error.problem or error.context), 200)
        raise ProfileFault((mark.line if mark else 0) + 1, f"is not YAML: {problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ProfileFault(line, f"holds the character U+{error.character:04X}") from None
    if root is None:
        raise ProfileFault(1, "is empty")
    return _node(root)


def _check(text: str) -> None:
    """Refuse what could grow, run or stand for something else, before any tree is made of it. Raises ProfileFault."""
    depth = nodes = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise ProfileFault(line, "holds a second document")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ProfileFault(line, "has an anchor or an alias: a profile spells everything out")
        if getattr(event, "tag", None) is not None:
            raise ProfileFault(line, f"has the tag {one_line(str(event.tag), 60)}: a profile holds plain values only")
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_DEPTH:
            raise ProfileFault(line, f"is nested deeper than {_MOST_DEPTH} levels")
        if nodes > _MOST_NODES:
            raise ProfileFault(line, f"has more than {_MOST_NODES} values")


def _node(node: yaml.Node) -> Node:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return Node(node.value, node.tag.removeprefix(_TAG), line)
    if isinstance(node, yaml.SequenceNode):
        return Node([_node(item) for item in node.value], "list", line)
    assert isinstance(node, yaml.MappingNode)
    named: dict[str, Node] = {}
    for key, value in node.value:
        at = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ProfileFault(at, "has a name that is no text")
        if key.value in named:
            raise ProfileFault(at, f"has {one_line(key.value, 60)!r} twice")
        named[key.value] = _node(value)
    return Node(named, "mapping", line)
