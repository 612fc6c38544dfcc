"""`codelet completion SHELL`: prints a completion script, which shtab makes from the parsers, or the man page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from codelet import __version__

FORMS = ("bash", "zsh", "fish", "man")
_INSTALLED = {
    "bash": 'eval "$(codelet completion bash)" in ~/.bashrc, or into a file of bash-completion\'s folder',
    "zsh": "codelet completion zsh > a file _codelet in a folder of $fpath, before compinit",
    "fish": "codelet completion fish > ~/.config/fish/completions/codelet.fish",
    "man": "codelet completion man > a file man1/codelet.1 in a folder of $MANPATH",
}
_FILES = frozenset({"FILE", "TARGET", "PATH", "FORMAT[=FILE]", "DIR|URL", "FOLDER"})
"""The placeholders in the help for arguments that name a file."""

_HEAD = """\
.TH CODELET 1 "" "codelet {version}" "User Commands"
.SH NAME
codelet \\- pair with a model on the code in a folder
.SH SYNOPSIS
.nf
codelet [options] [PROMPT]
codelet [options] \\-p PROMPT
codelet COMMAND [options]
.fi
.SH DESCRIPTION
A coding REPL for the terminal: a model reads, edits, runs and explains the code in this folder. The same program
answers a prompt in a pipe and reviews changes. Nothing is kept on disk unless an option by name asks for it.
.SH OPTIONS
"""
_TAIL = """\
.SH EXIT STATUS
{exits}
.SH FILES
.TP
.I $XDG_CONFIG_HOME/codelet/config.toml
your settings, named as the options are, with underscores
.TP
.I .codelet/config.toml
a project's settings, read with \\-\\-trust
"""
_NOTHING = "\\&"
_EXITS = {
    0: "done; review: nothing at or above --fail-on",
    1: "review: findings at or above --fail-on",
    2: "usage or settings wrong",
    3: "the provider failed",
    4: "a limit was reached",
    5: "incomplete",
    6: "a tool needed permission and no one could be asked",
    70: "a bug in codelet",
    129: "hung up; 130 interrupted, 143 terminated",
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


def completion_text(form: str, parser: argparse.ArgumentParser) -> str:
    """Return the script for one shell, or the man page, for the command line that the parser reads."""
    if form == "man":
        exits = "\n".join(f".TP\n.B {status}\n{_roff(meaning)}" for status, meaning in _EXITS.items())
        return "".join(
            [_HEAD.format(version=_roff(__version__)), *_section(parser), ".SH COMMANDS\n", *_commands(parser)]
        ) + _TAIL.format(exits=exits)
    import shtab

    for each in (parser, *(own for _, own, _ in _inner(parser))):
        for action in each._actions:
            if not _FILES.isdisjoint([action.metavar, *str(action.metavar).split("|")]):
                vars(action)["complete"] = shtab.FILE
    return str(shtab.complete(parser, shell=form))


def _inner(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Yield each command inside a parser: how it is written, its parser and its help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                own = action.choices[choice.dest]
                yield f"{path}{choice.dest}", own, choice.help or ""
                yield from _inner(own, f"{path}{choice.dest} ")


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    for path, own, about in _inner(parser):
        takes = [each for each in own._positionals._group_actions if not isinstance(each, argparse._SubParsersAction)]
        words = " ".join(map(_value, takes))
        yield f".SS codelet {_roff(f'{path} {words}'.rstrip())}\n{_roff(about)}\n"
        yield from _section(own, inner=True)


def _section(parser: argparse.ArgumentParser, *, inner: bool = False) -> Iterator[str]:
    """Yield the options of a parser, those of the program itself under their headings."""
    for group in parser._action_groups:
        options = [action for action in group._group_actions if action.option_strings]
        if options and not inner:
            yield f".SS {_roff(group.title or '')}\n" + (f"{_roff(group.description)}\n" if group.description else "")
        for action in options:
            if inner and "--help" in action.option_strings:
                continue  # once for all of them, at the top
            names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in action.option_strings)
            value = f"\\fI{_roff(_value(action))}\\fR" if action.nargs != 0 else ""
            spelled = f"{names} [{value}]" if action.nargs == "?" else f"{names} {value}".rstrip()
            about = _roff(" ".join((action.help or "").split()))
            yield f".TP\n{spelled}\n{about or _NOTHING}\n"


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _roff(text: str) -> str:
    """Return a text in which nothing is a request or an escape."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
