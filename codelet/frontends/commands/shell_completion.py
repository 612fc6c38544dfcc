"""`codelet completion SHELL`: prints a completion script, which shtab makes from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

FORMS = ("bash", "zsh", "fish")
_INSTALLED = {
    "bash": 'eval "$(codelet completion bash)" in ~/.bashrc, or into a file of bash-completion\'s folder',
    "zsh": "codelet completion zsh > a file _codelet in a folder of $fpath, before compinit",
    "fish": "codelet completion fish > ~/.config/fish/completions/codelet.fish",
}
_FILES = frozenset({"FILE", "TARGET", "PATH", "FORMAT[=FILE]", "DIR|URL", "FOLDER"})
"""The placeholders in the help for arguments that name a file."""


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `codelet completion` takes to its parser."""
    parser.add_argument("form", choices=FORMS, metavar="|".join(FORMS), help="the shell whose script is printed")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "\n".join(
        ["where each goes:", *(f"  {form:<5} {where}" for form, where in _INSTALLED.items())]
    )


def completion_text(form: str, parser: argparse.ArgumentParser) -> str:
    """Return the script for one shell, for the command line that the parser reads."""
    import shtab

    for each in (parser, *_inner(parser)):
        for action in each._actions:
            if not _FILES.isdisjoint([action.metavar, *str(action.metavar).split("|")]):
                vars(action)["complete"] = shtab.FILE
    return str(shtab.complete(parser, shell=form))


def _inner(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of each command inside a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for own in action.choices.values():
                yield own
                yield from _inner(own)
