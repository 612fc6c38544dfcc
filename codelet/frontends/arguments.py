"""The command line: arguments to a namespace.

The words are looked at before argparse reads them: it takes the value of an unknown option for the command, and can
only say that there is no such command.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from codelet.errors import UsageError
from codelet.frontends.plain_arguments import FROM_PIPE, OUTPUT_FORMATS
from codelet.setting_kinds import Setting
from codelet.settings import GROUPS, KEEPING, ONE_SHOT, PERMISSIONS, SETTINGS
from codelet.system.text.typed import whole_number

_EPILOG = """\
exit status: 0 done, 2 usage, 3 provider failed, 4 a limit was reached, 5 incomplete,
6 a tool needed permission and nobody could be asked, 70 a bug, 130/143/129 stopped by a signal"""


_ALONE = {setting.flag: f"{setting.flag}={setting.alone}" for setting in SETTINGS.values() if setting.alone}
"""Flags that mean something by themselves, and take no word after them."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Knows the terminal's width by itself: argparse would import shutil for it, and formats at every argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """Columns of the terminal: as COLUMNS says, as stdout says, else 80."""
    if named := whole_number(os.environ.get("COLUMNS", "")):
        return named
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
        from codelet.frontends.mistakes import helpful

        raise UsageError(f"{helpful(message)}; see {self.prog} --help")


def parse_command_line(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line as a namespace. Raises UsageError that names what is wrong; SystemExit after --help.

    `prompt` is the prompt, however it was given, and `bare_prompt` says that it was given without -p.
    """
    parser = build_parser(arguments)
    read, prompt = _read_words(parser, arguments)
    options = parser.parse_args(read)
    options.bare_prompt = prompt is not None
    if options.continued is not None:
        if options.export is not None or options.resume is not None:
            raise UsageError("--continue TARGET is --export TARGET --resume TARGET: give one or the other")
        options.export = options.resume = options.continued
    if prompt is not None:
        if options.prompt is not None:
            raise UsageError("two prompts: give one, with -p or without")
        options.prompt = prompt
    return options


def asked_for(arguments: Sequence[str]) -> str | None:
    """The JSON format that was asked for, if one was, however wrong the rest of the command line is."""
    form = _asked_format(build_parser(), arguments)
    return form if form in ("json", "stream-json") else None


def print_help(command: str | None) -> None:
    """Print the help of the whole program, or of one command. Raises UsageError if there is no such command."""
    if command and command not in _COMMANDS:
        raise UsageError(f"there is no command {command!r}, only {', '.join(_COMMANDS)}")
    parser = build_parser([command or "--help"])
    (_commands_of(parser)[command] if command else parser).print_help()


def whole_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line, each command with all its options."""
    return build_parser(tuple(_COMMANDS))


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of the whole command line; `arguments` tell which commands have parsers that are worth making."""
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
        help="answer one prompt and exit; piped input is added to it, or is the prompt. Without -p, PROMPT opens a"
        " session if stdin and stdout are a terminal, and is answered like this otherwise",
    )
    _add_settings(parser)
    parser.add_argument("--debug", action="store_true", help="show tracebacks and which reminders changed")
    _add_commands(parser, arguments)
    return parser


def _add_commands(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """The parsers of the commands that are named, or all, bare, for a help page: each costs a quarter millisecond."""
    if not any(_asks_help(word) or word in _COMMANDS for word in arguments):
        parser.set_defaults(command=None)
        return
    # Naming the program here and below keeps argparse from formatting a usage line for it.
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser, prog="codelet")
    for name, (about, add) in _COMMANDS.items():
        own = commands.add_parser(name, help=about)
        if name in arguments:
            add(own)


def _asks_help(word: str) -> bool:
    """Whether a word asks for a help page, or may do so: `-qh` does."""
    return word == "--help" or (word[:1] == "-" != word[1:2] and "h" in word)


def _add_help(about: argparse.ArgumentParser) -> None:
    about.add_argument("about", nargs="?", metavar="COMMAND")


def _add_completion(completion: argparse.ArgumentParser) -> None:
    from codelet.frontends.commands.shell_completion import add_completion_arguments

    add_completion_arguments(completion)


