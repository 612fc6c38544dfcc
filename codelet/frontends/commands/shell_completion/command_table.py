"""The command line as a table: what the completion scripts and the man page are made of.

It is read from the parsers themselves, so that an option that is added there is in all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from codelet.record import Record

_FILES = ("FILE", "TARGET", "PATH", "FORMAT[=FILE]", "DIR|URL", "FOLDER")


class Parameter(Record, kw_only=True):
    """An option, or a word without a dash where `names` is empty.

    `value` is what stands after it, empty for a switch; `choices` are the values that there are; `optional` says that
    the value may be left out; `files` that it names a file or a folder.
    """

    names: tuple[str, ...]
    about: str
    value: str = ""
    choices: tuple[str, ...] = ()
    optional: bool = False
    files: bool = False

    @property
    def takes_word(self) -> bool:
        """Whether the next word is its value."""
        return bool(self.value) and not self.optional


class Heading(Record):
    """Options under one title, with a line below it."""

    title: str
    about: str
    options: tuple[Parameter, ...]


class CommandTable(Record, kw_only=True):
    """One command: `path` is how it is written after `codelet`, empty for the program itself."""

    path: tuple[str, ...]
    about: str
    headings: tuple[Heading, ...]
    words: tuple[Parameter, ...]
    inner: tuple[CommandTable, ...]

    @property
    def place(self) -> str:
        """The path as one text."""
        return " ".join(self.path)

    @property
    def spelled(self) -> str:
        """The path of the command outside it, a space, and its own name: how a script recognizes it."""
        return f"{' '.join(self.path[:-1])} {self.path[-1]}"

    @property
    def taking(self) -> tuple[str, ...]:
        """The names of the options that take the next word."""
        return tuple(name for option in self.options if option.takes_word for name in option.names)

    @property
    def options(self) -> tuple[Parameter, ...]:
        """All options, in the order of the help page."""
        return tuple(option for heading in self.headings for option in heading.options)

    def every(self) -> Iterator[CommandTable]:
        """The command and all inside it."""
        yield self
        for command in self.inner:
            yield from command.every()


def table_of(
    parser: argparse.ArgumentParser, alone: frozenset[str], path: tuple[str, ...] = (), about: str = ""
) -> CommandTable:
    """The table of a parser and of those inside it. The options in `alone` take no word after them, only `=VALUE`."""
    headings, words, inner = [], [], []
    for group in parser._action_groups:
        options = []
        for action in group._group_actions:
            if isinstance(action, argparse._SubParsersAction):
                told = {choice.dest: choice.help or "" for choice in action._choices_actions}
                inner += [
                    table_of(own, alone, (*path, name), told.get(name, "")) for name, own in action.choices.items()
                ]
            elif action.option_strings:
                options.append(_word(action, alone))
            else:
                words.append(_word(action, alone))
        if options:
            headings.append(Heading(group.title or "", group.description or "", tuple(options)))
    return CommandTable(path=path, about=about, headings=tuple(headings), words=tuple(words), inner=tuple(inner))


def _word(action: argparse.Action, alone: frozenset[str]) -> Parameter:
    switch = action.nargs == 0
    choices = tuple(str(choice) for choice in action.choices or ())
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    value = "" if switch else metavar or ("|".join(choices) if choices else action.dest.upper())
    return Parameter(
        names=tuple(action.option_strings),
        about=" ".join((action.help or "").split()),
        value=value,
        choices=choices,
        optional=action.nargs == "?" or not alone.isdisjoint(action.option_strings),
        files=any(name in value.split("|") or value == name for name in _FILES),
    )
