"""A made-up session, written down message by message: what the user and the agent say, what runs, what comes back.

Nothing is drawn by chance: code and logs come from fixed tables, so that the same list is made by every Python.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from codelet.context.compaction import CompactionSettings
from tests.context.compaction.lists import Message, calling, reminder, result, says, user

_VERBS = "load merge split check write parse route drain fetch apply count order trim pack close hold".split()
_THINGS = "batch invoice session cursor ledger packet schema worker ticket region quota shard header price".split()
_WORDS = "limit offset timeout_s retries depth width owner tenant state total weight stamp scale margin".split()
_FORMS = {
    "py": (
        "def {verb}_{thing}_{number}({word}: int, {other}: str) -> int:",
        '    """{verb} the {thing}: {word} of {other}, at most {value}."""',
        "    if {word} > {value}:",
        '        raise {thing}Error(f"{word} of {{{other}}} is above {value}")',
        "    return {word} * {number} + len({other})",
        "",
    ),
    "rs": (
        "pub fn {verb}_{thing}_{number}({word}: u64, {other}: &str) -> Result<u64, {thing}Error> {{",
        "    // {verb} the {thing}: {word} of {other}, at most {value}",
        "    if {word} > {value} {{ return Err({thing}Error::TooMuch({word})); }}",
        "    Ok({word} * {number} + {other}.len() as u64)",
        "}}",
        "",
    ),
    "ts": (
        "export function {verb}{Thing}{number}({word}: number, {other}: string): number {{",
        "  // {verb} the {thing}: {word} of {other}, at most {value}",
        "  if ({word} > {value}) throw new {Thing}Error(`{word} above {value}`);",
        "  return {word} * {number} + {other}.length;",
        "}}",
        "",
    ),
    "go": (
        "func {verb}{Thing}{number}({word} int, {other} string) (int, error) {{",
        "\tif {word} > {value} {{",
        '\t\treturn 0, fmt.Errorf("{word} of %s is above {value}", {other})',
        "\t}}",
        "\treturn {word}*{number} + len({other}), nil",
        "}}",
        "",
    ),
}


def code(language: str, seed: int, count: int, *, numbered: bool = False) -> str:
    """The text of a file with so many functions; another seed gives other ones."""
    lines: list[str] = []
    for place in range(count):
        number = seed * 7 + place
        thing = _THINGS[number * 5 % len(_THINGS)]
        names = {
            "verb": _VERBS[number * 3 % len(_VERBS)],
            "thing": thing,
            "Thing": thing.title(),
            "word": _WORDS[number * 9 % len(_WORDS)],
            "other": _WORDS[(number * 9 + 4) % len(_WORDS)],
            "value": 16 + number * 37 % 900,
            "number": number,
        }
        lines += [form.format(**names) for form in _FORMS[language]]
    if numbered:
        lines = [f"{place:6}\t{line}" for place, line in enumerate(lines, 1)]
    return "\n".join(lines)


def log(seed: int, count: int) -> str:
    """Lines of a server's log: times, addresses, request ids, measurements."""
    found = []
    for place in range(count):
        number = seed * 131 + place * 17
        level = ("INFO", "INFO", "DEBUG", "WARN")[number % 4]
        found.append(
            f"2026-03-{1 + number % 28:02}T{number % 24:02}:{number % 60:02}:{place % 60:02}Z {level} "
            f"{_VERBS[number % 16]}_{_THINGS[number % 14]} req={number * 2654435761 % 2**32:08x} "
            f"from 10.0.{number % 250}.{place % 250}:{40_000 + number % 9_000} took {number % 900} ms"
        )
    return "\n".join(found)


class Story:
    """A session that is being written. Its calls are numbered; a folder of its own keeps their ids apart."""

    def __init__(self, name: str, *, system: str = "You are a coding agent in a terminal.") -> None:
        self.name = name
        self.messages: list[Message] = [{"role": "system", "content": system}]
        self.pinned: list[int] = []
        self.narrative: Sequence[str] = ()
        self.struck: Sequence[str] = ()
        self.settings = CompactionSettings()
        self.in_flight = False
        self._calls = 0

    def remind(self, kind: str, text: str) -> None:
        """Put in a reminder."""
        self.messages.append(reminder(kind, text))

    def user(self, text: str, images: Sequence[Mapping[str, Any]] = ()) -> None:
        """The user says something."""
        self.messages.append({**user(text), **({"images": list(images)} if images else {})})

    def says(self, text: str) -> None:
        """The agent ends a turn."""
        self.messages.append(says(text))

    def call(self, name: str, arguments: dict[str, Any], answer: Any, *, text: str | None = None) -> None:
        """A step with one call, and its result."""
        self.calls([(name, arguments, answer)], text=text)

    def calls(self, made: Collection[tuple[str, dict[str, Any], Any]], *, text: str | None = None) -> None:
        """A step with several calls at once, and their results."""
        first = self._calls + 1
        self._calls += len(made)
        ids = [f"call_{number}" for number in range(first, first + len(made))]
        asked = [(own, name, arguments) for own, (name, arguments, _) in zip(ids, made, strict=True)]
        self.messages.append(calling(*asked, text=text))
        self.messages += [result(own, answer) for own, (_, _, answer) in zip(ids, made, strict=True)]

    def run(self, command: str, output: str, code: int | None = 0, *, text: str | None = None) -> None:
        """A command, its output and its exit status, which None leaves out."""
        end = "" if code is None else f"\n[exit code {code}]"
        self.call("bash", {"command": command}, f"{output}{end}".lstrip("\n"), text=text)

    def read(self, path: str, content: str, *, text: str | None = None, **more: Any) -> None:
        """A file is read."""
        self.call("read", {"path": path, **more}, content, text=text)

    def edit(self, path: str, old: str, new: str, *, text: str | None = None, answer: str = "") -> None:
        """A place in a file is changed."""
        told = answer or f"Edited {path}: 1 place."
        self.call("edit", {"path": path, "old": old, "new": new}, told, text=text)

    def write(self, path: str, content: str, *, text: str | None = None) -> None:
        """A file is written."""
        told = f"Wrote {path}: {content.count(chr(10)) + 1} lines."
        self.call("write", {"path": path, "content": content}, told, text=text)

    def pin(self) -> None:
        """Pin the message that was put in last."""
        self.pinned.append(len(self.messages) - 1)
