"""The tables of the command line: the program's own flags, and its commands."""

from __future__ import annotations

from codelet.setting_kinds import Setting, any_text, switch, text
from codelet.settings import KEEPING, ONE_SHOT, PERMISSIONS, SETTINGS

FROM_PIPE = "-"
"""The value of `--prompt` if the prompt comes through the pipe."""

OUTPUT_FORMATS = ("text", "json", "stream-json")

_FIRST = (
    Setting(name="version", default=False, kind=switch, short="-v -V", about="print the version and exit"),
    Setting(
        name="prompt",
        default=None,
        kind=any_text,
        short="-p",
        alone=FROM_PIPE,
        metavar="PROMPT",
        about="answer one prompt and exit; piped input is added to it. Without -p, PROMPT opens a session on a terminal"
        " and is answered like this in a pipe",
    ),
    Setting(
        name="output_format",
        default=None,
        kind=OUTPUT_FORMATS,
        group=ONE_SHOT,
        about="text (default), one JSON object, or one event a line",
    ),
    Setting(
        name="session",
        default=None,
        kind=text,
        group=KEEPING,
        short="--continue",
        metavar="TARGET",
        about="begin or continue a saved session: --export and --resume in one",
    ),
)
_LAST = (
    Setting(name="quiet", default=False, kind=switch, group=ONE_SHOT, short="-q", about="show no progress on stderr"),
    Setting(
        name="trust",
        default=False,
        kind=switch,
        group=PERMISSIONS,
        about="read this project's settings and files for codelet",
    ),
    Setting(name="debug", default=False, kind=switch, about="show tracebacks and which reminders changed"),
)
FLAGS = (*_FIRST, *(row for row in SETTINGS.values() if row.group is not None), *_LAST)
"""The program's own flags, in the order of the help page: those of the settings, and those for this run only."""

COMMANDS = {
    "help": "this page, a page on a topic, or the options of a command",
    "demo": "watch a recorded model fix a small project, without any key",
    "doctor": "show what codelet finds on this machine",
    "policy": "explain what may run without asking",
    "audit": "check an audit file",
    "sessions": "list, show, search and delete saved sessions",
    "models": "list the models, with key, window and price",
    "profiles": "list the profiles and their restrictions",
    "mcp": "check the MCP servers in your settings",
    "review": "review a change before a push or in CI",
    "acp": "serve an editor over the Agent Client Protocol",
    "completion": "print a completion script for a shell",
}
"""The commands, and the line of each in the help."""

HELP = Setting(name="help", default=False, kind=switch, short="-h")
NAMED = {name: row for row in (*FLAGS, HELP) for name in (*row.short.split(), row.flag)}
"""The row for each spelling of a flag."""


def is_option(word: str) -> bool:
    """Return whether a word is meant as an option: a text that begins with a dash, such as a list, is not."""
    name = word.partition("=")[0]
    return len(word) > 1 and word.startswith("-") and not any(sign.isspace() for sign in name)


def is_value(word: str) -> bool:
    """Return whether a word can be the value of the option before it; a negative number can."""
    name = word.partition("=")[0]
    return not is_option(word) or word[1:].replace(".", "", 1).isdigit() or (" " in word and name not in NAMED)
