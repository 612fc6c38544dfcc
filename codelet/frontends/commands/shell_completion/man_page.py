"""The man page, in the macros that man and mandoc read."""

from __future__ import annotations

from codelet import __version__
from codelet.frontends.commands.shell_completion.command_table import CommandTable, Parameter

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
_EXITS = (
    (0, "done; review: nothing at or above \\-\\-fail\\-on"),
    (1, "review: findings at or above \\-\\-fail\\-on"),
    (2, "usage or settings wrong"),
    (3, "the provider failed"),
    (4, "a limit was reached"),
    (5, "incomplete"),
    (6, "a tool needed permission and nobody could be asked"),
    (70, "a bug in codelet"),
    (129, "hung up; 130 interrupted, 143 terminated"),
)


def man_page(table: CommandTable) -> str:
    """The page."""
    parts = [_HEAD.format(version=_roff(__version__)), ".SH OPTIONS\n", _options(table)]
    parts.append(".SH COMMANDS\n")
    parts += [_command(command) for command in table.every() if command.path]
    exits = "\n".join(f".TP\n.B {status}\n{meaning}" for status, meaning in _EXITS)
    return "".join([*parts, _TAIL.format(exits=exits)])


def _command(command: CommandTable) -> str:
    words = " ".join(word.value for word in command.words)
    head = f".SS codelet {_roff(command.place)} {_roff(words)}".rstrip()
    return f"{head}\n{_roff(command.about)}\n{_options(command)}"


def _options(command: CommandTable) -> str:
    lines: list[str] = []
    for heading in command.headings:
        if not command.path:
            lines += [f".SS {_roff(heading.title)}", *([_roff(heading.about)] if heading.about else [])]
        for option in heading.options:
            if command.path and "--help" in option.names:
                continue  # once for all of them, at the top
            lines += [".TP", _spelled(option), _roff(option.about) or "\\&"]
    return "".join(f"{line}\n" for line in lines)


def _spelled(option: Parameter) -> str:
    names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in option.names)
    value = f"\\fI{_roff(option.value)}\\fR"
    if not option.value:
        return names
    return f"{names} [{value}]" if option.optional else f"{names} {value}"


def _roff(text: str) -> str:
    """A text in which nothing is a request or an escape."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
