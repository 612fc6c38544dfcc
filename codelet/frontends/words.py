"""Reads the command line before argparse does: which words are a command, a prompt or an option that nobody knows.

argparse takes the value of an unknown option for the command, and can only say that there is no such command.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from codelet.errors import UsageError


def read_words(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """What argparse is to read, and the bare words, joined: a prompt, None where there are none or a command.

    Raises UsageError that names an unknown option, or a word that is nearly a command.
    """
    commands = commands_of(parser)
    options: list[str] = []
    bare: list[str] = []
    rest = list(arguments)
    said = False  # whether the user said that the words are no commands
    while rest:
        word = rest.pop(0)
        if word == "--":
            bare += rest
            said = True
            break
        if not _is_option(word):
            if word in commands and not bare:
                _check(commands[word], rest, parser, word)
                return [*options, word, *rest], None
            bare.append(word)
            continue
        options.append(word)
        if _takes_value(parser, word, rest):
            value = rest.pop(0)
            # As one word with its option, a prompt is never taken for something else.
            options[-1:] = [f"--prompt={value}"] if word in ("-p", "--prompt") else [word, value]
    if len(bare) == 1 and not said and (near := _nearest(bare[0], commands)):
        raise UsageError(f"there is no command {bare[0]!r}; did you mean {near}? As a prompt: -p {bare[0]}")
    return options, " ".join(bare) if bare else None


def asked_format(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> str | None:
    """The value of `--output-format`, however wrong the rest of the command line is."""
    found = None
    rest = list(arguments)
    while rest and (word := rest.pop(0)) != "--":
        name, equals, value = word.partition("=")
        known = name in _options(parser)
        if known and not equals and _takes_value(parser, word, rest):
            value = rest.pop(0)
        if name == "--output-format" and value:
            found = value
    return found


def _check(parser: argparse.ArgumentParser, words: Sequence[str], main: argparse.ArgumentParser, path: str) -> None:
    """Raise UsageError for an option that the command does not have; `path` is the command as it was written."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return
        if _is_option(word):
            if name := _unknown(parser, word):
                _refuse(name, parser, main, path)
            if _takes_value(parser, word, rest):
                rest.pop(0)
        elif word in (inner := commands_of(parser)):
            _check(inner[word], rest, main, f"{path} {word}")
            return


def _refuse(name: str, parser: argparse.ArgumentParser, main: argparse.ArgumentParser, path: str) -> None:
    """Raise UsageError for an option that a command does not have, but perhaps the program."""
    if name in _options(main):
        raise UsageError(f"{name} is no option of {path}: options of the whole program stand before it")
    if near := _nearest(name, _options(parser)):
        raise UsageError(f"unknown option {name}; did you mean {near}?")
    if near := _nearest(name, _options(main)):
        raise UsageError(f"unknown option {name}; did you mean {near}? It stands before {path}")
    raise UsageError(f"unknown option {name}; codelet {path} --help lists those that there are")


def _is_option(word: str) -> bool:
    """Whether a word is meant as an option: a text that begins with a dash, such as a list, is not."""
    name = word.partition("=")[0]
    return len(word) > 1 and word.startswith("-") and not any(sign.isspace() for sign in name)


def _takes_value(parser: argparse.ArgumentParser, word: str, rest: Sequence[str]) -> bool:
    """Whether the next word is the option's value. Raises UsageError for an option that the parser does not know."""
    if name := _unknown(parser, word):
        commands = commands_of(parser)
        for command in (later for later in rest if later in commands):
            if own := name if name in _options(commands[command]) else _nearest(name, _options(commands[command])):
                raise UsageError(f"unknown option {name}; did you mean codelet {command} {own}?")
        near = _nearest(name, _options(parser))
        raise UsageError(f"unknown option {name}; " + (f"did you mean {near}?" if near else "see codelet --help"))
    if word.startswith("--"):
        action = None if "=" in word else _options(parser)[word]
    else:  # -qm NAME is -q -m NAME; in -mNAME the value is there already
        action = _options(parser)[f"-{word[-1]}"] if _letters(parser, word) == len(word) - 1 else None
    if action is None or not rest or action.nargs == 0:
        return False
    return action.nargs != "?" or not _is_option(rest[0])


def _unknown(parser: argparse.ArgumentParser, word: str) -> str:
    """The option in this word that the parser does not know, or ""."""
    known = _options(parser)
    name = word.partition("=")[0]
    if name in known:
        return ""
    if word.startswith("--"):
        return name
    letters = _letters(parser, word)
    return f"-{word[1 + letters]}" if letters < len(word) - 1 and not _value_after(parser, word, letters) else ""


def _letters(parser: argparse.ArgumentParser, word: str) -> int:
    """How many letters of `-abc` are options, up to one that takes the rest of the word as its value."""
    known = _options(parser)
    for number, letter in enumerate(word[1:]):
        action = known.get(f"-{letter}")
        if action is None:
            return number
        if action.nargs != 0:
            return number + 1
    return len(word) - 1


def _value_after(parser: argparse.ArgumentParser, word: str, letters: int) -> bool:
    """Whether the last of so many letters takes what follows it in the word as its value."""
    return letters > 0 and _options(parser)[f"-{word[letters]}"].nargs != 0


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return parser._option_string_actions


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands inside this one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    from codelet.text.spelling import nearest  # for mistakes only

    names = list(known)
    longer = [name for name in names if word.startswith("--") and len(word) > 4 and name.startswith(word)]
    return nearest(word, names) or next(iter(longer), None)
