"""The one reader of files that users write for the agent: profiles, commands, skills, hooks, servers.

Such a file is bounded text, mostly Markdown with front matter. YAML is read strictly, with the line of every value: it
is small, without repeats, anchors, tags of its own, or anything that runs. Front matter that other programs accept is
read leniently by `fields_of`.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from codelet.events import Notices
from codelet.record import Record
from codelet.system.text import one_line

if TYPE_CHECKING:
    import yaml

UserValue = TypeVar("UserValue")

_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_PLAIN = re.compile(r"([A-Za-z][\w-]*):[ \t]+([^\s\"'|>&*!#%@`{].*)")
"""A field that needs no YAML reader: YAML 1.2 gives the same text, or an error for what people mean by it."""
_LOOSE = re.compile(r"([A-Za-z][\w-]*):(.*)")
IGNORED = ("allowed-tools", "disallowed-tools", "model", "hooks", "agent", "context")
"""Fields of commands and skills that grant rights or choose models elsewhere: here the user's settings do that."""
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


class UserFile(Record, kw_only=True):
    """A command or a skill: `path` is its file, `project` the project that brings it.

    `ignored` are its fields that codelet does not use.
    """

    name: str
    description: str
    path: Path
    project: Path | None
    ignored: tuple[str, ...]

    def report_ignored(self, what: str, notices: Notices) -> None:
        """Tell the user once which fields codelet does not use."""
        if self.ignored:
            notices.say(f"{what}: codelet does not use its {' and '.join(self.ignored)}", once=what)


NamedFile = TypeVar("NamedFile", bound=UserFile)


def read_all(
    paths: Iterable[tuple[Path, Path | None]], read: Callable[[Path, Path | None], NamedFile], most: int
) -> tuple[list[NamedFile], list[str]]:
    """Read files, each with its project; return the first of each name, at most `most`, and the errors in others."""
    found: dict[str, NamedFile] = {}
    problems: list[str] = []
    for path, project in paths:
        try:
            each = read(path, project)
        except FileFault as fault:
            problems.append(fault.at(path))
            continue
        if len(found) == most and each.name not in found:
            problems.append(f"{path}: there are more than {most}")
            break
        found.setdefault(each.name, each)
    return list(found.values()), problems


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
        problem = re.sub(r"`(\w+)`", lambda found: _PLAIN_TYPES.get(found[1], repr(found[1])), problem)
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
    """The fields of front matter as texts, read leniently; what is nested is empty.

    What is no YAML, such as a description with a colon in it, is read verbatim.
    """
    lines = [line.rstrip() for line in front.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    plain = [_PLAIN.fullmatch(line) for line in lines]
    if all(each is not None and " #" not in each[2] for each in plain):
        return {each[1]: each[2] for each in plain if each is not None}
    try:
        found, _ = read_yaml(front, typed=False)
        if isinstance(found, dict):
            return {name: value if isinstance(value, str) else "" for name, value in found.items()}
    except FileFault:
        pass
    loose: dict[str, str] = {}
    for line in lines:
        if (field := _LOOSE.fullmatch(line)) is not None:
            loose[name := field[1]] = field[2].strip().strip("\"'")
        elif loose:
            loose[name] = f"{loose[name]} {line.strip()}".removeprefix(">").removeprefix("|").strip()
    return loose


def read_yaml(text: str, above: int = 0, *, typed: bool = True) -> tuple[object, dict[str, int]]:
    """Return the value of the one document in a text, and the line of each part by its path, such as `.tools[1]`.

    There are `above` lines before the text in its file. All values are texts unless `typed`. Raises FileFault.
    """
    import yaml  # only for what needs it: most front matter does not

    try:
        _check(text, above)
        loader = yaml.SafeLoader(text) if typed else yaml.BaseLoader(text)
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
