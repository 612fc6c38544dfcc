"""Find the commands that other commands start: behind wrappers, in `sh -c` strings, after `find -exec`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from codelet.safety.tables import word_list

SHELLS = frozenset(word_list("shell", "wrappers", "shells"))
_OPERAND_FIRST = frozenset(word_list("shell", "wrappers", "operand first"))
_WRAPPERS = _OPERAND_FIRST | frozenset(word_list("shell", "wrappers", "plain"))
_CHANGES_SHELL = frozenset(word_list("shell", "builtins"))
FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def unwrapped(words: Sequence[str]) -> Iterator[list[str]]:
    """The command itself and every command that it may start as a wrapper, each once; wrappers can be nested."""
    waiting, seen = [0] if words else [], set[int]()
    while waiting:
        if (start := waiting.pop()) not in seen:
            seen.add(start)
            command = list(words[start:])
            yield command
            waiting += [start + place for place in reversed(_started(command))]


def _started(words: Sequence[str]) -> list[int]:
    """The positions at which a command may start that this one runs.

    The word after a wrapper's option may be its value or the command: both are tried.
    """
    name = base_name(words[0])
    if name == "find":
        return [index for index, word in enumerate(words[:-1], 1) if word in FIND_RUNS]
    places: list[int] = []
    if name not in _WRAPPERS:
        return places
    maybe_value = name in _OPERAND_FIRST
    for index, word in enumerate(words[1:], 1):
        if word.startswith("-"):
            maybe_value = True
        elif not re.match(r"\w+=|\d+(?:\.\d+)?[smhd]?$", word):
            places.append(index)
            if not maybe_value:
                break
            maybe_value = False
    return places


def nested_scripts(words: Sequence[str]) -> Iterator[str]:
    """The command lines in the words of a shell, `eval` and the like."""
    for inner in unwrapped(words):
        name = base_name(inner[0]) if inner else ""
        if name == "eval":
            yield " ".join(inner[1:])
        elif name == "env":
            for index, word in enumerate(inner[1:], 1):
                if found := re.fullmatch(r"(?:-\w*?S|--s\w*-?\w*=)(.+)", word, re.DOTALL):
                    yield " ".join((found[1], *inner[index + 1 :]))
                elif re.fullmatch(r"-\w*S|--s[\w-]*", word):
                    yield " ".join(inner[index + 1 :])
        elif name in SHELLS or name == "su":
            for index, word in enumerate(inner[1:-1], 1):
                if re.fullmatch(r"-\w*c|--command", word):
                    yield inner[index + 1]
        elif name in ("ssh", "watch", "script", "flock") and len(inner) > 1:
            yield inner[-1]


_RUN_IN_PLACE = frozenset(("builtin", "command", "time"))


def changes_shell(words: Sequence[str]) -> bool:
    """Return whether a command can change its shell, and so the commands after it."""
    rest = list(words)
    while rest and rest[0] in _RUN_IN_PLACE:
        rest.pop(0)
        while rest and rest[0].startswith("-"):
            rest.pop(0)
    return not _CHANGES_SHELL.isdisjoint(rest[:1])


def base_name(word: str) -> str:
    """The program's name without its folder, in lower case."""
    return word.rpartition("/")[2].lower()
