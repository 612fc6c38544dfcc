"""`codelet completion SHELL`: prints a completion script, or the man page, made from the parsers' own table."""

from __future__ import annotations

import argparse
from importlib import import_module

from codelet.frontends.commands.shell_completion.command_table import CommandTable, table_of
from codelet.settings import SETTINGS

FORMS = ("bash", "zsh", "fish", "man")
_INSTALLED = {
    "bash": 'eval "$(codelet completion bash)" in ~/.bashrc, or into a file of bash-completion\'s folder',
    "zsh": "codelet completion zsh > a file _codelet in a folder of $fpath, before compinit",
    "fish": "codelet completion fish > ~/.config/fish/completions/codelet.fish",
    "man": "codelet completion man > a file man1/codelet.1 in a folder of $MANPATH",
}


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `codelet completion` takes to its parser."""
    parser.add_argument(
        "form", choices=FORMS, metavar="|".join(FORMS), help="the shell whose script is printed, or man for the page"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "\n".join(
        ["where each goes:", *(f"  {form:<5} {where}" for form, where in _INSTALLED.items())]
    )


def run_completion(form: str, parser: argparse.ArgumentParser) -> int:
    """Print the script or the page for the command line that the parser reads."""
    alone = frozenset(setting.flag for setting in SETTINGS.values() if setting.alone)
    print(completion_text(form, table_of(parser, alone)), end="")
    return 0


def completion_text(form: str, table: CommandTable) -> str:
    """The script for one shell, or the man page."""
    name = "man_page" if form == "man" else f"{form}_script"
    made: str = getattr(import_module(f"{__name__}.{name}"), name)(table)
    return made
