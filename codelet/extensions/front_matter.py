"""The one reader of files that users write for the agent: profiles, commands, skills, hooks, servers.

Such a file is bounded text, mostly Markdown with front matter. YAML is read strictly, with the line of every value: it
is small, without repeats, anchors, tags of its own, or anything that runs. Front matter that other programs accept is
read leniently by `fields_of`.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from codelet.system.text import one_line

if TYPE_CHECKING:
    import yaml

UserValue = TypeVar("UserValue")

_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"([A-Za-z][\w-]*):(?:\s+[>|][+-]?)?(.*)")
_PLAIN_TYPES = {"array": "a list", "object": "a table", "str": "a text", "int": "a whole number"} | {
    "float": "a number", "bool": "true or false", "null": "nothing",
}  # fmt: skip
"""msgspec's names of types, for users."""
_MOST_DEPTH = 6
_MOST_NODES = 2_000


class FileFault(Exception):
    """An error in a file, with its line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line

    def at(self, path: Path | str) -> str:
        """Return the error with its place in the file."""
        return f"{path}:{self.line}: {self}"


def read_text_file(path: Path, most: int, *, within: Path | None, cut: bool = False) -> str:
    """A file's text of at most `most` bytes; with `cut`, of a larger one its beginning.

    It may not be a link that leads out of the folder `within`. Raises FileFault.
    """
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise FileFault(1, "is no regular file")
        if state.st_size > most and not cut:
            raise FileFault(1, f"is larger than {most >> 10} KiB")
        if within is not None and not path.resolve().is_relative_to(within.resolve()):
            raise FileFault(1, "leads out of the project")
        with path.open("rb") as file:
            raw = file.read(most)
    except OSError as error:
        raise FileFault(1, f"cannot be read: {error.strerror or error}") from None
    try:
        return raw.decode("utf-8-sig", "ignore" if cut and state.st_size > most else "strict")
    except UnicodeDecodeError as error:
        raise FileFault(raw.count(b"\n", 0, error.start) + 1, "is not UTF-8") from None


def read_json_file(path: Path, most: int) -> object:
    """Return the value in a JSON file of at most `most` bytes. Raises FileFault."""
    try:
        return json.loads(read_text_file(path, most, within=None))
    except (ValueError, RecursionError) as error:
        raise FileFault(getattr(error, "lineno", 1), f"invalid JSON: {error}") from None


def converted(value: object, kind: type[UserValue], lines: Mapping[str, int] | None = None) -> UserValue:
    """Return a value from a user's file as this type of msgspec's.

    Raises ValueError with the place, or with the `lines` of the file's parts FileFault.
    """
    import msgspec

    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        problem = re.sub(r"`(\w+)(?: \| null)?`", lambda found: _PLAIN_TYPES.get(found[1], repr(found[1])), problem)
        path = path.rstrip("`").partition("[...]")[0]
        text = f"{path.removeprefix('.')}: {problem}" if path else problem
        if lines is None:
            raise ValueError(text) from None
        raise FileFault(lines.get(path, 1), text) from None


def split_front(text: str) -> tuple[str | None, str]:
    """The front matter of a text, between two lines of three dashes, None if it has none; and what follows."""
    front = _FRONT.match(text)
    return (None, text) if front is None else (front.group(1) or "", text[front.end() :])


def fields_of(front: str) -> dict[str, str]:
    """Return the fields of front matter as texts, read leniently: each is one line and the indented
    lines below it. Texts with a colon need no quotes.
    """
    found: dict[str, str] = {}
    for line in front.splitlines():
        if (field := _FIELD.fullmatch(line.rstrip())) is not None:
            found[name := field[1]] = field[2].strip()
        elif found and line[:1].isspace():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: str) -> str:
    """Return a value without its quotes or its comment."""
    for quote, escaped in (("'", "''"), ('"', '\\"')):
        if value.startswith(quote) and (end := value.rfind(quote)):
            return value[1:end].replace(escaped, quote)
    return re.split(r"(?:^|\s)#", value)[0].rstrip()


def read_yaml(text: str, above: int = 0) -> tuple[object, dict[str, int]]:
    """Return the value of the one document in a text, and the line of each part by its path, such as `.tools[1]`.

    There are `above` lines before the text in its file. Raises FileFault.
    """
    import yaml  # only profiles need it

    try:
        _check(text, above)
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        lines: dict[str, int] = {}
        if root is None:
            raise FileFault(above + 1, "is empty")
        _note_lines(root, "", above, lines)
        return loader.construct_document(root), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = one_line(str(error.problem or error.context), 200)
        raise FileFault(above + (mark.line if mark else 0) + 1, f"is not YAML: {problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise FileFault(above + line, f"holds the character U+{error.character:04X}") from None


def _check(text: str, above: int) -> None:
    """Refuse what could grow, run or refer to something else, before any tree is made of it. Raises FileFault."""
    import yaml

    depth = nodes = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = above + event.start_mark.line + 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise FileFault(line, "holds a second document")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise FileFault(line, "has an anchor or an alias: spell everything out")
        if getattr(event, "tag", None) is not None:
            raise FileFault(line, f"has the tag {one_line(str(event.tag), 60)}: only plain values are allowed here")
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_DEPTH:
            raise FileFault(line, f"is nested deeper than {_MOST_DEPTH} levels")
        if nodes > _MOST_NODES:
            raise FileFault(line, f"has more than {_MOST_NODES} values")


def _note_lines(node: yaml.Node, path: str, above: int, lines: dict[str, int]) -> None:
    """Note the line of a node and of all nodes in it. Raises FileFault for a name that is there twice."""
    import yaml

    lines[path] = above + node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for place, item in enumerate(node.value):
            _note_lines(item, f"{path}[{place}]", above, lines)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        line, name = above + key.start_mark.line + 1, f"{path}.{key.value}"
        if not isinstance(key, yaml.ScalarNode):
            raise FileFault(line, "has a name that is no text")
        if name in lines:
            raise FileFault(line, f"has {one_line(key.value, 60)!r} twice")
        _note_lines(value, name, above, lines)
