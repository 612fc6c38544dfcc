"""The environment of child processes: the user's own, without credentials.

Names and values are judged: a name that speaks of a credential, a value that is a well-known kind of token,
or an address with a password in it. What only says where to ask for a credential stays (SSH_AUTH_SOCK, a
D-Bus address, the path of an X authority file): it gives nothing away when it is printed, any program that
runs as the user finds the same socket without it, and `git push` over ssh, once approved, needs it.

What would make a command do something else than it says does not reach it either: functions and options of the
shell, a file that every shell or search reads first, libraries from wherever the command happens to run.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from codelet.system.text.secret_shapes import SHORTEST_SECRET, is_secret, live_secrets

_CHANGES_COMMANDS = frozenset(
    [
        # bash reads these before it looks at the command: a file to run, options, which files wildcards stand for
        *("BASH_ENV", "BASHOPTS", "SHELLOPTS", "BASH_COMPAT", "BASH_XTRACEFD", "PS4", "GLOBIGNORE", "GLOBSORT"),
        *("EXECIGNORE", "CDPATH", "PROMPT_COMMAND", "BASH_LOADABLES_PATH"),
        # where operands end and options begin; options that no command line shows; what `less` runs first
        *("POSIXLY_CORRECT", "GREP_OPTIONS", "RIPGREP_CONFIG_PATH", "LESSOPEN", "LESSCLOSE", "LESS"),
    ]
)
_FUNCTION = "BASH_FUNC_"
"""How the name of an exported function begins."""
_SHELL_FILE = "ENV"
"""A file that some shells read first; applications use the name for a word such as `production`, which stays."""
_LIBRARIES = {
    **dict.fromkeys(("LD_PRELOAD", "LD_AUDIT"), r"[: ]"),
    **dict.fromkeys(("LD_LIBRARY_PATH", "GCONV_PATH", "DYLD_INSERT_LIBRARIES"), ":"),
    **dict.fromkeys(("DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH"), ":"),
}
"""Lists of what the loader puts into every program, and what parts them. An entry stays if it is an absolute path."""
_SETTINGS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "SSH_ASKPASS_REQUIRE": "never",
}
"""Nobody is there to answer a question, leave a pager or close an editor; colours are noise to the model."""


_lending = threading.Lock()
_users: dict[str, str | None] = {}
"""What the user had set variables to that are lent at this moment."""


def child_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base` (the process's own by default) without secrets, and set up for programs that nobody watches.

    A variable that repeats a secret under a harmless name goes, too, and one that changes what commands do.
    """
    variables = own_variables() if base is None else base
    secrets = [value for _, value in live_secrets(variables) if len(value) >= SHORTEST_SECRET]
    kept = {
        name: value
        for name, value in _plain(variables)
        if not is_secret(name, value) and not any(secret in value for secret in secrets)
    }
    return kept | _SETTINGS


@contextmanager
def lent(name: str, value: str) -> Iterator[None]:
    """Have a variable say `value` meanwhile, for a library that reads it; children get what the user had set."""
    with _lending:
        _users[name] = before = os.environ.get(name)
        os.environ[name] = value
    try:
        yield
    finally:
        with _lending:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before
            del _users[name]


def own_variables() -> dict[str, str]:
    """The process's own variables, as the user set them."""
    with _lending:
        variables = {name: os.environ.get(name) for name in list(os.environ)} | _users
    return {name: value for name, value in variables.items() if value is not None}


def _plain(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables that leave commands what they are; of lists of libraries the absolute entries."""
    for name, value in variables.items():
        if name in _CHANGES_COMMANDS or name.startswith(_FUNCTION):
            continue
        if name == _SHELL_FILE and not re.fullmatch(r"[\w-]*", value):
            continue
        if name in _LIBRARIES:
            absolute = [entry for entry in re.split(_LIBRARIES[name], value) if entry.startswith("/")]
            if absolute:
                yield name, ":".join(absolute)
        else:
            yield name, value
