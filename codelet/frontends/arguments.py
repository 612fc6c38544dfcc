"""The command line, read from the rows of the settings.

argparse makes the help pages (`parsers`) and reads the arguments of commands. It does not read the program's own
options: importing it and adding every flag takes a twentieth of the time to the first request.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from codelet.errors import UsageError
from codelet.frontends.flags import COMMANDS, FLAGS, HELP, NAMED, is_option, is_value
from codelet.setting_kinds import Setting
from codelet.settings import SETTINGS

if TYPE_CHECKING:
    import argparse


def parse_command_line(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line as a namespace. Raises UsageError, which names the mistake; SystemExit after --help.

    `prompt` is the prompt, given with -p or without; `bare_prompt`: given without.
    """
    read: dict[str, object] = {row.name: None if row.name in SETTINGS else row.default for row in FLAGS}
    read |= {"command": None, "bare_prompt": False}
    bare: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":  # the user says that no word after it is a command
            bare += rest
            break
        if is_option(word):
            if bare and word in ("-h", "--help"):
                _refuse_near_command(bare)
            _read_option(word, rest, read, bare)
        elif word in COMMANDS and not bare:
            _read_command(word, rest, read)
            break
        else:
            bare.append(word)
    else:
        if bare:
            _refuse_near_command(bare)
    if (target := read.pop("session")) is not None:
        if read["export"] is not None or read["resume"] is not None:
            raise UsageError("--session TARGET is --export TARGET --resume TARGET: give one or the other")
        read["export"] = read["resume"] = target
    if bare:
        if read["prompt"] is not None:
            raise UsageError("two prompts: give one, with -p or without")
        read |= {"prompt": " ".join(bare), "bare_prompt": True}
    return cast("argparse.Namespace", SimpleNamespace(**read))  # has the same attributes; argparse is not imported


def requested_json(arguments: Sequence[str]) -> str | None:
    """Return the JSON format that was requested, however wrong the rest of the command line is."""
    found = None
    words = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == "--output-format":
            found = value if equals else following
    return found if found in ("json", "stream-json") else None


def _read_option(word: str, rest: list[str], read: dict[str, object], bare: Sequence[str]) -> None:
    """Read one word of options, such as --model=x or -qmx, and the value after it."""
    name, equals, value = word.partition("=")
    if name in NAMED:
        _read_flag(NAMED[name], name, value if equals else None, rest, read)
        return
    for place, letter in enumerate(word[1:], 2):
        row = None if word.startswith("--") else NAMED.get(f"-{letter}")
        if row is None:
            if bare:
                _refuse_near_command(bare)
            _refuse_option(name if word.startswith("--") else f"-{letter}", rest)
        elif not row.is_switch:
            _read_flag(row, f"-{letter}", word[place:] or None, rest, read)
            return
        else:
            _read_switch(row, read)


def _read_switch(row: Setting, read: dict[str, object]) -> None:
    read[row.name] = True
    if row is HELP:
        from codelet.frontends.parsers import print_help

        print_help(None)
        raise SystemExit(0)


def _read_flag(row: Setting, flag: str, value: str | None, rest: list[str], read: dict[str, object]) -> None:
    """Read the flag of one row, whose value is attached to it, or is the first word of the rest."""
    if row.is_switch:
        if value is not None:
            raise UsageError(f"{flag} takes no value; see codelet --help")
        _read_switch(row, read)
        return
    if value is None:
        if not row.alone:
            follows = bool(rest) and is_value(rest[0])
        else:
            follows = bool(rest) and (rest[0] in row.choices if row.choices else not is_option(rest[0]))
        if not follows and not row.alone:
            from codelet.frontends.mistakes import missing_value

            raise missing_value(row.flag)
        value = rest.pop(0) if follows else row.alone
    if row.choices and value not in row.choices:
        from codelet.frontends.mistakes import invalid_choice

        raise invalid_choice(row.flag, value, row.choices)
    before = read[row.name]
    read[row.name] = [*(before if isinstance(before, list) else ()), value] if row.may_repeat else value


def _read_command(command: str, rest: list[str], read: dict[str, object]) -> None:
    """Read the arguments of a command."""
    from codelet.frontends.parsers import command_parser, unknown_option_of

    parser = command_parser(command)
    if unknown := unknown_option_of(parser, rest, command):
        from codelet.frontends.mistakes import unknown_to_command

        raise unknown_to_command(*unknown, NAMED)
    # The words of a review can come between its options; a parser with subcommands cannot be read that way.
    parse = parser.parse_intermixed_args if command == "review" else parser.parse_args
    read |= vars(parse(rest)) | {"command": command}


def _refuse_near_command(bare: Sequence[str]) -> None:
    """Raise UsageError for a word that is nearly a command, and for a command of another program."""
    from codelet.frontends.mistakes import near_command, peer_command

    mistake = peer_command(bare) or (near_command(bare[0], COMMANDS) if len(bare) == 1 else None)
    if mistake is not None:
        raise mistake


def _refuse_option(name: str, rest: Sequence[str]) -> None:
    """Raise UsageError for an unknown option; it may be one of a command that follows."""
    from codelet.frontends.mistakes import unknown_option
    from codelet.frontends.parsers import command_parser, option_names

    raise unknown_option(name, NAMED, [(word, option_names(command_parser(word))) for word in rest if word in COMMANDS])