def _add_demo(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--keep", action="store_true", help="keep the demo's folder")


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--json", action="store_true", help="print one JSON object")


def _add_policy(policy: argparse.ArgumentParser) -> None:
    from codelet.frontends.commands.check_arguments import add_policy_arguments

    add_policy_arguments(policy)


def _add_audit(audit: argparse.ArgumentParser) -> None:
    from codelet.frontends.commands.check_arguments import add_audit_arguments

    add_audit_arguments(audit)


def _add_profiles(profiles: argparse.ArgumentParser) -> None:
    ours = argparse.SUPPRESS  # what was said before the command counts too
    profiles.add_argument("--trust", action="store_true", default=ours, help="those of this project too")


def _add_models(models: argparse.ArgumentParser) -> None:
    from codelet.frontends.commands.model_list import add_models

    add_models(models)


def _add_sessions(sessions: argparse.ArgumentParser) -> None:
    from codelet.frontends.commands.sessions import add_arguments

    add_arguments(sessions)


def _add_review(review: argparse.ArgumentParser) -> None:
    from codelet.frontends.commands.review_arguments import add_review_arguments

    add_review_arguments(review)
    shared = review.add_argument_group("model and limits", "these, and -q, may also stand before the word review")
    for name in _OF_A_REVIEW:
        _add_setting(shared, SETTINGS[name], default=argparse.SUPPRESS)
    shared.add_argument("-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="no progress on stderr")


_OF_A_REVIEW = "model fallback_model api_base transport window max_tokens max_cost allow_unknown_cost timeout".split()
_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "help": ("this page, or that of one command", _add_help),
    "demo": ("watch a recorded model fix a small project, without any key", _add_demo),
    "doctor": ("show what codelet finds on this machine", _add_doctor),
    "policy": ("explain what the policy decides", _add_policy),
    "audit": ("check an audit file", _add_audit),
    "sessions": ("look at the exports in a folder or a Redis database", _add_sessions),
    "models": ("list the models, with key, window and price", _add_models),
    "profiles": ("list the profiles, and what each takes away", _add_profiles),
    "review": ("review a change: findings on its lines, for a pipeline or before a push", _add_review),
    "completion": ("print a completion script for a shell, or the man page", _add_completion),
}
"""The commands: what the help says of each, and what adds its arguments."""


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """The flags of the settings, under their headings, with those that set nothing but what this run does."""
    for group in GROUPS:
        heading = parser.add_argument_group(group.title, group.about)
        if group is ONE_SHOT:
            heading.add_argument(
                "--output-format",
                choices=OUTPUT_FORMATS,
                help="text (default), one JSON object, or one event a line",
            )
        elif group is KEEPING:
            about = "save there, and go on with what is saved there: short for --export and --resume"
            heading.add_argument("--continue", dest="continued", metavar="TARGET", help=about)
        for setting in SETTINGS.values():
            if setting.group is group:
                _add_setting(heading, setting)
        if group is ONE_SHOT:
            heading.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")
        elif group is PERMISSIONS:
            heading.add_argument("--trust", action="store_true", help="read this project's settings and profiles")


def _add_setting(heading: argparse._ArgumentGroup, setting: Setting, **more: Any) -> None:
    """The flag of one setting. Its value is checked where all settings are, with the same words for each source."""
    flags = (setting.short, setting.flag) if setting.short else (setting.flag,)
    options: dict[str, Any] = {"help": setting.about, **more}
    if setting.is_switch:
        options |= {"action": "store_const", "const": True}
    elif setting.choices:
        options["choices"] = setting.choices
    else:
        options |= {"action": "append" if setting.may_repeat else "store", "metavar": setting.metavar}
    heading.add_argument(*flags, **options)


def _read_words(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """What argparse is to read, and the bare words, joined: a prompt, None where there are none or a command.

    Raises UsageError that names an unknown option, or a word that is nearly a command.
    """
    options: list[str] = []
    bare: list[str] = []
    rest = list(arguments)
    said = False  # whether the user said that the words are no commands
    while rest:
        word = rest.pop(0)
        if word == "--":
            bare += rest
            said = True
            break
        if not _is_option(word):
            if word in _COMMANDS and not bare:
                _check(_commands_of(parser)[word], rest, parser, word)
                return [*options, word, *rest], None
            bare.append(word)
            continue
        options.append(_ALONE.get(word, word))
        if word in _ALONE and rest and rest[0] in (_options(parser)[word].choices or ()):
            options[-1] = f"{word}={rest.pop(0)}"  # "--narrative off": off is no prompt
        if bare and _unknown(parser, word):
            _refuse_near_command(bare)
        if word not in _ALONE and _takes_value(parser, word, rest):
            value = rest.pop(0)
            # As one word with its option, a prompt is never taken for something else.
            options[-1:] = [f"--prompt={value}"] if word in ("-p", "--prompt") else [word, value]
    if bare and not said:
        _refuse_near_command(bare)
    return options, " ".join(bare) if bare else None


def _refuse_near_command(bare: Sequence[str]) -> None:
    """Raise UsageError for a word that is nearly a command, and for a command of another program."""
    from codelet.frontends.mistakes import near_command, peer_command

    mistake = peer_command(bare) or (near_command(bare[0], _COMMANDS) if len(bare) == 1 else None)
    if mistake is not None:
        raise mistake


def _asked_format(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> str | None:
    """The value of `--output-format`, however wrong the rest of the command line is."""
    found = None
    rest = list(arguments)
    while rest and (word := rest.pop(0)) != "--":
        name, equals, value = word.partition("=")
        known = name in _options(parser)
        if known and not equals and _takes_value(parser, word, rest):
            value = rest.pop(0)
        if name == "--output-format" and value:
            found = value
    return found


def _check(parser: argparse.ArgumentParser, words: Sequence[str], main: argparse.ArgumentParser, path: str) -> None:
    """Raise UsageError for an option that the command does not have; `path` is the command as it was written."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return
        if _is_option(word):
            if name := _unknown(parser, word):
                from codelet.frontends.mistakes import unknown_to_command

                raise unknown_to_command(name, path, _options(parser), _options(main))
            if _takes_value(parser, word, rest):
                rest.pop(0)
        elif word in (inner := _commands_of(parser)):
            _check(inner[word], rest, main, f"{path} {word}")
            return


def _is_option(word: str) -> bool:
    """Whether a word is meant as an option: a text that begins with a dash, such as a list, is not."""
    name = word.partition("=")[0]
    return len(word) > 1 and word.startswith("-") and not any(sign.isspace() for sign in name)


def _takes_value(parser: argparse.ArgumentParser, word: str, rest: Sequence[str]) -> bool:
    """Whether the next word is the option's value. Raises UsageError for an option that the parser does not know."""
    if name := _unknown(parser, word):
        from codelet.frontends.mistakes import unknown_option

        commands = {command: _options(own) for command, own in _commands_of(parser).items()}
        raise unknown_option(name, _options(parser), [(later, commands[later]) for later in rest if later in commands])
    if word.startswith("--"):
        action = None if "=" in word else _options(parser)[word]
    else:  # -qm NAME is -q -m NAME; in -mNAME the value is there already
        action = _options(parser)[f"-{word[-1]}"] if _letters(parser, word) == len(word) - 1 else None
    if action is None or not rest or action.nargs == 0:
        return False
    return action.nargs != "?" or not _is_option(rest[0])


def _unknown(parser: argparse.ArgumentParser, word: str) -> str:
    """The option in this word that the parser does not know, or ""."""
    known = _options(parser)
    name = word.partition("=")[0]
    if name in known:
        return ""
    if word.startswith("--"):
        return name
    letters = _letters(parser, word)
    return f"-{word[1 + letters]}" if letters < len(word) - 1 and not _value_after(parser, word, letters) else ""


def _letters(parser: argparse.ArgumentParser, word: str) -> int:
    """How many letters of `-abc` are options, up to one that takes the rest of the word as its value."""
    known = _options(parser)
    for number, letter in enumerate(word[1:]):
        action = known.get(f"-{letter}")
        if action is None:
            return number
        if action.nargs != 0:
            return number + 1
    return len(word) - 1


def _value_after(parser: argparse.ArgumentParser, word: str, letters: int) -> bool:
    """Whether the last of so many letters takes what follows it in the word as its value."""
    return letters > 0 and _options(parser)[f"-{word[letters]}"].nargs != 0


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return parser._option_string_actions


def _commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands inside this one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}
