"""The parsers of argparse: the help pages, the arguments of the commands, and the whole command line as a table."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from codelet.errors import UsageError
from codelet.frontends.flags import COMMANDS, FLAGS, is_option, is_value
from codelet.setting_kinds import Setting
from codelet.settings import GROUPS, SETTINGS
from codelet.system.text.typed import whole_number

_EPILOG = """\
rarely needed options: codelet help options
exit status: 0 done, 2 usage, 3 provider failed, 4 a limit was reached, 5 incomplete,
6 a tool needed permission and no one could be asked, 70 a bug, 130/143/129 stopped by a signal"""
_RARE = (
    "compact-entries keep-last narrative handoff export-every export-archive snapshots reminders environment "
    "transport log-level debug-requests"
).split()
"""Options that the help page leaves to `codelet help options`."""
_OF_A_REVIEW = "model fallback_model api_base transport window max_tokens max_cost allow_unknown_cost timeout".split()


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Takes the terminal's width from COLUMNS, else from stdout, else 80: argparse would import shutil for it."""

    def __init__(self, prog: str) -> None:
        columns = whole_number(os.environ.get("COLUMNS", ""))
        with suppress(OSError):
            columns = columns or os.get_terminal_size(1).columns
        super().__init__(prog, width=(columns or 80) - 2)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that names what to do."""

    def __init__(self, **options: Any) -> None:
        ours: dict[str, Any] = {"formatter_class": _Formatter, "allow_abbrev": False}
        super().__init__(**(ours | options))

    def error(self, message: str) -> NoReturn:
        from codelet.frontends.mistakes import plain_message

        raise UsageError(f"{plain_message(message)}; see {self.prog} --help")


def print_help(name: str | None) -> None:
    """Print the help of the whole program, a page, or the options of a command. Raises UsageError for another name."""
    from codelet.frontends.terminal.help_page import print_page, topics

    if name in topics():
        print_page(name)
        if name in COMMANDS:
            print(f"\ncodelet {name} --help lists the options.")
        return
    if name and name != "options" and name not in COMMANDS:
        from codelet.system.text.spelling import did_you_mean

        known = dict.fromkeys((*COMMANDS, "options", *topics()))
        meant = did_you_mean(name, known, "codelet help {}") or f"; there are {', '.join(known)}"
        raise UsageError(f"there is no help on {name!r}{meant}")
    parser = command_parser(name) if name in COMMANDS else build_parser()
    if not name:
        for action in parser._actions:
            if any(option.removeprefix("--") in _RARE for option in action.option_strings):
                action.help = argparse.SUPPRESS
        parser.epilog = f"{_EPILOG}\npages (codelet help TOPIC): {', '.join(topics())}"
    parser.print_help()


def print_completion(form: str) -> None:
    """Print a shell's completion script."""
    from codelet.frontends.commands.shell_completion import completion_text

    print(completion_text(form, build_parser(COMMANDS)), end="")


