"""YAML with the line of every value: small, without repeats, anchors, tags of its own, or anything that runs."""

from __future__ import annotations

from typing import Any

import yaml

from codelet.extensions.profiles.profile import ProfileFault
from codelet.record import Record
from codelet.system.text import one_line

_MOST_DEPTH = 6
_MOST_NODES = 2_000
_TAG = "tag:yaml.org,2002:"


class Node(Record):
    """A value and its line: a text with the kind that YAML sees in it, a list of nodes, or nodes by name."""

    value: str | list[Any] | dict[str, Any]
    kind: str
    line: int


def read_nodes(text: str, above: int = 0) -> Node:
    """The one document in a text, with `above` lines before it in its file. Raises ProfileFault."""
    try:
        _check(text, above)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = one_line(str(error.problem or error.context), 200)
        raise ProfileFault(above + (mark.line if mark else 0) + 1, f"is not YAML: {problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ProfileFault(above + line, f"holds the character U+{error.character:04X}") from None
    if root is None:
        raise ProfileFault(above + 1, "is empty")
    return _node(root, above)


def _check(text: str, above: int) -> None:
    """Refuse what could grow, run or stand for something else, before any tree is made of it. Raises ProfileFault."""
    depth = nodes = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = above + event.start_mark.line + 1
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


def _node(node: yaml.Node, above: int) -> Node:
    line = above + node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return Node(node.value, node.tag.removeprefix(_TAG), line)
    if isinstance(node, yaml.SequenceNode):
        return Node([_node(item, above) for item in node.value], "list", line)
    assert isinstance(node, yaml.MappingNode)
    named: dict[str, Node] = {}
    for key, value in node.value:
        at = above + key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ProfileFault(at, "has a name that is no text")
        if key.value in named:
            raise ProfileFault(at, f"has {one_line(key.value, 60)!r} twice")
        named[key.value] = _node(value, above)
    return Node(named, "mapping", line)
