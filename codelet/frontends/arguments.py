"""The command line: arguments to a namespace."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from codelet.errors import UsageError

_EPILOG = """\
exit status: 0 done, 2 usage, 3 provider failed, 4 a limit was reached, 5 incomplete,
6 a tool needed permission and nobody could be asked, 70 a bug, 130/143/129 stopped by a signal"""


FROM_PIPE = "-"
"""What `--prompt` is where the prompt is what comes through the pipe."""
MODES = ("read-only", "ask", "auto-edit", "auto")


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
    _add_output(parser.add_argument_group("one shot"))
    _add_model(parser.add_argument_group("model"))
    _add_prompt(parser.add_argument_group("prompt and tools"))
    _add_permissions(parser.add_argument_group("permissions"))
    _add_export(
        parser.add_argument_group("keeping a session", "TARGET is a file or redis://HOST[:PORT][/DATABASE]/NAME")
    )
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
    check.add_argument("--mode", dest="check_mode", choices=MODES)
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


def _add_export(group: argparse._ArgumentGroup) -> None:
    flag = partial(group.add_argument, action="store_const", const=True)
    group.add_argument("--export", metavar="TARGET", help="save the session there after every step and at the end")
    group.add_argument("--export-every", metavar="N", help="save after every N-th step only")
    flag("--export-archive", help="save what compaction took out too")
    group.add_argument("--snapshots", metavar="FOLDER", help="also keep a copy a minute there, the newest ten")
    group.add_argument("--resume", metavar="TARGET", help="go on with a saved session")
    flag("--force", help="replace what stands at --export's target")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--output-format",
        choices=("text", "json", "stream-json"),
        help="text (default), one JSON object, or one event a line",
    )
    group.add_argument("--max-turns", metavar="N", help="at most N model requests")
    group.add_argument("--max-tokens", metavar="N", help="at most N output tokens in all")
    group.add_argument("--max-cost", metavar="USD", help="stop at this cost, where prices are known")
    group.add_argument("--timeout", metavar="SECONDS", help="stop after this time")
    group.add_argument(
        "--allow-cut", action="store_const", const=True, help="input that was not read to its end is no failure"
    )
    group.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-m", "--model", metavar="NAME", help="as litellm spells it, such as anthropic/claude-sonnet-5-5"
    )
    group.add_argument(
        "--api-base", metavar="URL", help="address of a server that speaks OpenAI's or Anthropic's protocol"
    )
    group.add_argument("--transport", choices=("auto", "native", "litellm"), help="which way to the model (auto)")
    group.add_argument("--budget", metavar="N", help="let the list reach at most N tokens")
    group.add_argument("--compact", choices=("auto", "off"), help="make a list that is too long smaller (auto)")
    group.add_argument("--compact-at", metavar="PERCENT", help="compact when this much of the budget is used")
    group.add_argument("--compact-entries", metavar="N", help="compact also when there are more than N messages")
    group.add_argument("--keep-last", metavar="N", help="turns that a compaction leaves as they are (3)")
    group.add_argument(
        "--narrative", action="store_const", const=True, help="let the model add decisions to a compaction"
    )
    group.add_argument("--window", metavar="N", help="the model's window in tokens, where it is not known")


def _add_prompt(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--system-prompt", metavar="TEXT", help="instead of codelet's own")
    group.add_argument("--append-system-prompt", metavar="TEXT", help="after codelet's own")
    group.add_argument("--tools", metavar="NAMES", help="only these, separated by commas; '' for none")
    group.add_argument("--bare", action="store_const", const=True, help="no reminders, no instruction files")
    group.add_argument(
        "--reminders",
        choices=("tail", "prepend"),
        help="the changing ones last (tail), or all in front: then no cache outlasts a turn",
    )


def _add_permissions(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--mode", choices=MODES, help="what runs unasked (ask)")
    group.add_argument("--allow", metavar="RULE", action="append", help="such as 'bash(git log *)' or 'edit(src/**)'")
    group.add_argument("--ask", metavar="RULE", action="append", help="the same; asks, whatever is allowed")
    group.add_argument("--deny", metavar="RULE", action="append", help="the same; wins over both")
    group.add_argument("-y", "--yes", action="store_const", const=True, help="answer every question with yes")
    group.add_argument("--ask-timeout", metavar="SECONDS", help="a question not answered in this time means no")
    group.add_argument(
        "--sandbox", choices=("auto", "on", "off"), help="confine commands: in mode auto only (auto), always, never"
    )
    group.add_argument(
        "--sandbox-network", action="store_const", const=True, help="leave confined commands the network"
    )
    group.add_argument("--audit", metavar="FILE", help="append each verdict, answer, call and change to a file")
    group.add_argument("--raw", action="store_const", const=True, help="do not mask keys of the environment")
    group.add_argument("--trust", action="store_true", help="read this project's .codelet/config.toml")
