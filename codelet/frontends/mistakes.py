"""What is said of a command line that is wrong: what was probably meant, or where to look.

It is imported for mistakes only, and for a bare word, which may be one.
"""

from __future__ import annotations

from collections.abc import Iterable

from codelet.errors import UsageError
from codelet.system.text.spelling import nearest


def helpful(message: str) -> str:
    """The message of argparse, with what to do where people coming from other programs go wrong."""
    if message.startswith("unrecognized arguments: "):
        words = message.removeprefix("unrecognized arguments: ")
        return f"not understood: {words}; a prompt that begins with a command's name is given with -p"
    return message


def near_command(word: str, commands: Iterable[str]) -> UsageError | None:
    """The mistake in a word that is nearly a command; None in any other word."""
    near = _nearest(word, commands)
    return UsageError(f"there is no command {word!r}; did you mean {near}? As a prompt: -p {word}") if near else None


def unknown_option(name: str, known: Iterable[str], later: Iterable[tuple[str, Iterable[str]]]) -> UsageError:
    """The mistake in an option that the program lacks; `later` are the commands behind it, each with its options."""
    for command, options in later:
        own = list(options)
        if near := name if name in own else _nearest(name, own):
            return UsageError(f"unknown option {name}; did you mean codelet {command} {near}?")
    near = _nearest(name, known)
    return UsageError(f"unknown option {name}; " + (f"did you mean {near}?" if near else "see codelet --help"))


def unknown_to_command(name: str, path: str, own: Iterable[str], main: Iterable[str]) -> UsageError:
    """The mistake in an option that a command lacks, but perhaps not the program; `path` is the command as written."""
    of_program = list(main)
    if name in of_program:
        return UsageError(f"{name} is no option of {path}: options of the whole program stand before it")
    if near := _nearest(name, own):
        return UsageError(f"unknown option {name}; did you mean {near}?")
    if near := _nearest(name, of_program):
        return UsageError(f"unknown option {name}; did you mean {near}? It stands before {path}")
    return UsageError(f"unknown option {name}; codelet {path} --help lists them")


def _nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    names = list(known)
    longer = [name for name in names if word.startswith("--") and len(word) > 4 and name.startswith(word)]
    return nearest(word, names) or next(iter(longer), None)
