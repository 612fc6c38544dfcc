"""The command line: arguments to a namespace."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from codelet.errors import UsageError
from codelet.setting_kinds import Setting
from codelet.settings import GROUPS, ONE_SHOT, PERMISSIONS, SETTINGS

_EPILOG = """\
exit status: 0 done, 2 usage, 3 provider failed, 4 a limit was reached, 5 incomplete,
6 a tool needed permission and nobody could be asked, 70 a bug, 130/143/129 stopped by a signal"""


FROM_PIPE = "-"
"""What `--prompt` is where the prompt is what comes through the pipe."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Knows the terminal's width by itself: argparse would import shutil for it, and formats at every argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """Columns of the terminal: as COLUMNS says, as stdout says, else 80."""
    named = os.environ.get("COLUMNS", "")
    if named.isdigit() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that names what to do."""

    def __init__(self, **options: Any) -> None:
        ours: dict[str, Any] = {"formatter_class": _Formatter, "allow_abbrev": False}
        super().__init__(**(ours | options))

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{_helpful(message)}; see {self.prog} --help")


def _helpful(message: str) -> str:
    """The message of argparse, with what to do where people coming from other programs go wrong."""
    if message.startswith("unrecognized arguments: "):
        words = message.removeprefix("unrecognized arguments: ")
        return f"nothing can be made of: {words}; a prompt that begins with a command's name is given with -p"
    return message


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line as a namespace. Raises UsageError that names what is wrong; SystemExit after --help.

    `prompt` is the prompt, however it was given, and `bare_prompt` says that it was given without -p.
    """
    from codelet.frontends.words import read_words

    parser = build_parser(arguments)
    read, prompt = read_words(parser, arguments)
    options = parser.parse_args(read)
    options.bare_prompt = prompt is not None
    if prompt is not None:
        if options.prompt is not None:
            raise UsageError("two prompts: give one, with -p or without")
        options.prompt = prompt
    return options


def asked_for(arguments: Sequence[str]) -> str | None:
    """The JSON format that was asked for, if one was, however wrong the rest of the command line is."""
    from codelet.frontends.words import asked_format

    form = asked_format(build_parser(), arguments)
    return form if form in ("json", "stream-json") else None


def print_help(command: str | None) -> None:
    """Print the help of the whole program, or of one command. Raises UsageError if there is no such command."""
    from codelet.frontends.words import commands_of

    parser = build_parser([command] if command else [])
    known = commands_of(parser)
    if command and command not in known:
        raise UsageError(f"there is no command {command!r}, only {', '.join(known)}")
    (known[command] if command else parser).print_help()


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of the whole command line; `arguments` tell which command's own parsers are worth making."""
    parser = _Parser(
        prog="codelet",
        usage="codelet [options] [PROMPT]\n       codelet [options] -p PROMPT\n       codelet COMMAND [options]",
        description="Pair with a model on the code in this folder. Nothing is kept on disk unless you ask.",
        epilog=_EPILOG,
    )
    parser.add_argument("-v", "-V", "--version", action="store_true", help="print the version and exit")
    parser.add_argument(
        *("-p", "--prompt"),
        nargs="?",
        const=FROM_PIPE,
        metavar="PROMPT",
        help="answer one prompt and exit; a pipe is added to it, or is the prompt. Without -p, a PROMPT opens the"
        " session with it where stdin and stdout are a terminal, and is answered likewise elsewhere",
    )
    _add_settings(parser)
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    # Naming the program here and below keeps argparse from formatting a usage line for it.
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser, prog="codelet")
    _add_commands(commands)
    if "sessions" in arguments:
        from codelet.frontends.commands.sessions import add_arguments

        add_arguments(commands)
    else:  # for --help
        commands.add_parser("sessions", help="look at the exports in a folder or a Redis database")
    return parser


def _add_commands(commands: argparse._SubParsersAction[_Parser]) -> None:
    about = commands.add_parser("help", help="this page, or that of one command")
    about.add_argument("about", nargs="?", metavar="COMMAND")
    demo = commands.add_parser("demo", help="watch a recorded model fix a small project, without any key")
    demo.add_argument("--keep", action="store_true", help="keep the demo's folder")
    doctor = commands.add_parser("doctor", help="show what codelet finds on this machine")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    policy = commands.add_parser("policy", help="explain what the policy decides")
    check = policy.add_subparsers(
        dest="policy_command", metavar="check", required=True, prog="codelet policy"
    ).add_parser("check", help="say what would happen to a command, without running it")
    check.add_argument("shell_command", nargs="?", metavar="COMMAND", help="the command line, quoted as one word")
    check.add_argument("--cases", metavar="FILE", help="judge the cases of a JSON lines file instead")
    check.add_argument("--mode", dest="check_mode", choices=SETTINGS["mode"].choices)
    check.add_argument("--json", action="store_true", help="one JSON object a line")
    _add_audit(commands)


def _add_audit(commands: argparse._SubParsersAction[_Parser]) -> None:
    audit = commands.add_parser("audit", help="check an audit file")
    verify = audit.add_subparsers(
        dest="audit_command", metavar="verify", required=True, prog="codelet audit"
    ).add_parser("verify", help="find changed, removed, added and moved lines")
    verify.add_argument("file", metavar="FILE")
    verify.add_argument("--expect", metavar="HASH", help="the last hash, as an earlier run gave it")
    verify.add_argument("--json", action="store_true", help="print one JSON object")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """The flags of the settings, under their headings, with those that set nothing but what this run does."""
    for group in GROUPS:
        heading = parser.add_argument_group(group.title, group.about)
        if group is ONE_SHOT:
            heading.add_argument(
                "--output-format",
                choices=("text", "json", "stream-json"),
                help="text (default), one JSON object, or one event a line",
            )
        for setting in SETTINGS.values():
            if setting.group is group:
                _add_setting(heading, setting)
        if group is ONE_SHOT:
            heading.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")
        elif group is PERMISSIONS:
            heading.add_argument("--trust", action="store_true", help="read this project's .codelet/config.toml")


def _add_setting(heading: argparse._ArgumentGroup, setting: Setting) -> None:
    """The flag of one setting. Its value is checked where all settings are, with the same words for each source."""
    flags = (setting.short, setting.flag) if setting.short else (setting.flag,)
    options: dict[str, Any] = {"help": setting.about}
    if setting.is_switch:
        options |= {"action": "store_const", "const": True}
    elif setting.choices:
        options["choices"] = setting.choices
    else:
        options |= {"action": "append" if setting.adds_up else "store", "metavar": setting.metavar}
    heading.add_argument(*flags, **options)
