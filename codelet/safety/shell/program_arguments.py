"""Parse the arguments of a program by its permitted options; anything else is refused.

A specification is one line that a person can read. Its options: `-a` and `--all` take no value, `-n:number`
takes one, `--color?text` may take one that is attached, `-NUM` stands for `-5` and the like. Its operands:
`read` a path whose content is read, `list` a path whose name and size are read, `text` anything, `number`,
`rev` a revision or path of git; `*` any number of them, `?` at most one, `text!-e` none where -e is given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from codelet.record import Record

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?[a-zA-Z%]{0,3}")


class RefusedError(Exception):
    """The use of a program is not known to be read-only; the message says why, in words."""


class Program(Record):
    """A program that is read-only with these options and operands.

    `check` names a further check of `strict`, `language` says that an operand is a program of its own: then it runs in
    the read-only sandbox only. `permutes` is False for programs that take every word after the first operand as an
    operand, `bundles` for those whose `-ab` is no `-a -b`, `attaches` for those whose `-n5` may be `-n` and an option
    `5`, and `raw` says that the check takes the arguments apart by itself.
    """

    options: str = ""
    operands: str = ""
    check: str | None = None
    language: bool = False
    permutes: bool = True
    bundles: bool = True
    attaches: bool = True
    raw: bool = False


class ParsedArguments:
    """The arguments taken apart: `options` as (name, value), `operands`, and `uses` as (kind, path).

    `ended` is how many operands stand before a `--` that ends the options, None where there is none.
    """

    def __init__(self) -> None:
        self.options: list[tuple[str, str | None]] = []
        self.operands: list[str] = []
        self.uses: list[tuple[str, str]] = []
        self.ended: int | None = None

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        """The values given to these options."""
        return [value for name, value in self.options if name in names and value is not None]


class Options(Record):
    """The options of a specification: without a value, with one, with one that may be attached, and `-5`."""

    flags: frozenset[str]
    values: dict[str, str]
    optional: dict[str, str]
    numbers: bool


@cache
def options_of(specification: str) -> Options:
    """The options that a specification line permits."""
    flags: set[str] = set()
    values: dict[str, str] = {}
    optional: dict[str, str] = {}
    numbers = False
    for token in specification.split():
        if token == "-NUM":
            numbers = True
        elif "?" in token[2:]:
            name, _, kind = token.rpartition("?")
            optional[name] = kind
        elif ":" in token:
            name, _, kind = token.partition(":")
            values[name] = kind
        else:
            flags.add(token)
    return Options(flags=frozenset(flags), values=values, optional=optional, numbers=numbers)


def parse_arguments(name: str, program: Program, arguments: Sequence[str]) -> ParsedArguments:
    """Parse the arguments of the program `name`; raises RefusedError at the first that is not permitted."""
    options = options_of(program.options)
    parsed = ParsedArguments()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            parsed.ended = len(parsed.operands)
            parsed.operands += rest
            break
        if word == "-" or not word.startswith("-"):
            parsed.operands.append(word)
            if not program.permutes:
                parsed.operands += rest
                break
        elif word.startswith("--"):
            _long(name, options, word, rest, parsed)
        elif not program.bundles:
            _single(name, options, word, rest, parsed)
        elif options.numbers and word[1:].isascii() and word[1:].isdigit():
            parsed.options.append(("-NUM", word[1:]))
        else:
            _short(name, options, word, rest, parsed, attaches=program.attaches)
    _operands(name, program, parsed)
    return parsed


def _long(name: str, options: Options, word: str, rest: list[str], parsed: ParsedArguments) -> None:
    option, attached, value = word.partition("=")
    if option in options.flags and not attached:
        parsed.options.append((option, None))
    elif option in options.optional:
        _value(name, option, options.optional[option], value if attached else None, parsed)
    elif option in options.values:
        if not attached and not rest:
            raise RefusedError(f"{name} {option} lacks its value")
        _value(name, option, options.values[option], value if attached else _next(name, option, rest), parsed)
    else:
        raise RefusedError(f"{name} {option} is not known to be read-only")


def _single(name: str, options: Options, word: str, rest: list[str], parsed: ParsedArguments) -> None:
    """An option that stands alone, its number attached or behind it."""
    if word in options.flags:
        parsed.options.append((word, None))
    elif word in options.values and rest:
        _value(name, word, options.values[word], rest.pop(0), parsed)
    elif word[:2] in options.values and word[2:].isdigit():
        _value(name, word[:2], options.values[word[:2]], word[2:], parsed)
    else:
        raise RefusedError(f"{name} {word} is not known to be read-only")


def _short(name: str, options: Options, word: str, rest: list[str], parsed: ParsedArguments, *, attaches: bool) -> None:
    """A bundle such as `-la` or `-n5`."""
    position = 1
    while position < len(word):
        option = "-" + word[position]
        position += 1
        attached = word[position:]
        if option in options.flags:
            parsed.options.append((option, None))
        elif option in options.optional:
            _value(name, option, options.optional[option], attached or None, parsed)
            return
        elif option in options.values:
            if not attached and not rest:
                raise RefusedError(f"{name} {option} lacks its value")
            if attached and not attaches and not (attached.isascii() and attached.isdigit()):
                raise RefusedError(f"{name} {word}: the value of {option} belongs in a word of its own")
            _value(name, option, options.values[option], attached or _next(name, option, rest), parsed)
            return
        else:
            raise RefusedError(f"{name} {option} is not known to be read-only")


def _next(name: str, option: str, rest: list[str]) -> str:
    """The next word as a value. Some options of git are known to some of its commands only, and some take a value
    only behind `=`: what looks like an option there may be one.
    """
    if name.startswith("git ") and name != "git grep" and rest[0].startswith("-"):
        raise RefusedError(f"{name} {option} {rest[0]}: whether that is a value or an option is not certain")
    return rest.pop(0)


def _value(name: str, option: str, kind: str, value: str | None, parsed: ParsedArguments) -> None:
    parsed.options.append((option, value))
    if value is not None:
        _use(f"{name} {option}", kind, value, parsed)


def _use(where: str, kind: str, value: str, parsed: ParsedArguments) -> None:
    if kind == "number" and not _NUMBER.fullmatch(value):
        raise RefusedError(f"{where} takes a number, not {value!r}")
    if kind in ("read", "list", "rev"):
        parsed.uses.append((kind, value))


def _operands(name: str, program: Program, parsed: ParsedArguments) -> None:
    """Give each operand its kind; raises RefusedError where there are more than the program may have."""
    left = list(parsed.operands)
    for token in program.operands.split():
        kind, skipped, names = token.partition("!")
        if skipped and parsed.has(*names.split(",")):
            continue
        if kind.endswith("*"):
            for value in left:
                _use(name, kind[:-1], value, parsed)
            return
        if not left:
            break
        _use(name, kind.rstrip("?"), left.pop(0), parsed)
    if left:
        raise RefusedError(f"{name} with the operand {left[0]!r} is not known to be read-only")
