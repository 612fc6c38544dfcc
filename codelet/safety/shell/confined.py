"""What runs unasked in the read-only sandbox: listed programs, in a line whose parts are all known.

The sandbox stops what such a line writes, reaches or would read of secrets, whatever its variables, patterns, loops and
here-documents come to, so none of these is worked out here. What asks: a program that is not listed, options by which a
listed one is told to write or to run, a redirection into a file, a background process, a word that names a secret or a
place outside the workspace, and the words of git that print what no sandbox hides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from codelet.record import Record
from codelet.safety.paths import Access, judge_path
from codelet.safety.shell.folders import Folders, change_folder
from codelet.safety.shell.git_words import check_git
from codelet.safety.shell.program_arguments import Program, RefusedError, parse_arguments
from codelet.safety.shell.programs import READ_ONLY_PROGRAMS, VERSIONS
from codelet.safety.shell.script_parser import Redirect, SimpleCommand, Word
from codelet.safety.shell.strict import FIND_TESTS, supplied

_BUILTINS = frozenset(
    ("echo", "printf", "test", "[", "true", "false", ":", "pwd", "type", "exit", "read", "shift", "break", "continue",
     "sleep", "set")
)  # fmt: skip
"""Builtins of the shell, and `sleep`."""
_WRAPPERS = {
    "timeout": ("ks", "v"),
    "nice": ("n", ""),
    "xargs": ("EILPadns", "0rtx"),
    "command": ("", "p"),
    "time": ("", "p"),
}
"""Programs that run the words after them: the letters of their options that take a value, and of those that do not."""
_BUILTIN_WORDS = {
    "set": r"[-+][a-zA-Z]+|[a-z]+",
    "read": r"-[rs]+|-[adinNptu]|[a-z][a-z0-9_]*|\d+",
    "shift": r"\d+",
    "break": r"\d+",
    "continue": r"\d+",
}
"""What the words of builtins must be that could change the shell."""
_WRAPPER_OPTION = re.compile(
    r"-\d+|--(?:null|no-run-if-empty|foreground|preserve-status|verbose|exit|max-(?:args|procs|lines|chars)=\d+)"
)
_LOCALE = re.compile(r"LC_[A-Z]+|LANG|LANGUAGE|TZ|IFS")
_OWN_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_HARMLESS_TARGETS = ("-", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")


class _Unknown(str):
    """A word that is known only when the line runs: a variable, a pattern."""

    __slots__ = ()


class _Folder(Record):
    """Where a command runs: `path` is None where that is not known. `mounts`: see `check_git`."""

    path: str | None
    root: str
    workspace: Path
    mounts: bool = True


def check_confined(command: SimpleCommand, folders: Folders, *, mounts: bool) -> None:
    """Raise RefusedError unless the command may run in the read-only sandbox. `mounts`: see `check_git`."""
    for name, _ in command.assignments:
        if not _OWN_NAME.fullmatch(name) and not _LOCALE.fullmatch(name):
            raise RefusedError(f"it sets the variable {name}")
    if not command.words:
        return
    words = [word.text if word.plain else _Unknown(word.text) for word in command.words]
    if words[0] == "cd":
        if len(command.words) == 2 and command.words[1].plain:
            change_folder(command, folders)
        else:
            folders.lost = folders.lost or not command.inner
        return
    for cwd in folders.of(command):
        _judge(words, _Folder(None if folders.lost else cwd, cwd, folders.workspace, mounts=mounts))


def _judge(words: Sequence[str], here: _Folder) -> None:
    """Raise RefusedError unless the words run a listed program."""
    name, rest = words[0], list(words[1:])
    if isinstance(name, _Unknown):
        raise RefusedError("the program's name is known only at run time")
    if name not in _BUILTINS and name not in ("command", "time") and supplied(name, here.workspace):
        raise RefusedError(f"{name} is a program of the workspace")
    form = _BUILTIN_WORDS.get(name, "")
    if form and not (rest and all(re.fullmatch(form, word, re.DOTALL) for word in rest)) and (rest or name == "set"):
        raise RefusedError(f"{name} may change its shell")
    if name == "printf" and rest and rest[0].startswith("-v"):
        raise RefusedError("printf sets a variable")
    if name in _BUILTINS or (len(rest) == 1 and (name, rest[0]) in VERSIONS):
        return
    if name in _WRAPPERS and not (name == "command" and rest[:1] and rest[0] in ("-v", "-V")):
        _behind(name, rest, here)
    elif name == "git":
        _paths(check_git(rest, here.path or here.root, here.workspace, mounts=here.mounts).uses, here)
    elif name == "find":
        _find(rest, here)
    elif program := READ_ONLY_PROGRAMS.get(name):
        _listed(name, program, rest, here)
    else:
        raise RefusedError(f"{name} is not known to be read-only")


def _listed(name: str, program: Program, rest: list[str], here: _Folder) -> None:
    if program.raw:  # a filter of jq, say
        _paths([("read", word) for word in rest[1:] if not word.startswith("-")], here, sure=False)
        return
    if not any(isinstance(word, _Unknown) for word in rest):
        _paths(parse_arguments(name, program, rest).uses, here)
        return
    # A word that is not known may become an option: what it is told to write, fails. The known ones still count.
    loose = program.replace(operands="read*", permutes=True)
    try:
        _paths(parse_arguments(name, loose, rest).uses, here, sure=False)
    except RefusedError as refused:
        if "the value of" not in str(refused) and "takes a number" not in str(refused):
            raise


def _find(rest: list[str], here: _Folder) -> None:
    start = next((at for at, word in enumerate(rest) if word not in ("-P", "-H", "-L")), len(rest))
    at = next((at for at in range(start, len(rest)) if rest[at].startswith(("-", "(", "!"))), len(rest))
    _paths([("list", word) for word in rest[start:at]], here)
    while at < len(rest):
        word = rest[at]
        at += 1
        if word in _RUNS:
            end = next((place for place in range(at, len(rest)) if rest[place] in (";", "+")), len(rest))
            _judge([_Unknown(one) if "{}" in one else one for one in rest[at:end]] or [""], here)
            at = end + 1
        elif isinstance(word, _Unknown) or word in ("-L", "-H", "-P") or word.startswith("-newer"):
            at += word.startswith("-newer")
        elif (kind := FIND_TESTS.get(word)) is not None:
            _paths([(kind, value) for value in rest[at : at + 1] if kind == "list"], here)
            at += bool(kind)
        else:
            raise RefusedError(f"find {word} is not known to be read-only")


def _behind(name: str, rest: list[str], here: _Folder) -> None:
    """The command behind a wrapper's own options."""
    valued, flags = _WRAPPERS[name]
    at = 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "-":
        word = rest[at]
        at += 1
        if word == "--":
            break
        letter = next((letter for letter in word[1:] if letter not in flags), "")
        if letter and letter not in valued and not _WRAPPER_OPTION.fullmatch(word):
            raise RefusedError(f"{name} {word} is not known to be read-only")
        at += word.endswith(letter or " ") and letter in valued and not word.startswith("--")
    at += name == "timeout"
    if at < len(rest):
        _judge(rest[at:], here)
    elif name != "xargs":
        raise RefusedError(f"{name} without a command")


def check_redirect(redirect: Redirect, folders: Folders) -> None:
    """Raise RefusedError for what a redirection reads: a secret, or a place outside."""
    word: Word = redirect.target
    if re.match(r"/dev/(?:tcp|udp)/", word.text):
        raise RefusedError("it opens a network connection")
    for cwd in folders.of(redirect):
        here = _Folder(None if folders.lost else cwd, cwd, folders.workspace)
        _paths([("read", word.text if word.plain else _Unknown(word.text))], here)


def _paths(uses: Sequence[tuple[str, str]], here: _Folder, *, sure: bool = True) -> None:
    """Raise RefusedError for a known path outside the workspace, or of a secret; without `sure`, it may be no path."""
    for kind, text in dict.fromkeys(uses):
        if isinstance(text, _Unknown) or text in _HARMLESS_TARGETS or kind not in ("read", "list", "rev"):
            continue
        access: Access = "list" if kind == "list" else "read"
        found = judge_path(text, access, here.workspace, here.path or here.root, shell=True)
        if (kind == "rev" or not sure) and found.action == "deny":
            continue
        if found.action != "allow" and (here.path is not None or found.sensitive or text.startswith("/")):
            raise RefusedError(found.reason)
