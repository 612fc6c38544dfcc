"""The programs that only read, and the parser of their arguments, which refuses all options that are not listed.

A specification is one row of a table. Options: `-a` and `--all` take no value, `-n:number` takes one, `--color?text`
takes an optional attached one, `-NUM` is `-5` and the like. Operands: `read`, a path whose content is read; `list`, a
path whose name and size are read; `text`, anything; `number`; `rev`, a revision or path of git; `=list,show`, one of
these words. `*` is any number of them; `text!-e` is left out if -e is given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

from codelet.record import Record
from codelet.safety.paths import contained
from codelet.safety.tables import Section, read_table, rows_by_word
from codelet.system.process.start import supplied_by


class RefusedError(Exception):
    """The use of a program may do more than read; the message is the reason."""


class Program(Record):
    """A program that only reads with these options and operands; the table explains `marks`."""

    options: str = ""
    operands: str = ""
    marks: frozenset[str] = frozenset()


def _programs(rows: Section) -> dict[str, Program]:
    parts = {name: [part.strip() for part in f"{row}||".split("|")] for name, row in rows.items()}
    return {name: Program(one[0], one[1], frozenset(one[2].split())) for name, one in parts.items()}


READ_ONLY_PROGRAMS = _programs(read_table("programs")["programs"])
WRAPPERS = _programs(read_table("programs")["wrappers"])
READ_ONLY_GIT = _programs(read_table("git")["commands"])
VERSIONS = frozenset(
    (name, option) for option, names in read_table("programs")["versions"].items() for name in names.split()
)
"""Programs with their version option."""
LOADING_VARIABLES = read_table("programs")["loading variables"]
FIND_TESTS = rows_by_word("programs", "find")
"""find's tests without an effect, each with the kind of its value."""


class ParsedArguments:
    """Parsed arguments: `options` as (name, value), `operands`, and `uses` as (kind, path)."""

    def __init__(self) -> None:
        self.options: list[tuple[str, str | None]] = []
        self.operands: list[str] = []
        self.uses: list[tuple[str, str]] = []

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)


@cache
def options_of(specification: str) -> dict[str, str]:
    """The permitted options, each with the kind of its value: "" for none, with a leading `?` if attached only."""
    found = (re.fullmatch(r"(--?[^:?]+)(?:(:|\?)(\w+))?", token) for token in specification.split())
    kinds = [(each[1], (each[2] or "").strip(":") + (each[3] or "")) for each in found if each]
    return dict(sorted(kinds, key=lambda each: not each[1]))  # an option listed in both forms takes no value


def parse_arguments(name: str, program: Program, arguments: Sequence[str]) -> ParsedArguments:
    """Parse the arguments of the program `name`. Raises RefusedError at the first that is not permitted."""
    kinds = options_of(program.options)
    parsed = ParsedArguments()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--" or word == "-" or not word.startswith("-"):
            parsed.operands += [] if word == "--" else [word]
            if word == "--" or "options-first" in program.marks:
                parsed.operands += rest
                break
        elif "-NUM" in kinds and re.fullmatch(r"-\d+", word, re.ASCII):
            parsed.options.append(("-NUM", word[1:]))
        else:
            _option(name, program, word, rest, parsed)
    left = list(parsed.operands)
    for token in program.operands.split():
        kind, skipped, names = token.partition("!")
        if skipped and parsed.has(*names.split(",")):
            continue
        for _ in range(len(left) if kind.endswith("*") else min(len(left), 1)):
            _use(name, kind.rstrip("*"), left.pop(0), parsed)
    if left:
        raise RefusedError(f"{name} with the operand {left[0]!r} is not known to be read-only")
    return parsed


def _option(name: str, program: Program, word: str, rest: list[str], parsed: ParsedArguments) -> None:
    """Parse a word such as `--color=auto`, `-la` or `-n5`, whose last option may take the next word as its value."""
    kinds = options_of(program.options)
    bundles = "no-bundles" not in program.marks
    option, equals, text = word.partition("=")
    attached = text if equals else None
    if not word.startswith("--"):
        while bundles and kinds.get(word[:2]) == "" and len(word) > 2:
            parsed.options.append((word[:2], None))
            word = "-" + word[2:]
        whole = not bundles and (word in kinds or not word[2:].isdigit())
        option, attached = (word, None) if whole else (word[:2], word[2:] or None)
    kind = kinds.get(option)
    if kind is None or (not kind and attached is not None):
        raise RefusedError(f"{name} {option} is not known to be read-only")
    value = attached
    if kind and not kind.startswith("?") and attached is None:
        if not rest:
            raise RefusedError(f"{name} {option} lacks its value")
        # Some options of git exist for some commands only, and some take a value only after `=`.
        if name.startswith("git ") and name != "git grep" and rest[0].startswith("-"):
            raise RefusedError(f"{name} {option} {rest[0]}: whether that is a value or an option is not certain")
        value = rest.pop(0)
    elif attached and "no-attached" in program.marks and word[:2] != "--" and not re.fullmatch("[0-9]+", attached):
        raise RefusedError(f"{name} {word}: the value of {option} belongs in a separate word")
    parsed.options.append((option, value))
    if value is not None:
        _use(f"{name} {option}", kind.strip("?"), value, parsed)


def _use(where: str, kind: str, value: str, parsed: ParsedArguments) -> None:
    if kind == "number" and not re.fullmatch(r"[+-]?\d+(?:\.\d+)?[a-zA-Z%]{0,3}", value):
        raise RefusedError(f"{where} takes a number, not {value!r}")
    if kind.startswith("=") and value not in kind[1:].split(","):
        raise RefusedError(f"{where} {value} is not known to be read-only")
    if kind in ("read", "list", "rev"):
        parsed.uses.append((kind, value))


@lru_cache(maxsize=1 << 10)
def resolved(path: str) -> str:
    """The path with every link resolved, remembered during one verdict."""
    return os.path.realpath(path)


@lru_cache(maxsize=1 << 6)
def is_supplied(name: str, root: str) -> bool:
    """Return whether the shell would take the program from the workspace or its folder, remembered like `resolved`."""
    if "/" in name:
        return True
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if not folder.startswith("/"):
            return True
        if os.access(program := f"{folder}/{name}", os.X_OK):
            return os.path.isdir(program) or supplied_by(Path(root), program)
    return False


class Location(Record):
    """The place of a command: its current folder and the workspace's root, both resolved."""

    cwd: str
    root: str


def folder_reached(who: str, text: str, place: Location) -> str:
    """The folder of the workspace that `who`, such as `cd`, reaches by `text`. Raises RefusedError without one.

    The path must not go through a link: `cd ..` would then lead elsewhere for bash than for the kernel.
    """
    spelled = text if text.startswith("/") else f"{place.cwd}/{text}"
    target = resolved(spelled)
    if not text or target != os.path.normpath(spelled):
        raise RefusedError(f"{who} {text} goes through a link" if text else f"{who} without a folder")
    if not contained(target, place.root):
        raise RefusedError(f"{who} {text} leaves the workspace")
    if not os.path.isdir(target):
        raise RefusedError(f"there is no folder {text}")
    return target