def build_parser(commands: Iterable[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of the whole command line; only the named commands get their arguments."""
    parser = _Parser(
        prog="codelet",
        usage="codelet [options] [PROMPT]\n       codelet [options] -p PROMPT\n       codelet COMMAND [options]",
        description="Pair with a model on the code in this folder. Nothing is kept on disk unless you ask.",
        epilog=_EPILOG,
    )
    headings = {group: parser.add_argument_group(group.title, group.about) for group in GROUPS}
    for row in FLAGS:
        _add_flag(
            headings[row.group] if row.group else parser, row, default=None if row.name in SETTINGS else row.default
        )
    inner = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser, prog="codelet")
    for name, about in COMMANDS.items():
        own = inner.add_parser(name, help=about)
        if name in commands:
            _add_arguments(name, own)
    return parser


def command_parser(command: str) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    parser = _Parser(prog=f"codelet {command}")
    _add_arguments(command, parser)
    return parser


def option_names(parser: argparse.ArgumentParser) -> Iterable[str]:
    """Return the names of a parser's options."""
    return parser._option_string_actions


def unknown_option_of(
    parser: argparse.ArgumentParser, words: Sequence[str], path: str
) -> tuple[str, str, Iterable[str]] | None:
    """Return the first option that a command does not have, the command as written, and the options that it has.

    argparse takes the value of an unknown option for a command, so it cannot say which option is unknown.
    """
    known = option_names(parser)
    inner = next((each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction)), {})
    for place, word in enumerate(words, 1):
        if word == "--":
            return None
        if word in inner:
            return unknown_option_of(inner[word], words[place:], f"{path} {word}")
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        is_number = is_value(word) and place > 1 and is_option(words[place - 2])
        if is_option(word) and not is_number and name not in known:
            return name, path, known
    return None


def _add_flag(heading: argparse._ActionsContainer, row: Setting, *, default: object) -> None:
    """Add the flag of one row. Values are checked where all settings are, with the same words for each source."""
    options: dict[str, Any] = {"help": row.about, "default": default}
    if row.is_switch:
        options |= {"action": "store_const", "const": True}
    elif row.choices:
        options["choices"] = row.choices
    else:
        options |= {"action": "append" if row.may_repeat else "store", "metavar": row.metavar}
    if row.alone:
        options |= {"nargs": "?", "const": row.alone}
    heading.add_argument(*row.short.split(), row.flag, **options)


def _add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of one command, whose module is imported now."""
    match command:
        case "help":
            parser.add_argument("about", nargs="?", metavar="TOPIC|COMMAND")
        case "acp":
            about = "keep each session as an export in this folder, and let the editor list and load them"
            parser.add_argument("--sessions", metavar="DIR", help=about)
        case "demo":
            parser.add_argument("--keep", action="store_true", help="keep the demo's folder")
        case "doctor":
            parser.add_argument("--json", action="store_true", help="print one JSON object")
        case "profiles":  # a --trust before the command counts too
            about = "also the profiles of this project"
            parser.add_argument("--trust", action="store_true", default=argparse.SUPPRESS, help=about)
        case "mcp":
            inner = parser.add_subparsers(dest="mcp_command", metavar="check", required=True, prog="codelet mcp")
            check = inner.add_parser("check", help="start each server, list its tools, and end it")
            _add_flag(check, SETTINGS["mcp"], default=argparse.SUPPRESS)
            check.add_argument("--json", action="store_true", help="print one JSON object")
        case "policy":
            _add_policy_arguments(parser)
        case "audit":
            _add_audit_arguments(parser)
        case "sessions":
            from codelet.frontends.commands.session_commands import add_arguments

            add_arguments(parser)
        case "models":
            from codelet.frontends.commands.model_list import add_models

            add_models(parser)
        case "completion":
            from codelet.frontends.commands.shell_completion import add_completion_arguments

            add_completion_arguments(parser)
        case "review":
            from codelet.frontends.commands.review_arguments import add_review_arguments

            add_review_arguments(parser)
            shared = parser.add_argument_group("model and limits", "these, and -q, may also precede the word review")
            for name in _OF_A_REVIEW:
                _add_flag(shared, SETTINGS[name], default=argparse.SUPPRESS)
            about = "show no progress on stderr"
            shared.add_argument("-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help=about)


def _add_policy_arguments(policy: argparse.ArgumentParser) -> None:
    check = policy.add_subparsers(
        dest="policy_command", metavar="check", required=True, prog="codelet policy"
    ).add_parser("check", help="show the verdict on a command without running it")
    check.add_argument("shell_command", metavar="COMMAND", help="the command line, quoted as one word")
    check.add_argument("--mode", dest="check_mode", choices=SETTINGS["mode"].choices)
    check.add_argument(
        "--sandbox",
        dest="check_sandbox",
        choices=("auto", "off"),
        help="judge with the sandbox (auto) or without one (off)",
    )
    check.add_argument("--json", action="store_true", help="print one JSON object")


def _add_audit_arguments(audit: argparse.ArgumentParser) -> None:
    verify = audit.add_subparsers(
        dest="audit_command", metavar="verify", required=True, prog="codelet audit"
    ).add_parser("verify", help="find changed, removed, added or moved lines")
    verify.add_argument("file", metavar="FILE")
    verify.add_argument("--open", action="store_true", help="accept a session without its closing record")
    verify.add_argument("--expect", metavar="HASH", help="the last hash that an earlier run printed")
    verify.add_argument("--json", action="store_true", help="print one JSON object")
