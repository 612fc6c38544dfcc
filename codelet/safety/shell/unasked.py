"""The commands that run without asking: listed programs with options that only read, confined or not.

Confined, a line may have variables, patterns, loops and here-documents: the sandbox stops their effects, so none of
them is evaluated here. A command asks if its program is not listed, an option makes it write or run something, a word
names a secret or a place outside the workspace, or git would print content that no sandbox hides. Without a sandbox
(strict) all words must be plain, all paths inside the workspace, and programs with a language ask.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from codelet.safety.paths import judge_path, why_unread, workspace_root
from codelet.safety.shell import programs
from codelet.safety.shell.critical import FIND_RUNS
from codelet.safety.shell.git_words import check_git
from codelet.safety.shell.programs import Location, ParsedArguments, RefusedError
from codelet.safety.shell.script_parser import Redirect, SimpleCommand
from codelet.safety.tables import read_table, word_list

_WALK_CAP = 20_000
_BUILTINS = frozenset(word_list("shell", "unasked builtins"))
_BUILTIN_WORDS = read_table("shell")["words of builtins"]
_OWN_VARIABLE = re.compile(r"[a-z][a-z0-9_]*|LC_[A-Z]+|LANG|LANGUAGE|TZ|IFS", re.ASCII)
_PLAIN_PIECE = re.compile(
    r"""(?<![^\s;|&])[012]?(?:>&[012]|>{1,2}[ ]?[\w./-]+|<[ ]?[\w./-]+)"""
    r"""|[ \t\n]+|[\w./:=,+@%^-]+|'[^']*'|"[^"$`\\!]*"|&&|\|\|?|;"""
)
"""A separate redirection, plain words, a quoted text without expansions, or an operator."""


def is_plain(line: str) -> bool:
    """Return whether a line has plain words alone, which every shell parses alike."""
    return bool(line) and not _PLAIN_PIECE.sub("", line)


class _Unknown(str):
    """A word that is known only when the line runs."""

    __slots__ = ()


class _Place(Location):
    """The place of a command, not `known` after a `cd` to an unknown one. `mounts`: see `check_git`."""

    known: bool
    confined: bool
    mounts: bool


def _places(part: SimpleCommand | Redirect, workspace: Path, *, confined: bool, mounts: bool = True) -> list[_Place]:
    root = workspace_root(workspace)
    return [_Place(cwd, root, not part.lost, confined, mounts) for cwd in sorted(part.folders)]


def check_command(command: SimpleCommand, workspace: Path, *, confined: bool, mounts: bool = True) -> None:
    """Raise RefusedError unless the command may run without asking, `confined` or anywhere."""
    for name in command.variables:
        if not confined or not _OWN_VARIABLE.fullmatch(name):
            raise RefusedError(f"it sets the variable {name}")
    for word in command.words if not confined else ():
        if not word.plain or word.text.startswith("~"):
            raise RefusedError(f"{word.raw}: only plain words run without a sandbox")
    words = [word.text if word.plain else _Unknown(word.text) for word in command.words]
    for place in _places(command, workspace, confined=confined, mounts=mounts) if words else ():
        if words[0] != "cd":
            _check(words, place)
        elif not confined or (len(words) == 2 and not isinstance(words[1], _Unknown)):
            operands = words[2:] if words[1:2] == ["--"] else words[1:]
            if len(operands) != 1 or operands[0].startswith("-") or not operands[0]:
                raise RefusedError("cd to a place that is not certain")
            if os.environ.get("CDPATH") and not operands[0].startswith(("/", ".")):
                raise RefusedError("cd with CDPATH set")
            programs.folder_reached("cd", operands[0], place)


def check_redirect(redirect: Redirect, workspace: Path, *, confined: bool) -> None:
    """Raise RefusedError for a redirection from a secret, or from a place outside."""
    text, plain = redirect.target.text, redirect.target.plain
    is_network = text.startswith(("/dev/tcp/", "/dev/udp/"))
    if is_network or not (confined or plain):
        raise RefusedError("it opens a network connection" if confined else "it reads from a place that is not plain")
    for place in _places(redirect, workspace, confined=confined):
        _check_paths([("read", text if plain else _Unknown(text))], place)


def _check(words: Sequence[str], place: _Place) -> None:
    """Raise RefusedError unless the words run a listed program."""
    name, rest = words[0], list(words[1:])
    if isinstance(name, _Unknown):
        raise RefusedError("the program's name is known only at run time")
    loaded = "" if place.confined else programs.LOADING_VARIABLES.get(name, "")
    if variable := next((one for one in loaded.split() if os.environ.get(one)), None):
        raise RefusedError(f"{name} loads what the environment names ({variable})")
    for started in {name, "grep"} if name in ("egrep", "fgrep") else {name}:  # scripts of the system that start grep
        if started not in (*_BUILTINS, "command", "time") and programs.is_supplied(started, place.root):
            raise RefusedError(f"{started} is a program of the workspace")
    is_version = len(rest) == 1 and (name, rest[0]) in programs.VERSIONS
    if is_version or (place.confined and _is_confined(name, rest, place)):
        return
    program = programs.READ_ONLY_PROGRAMS.get(name)
    if program is None:
        raise RefusedError(f"{name} is not known to be read-only")
    if name == "find":
        _find(rest, place)
    elif place.confined:
        _listed(name, program, rest, place)
    elif "language" in program.marks:
        raise RefusedError(f"{name} asks without a sandbox")
    else:
        parsed = ParsedArguments() if "raw" in program.marks else programs.parse_arguments(name, program, rest)
        _check_strictly(name, rest, parsed, place)
        _check_paths(parsed.uses, place)


def _check_paths(uses: Sequence[tuple[str, str]], place: _Place, *, sure: bool = True) -> None:
    """Raise RefusedError for a path outside the workspace, or of a secret; without `sure`, it may be no path.

    `-` is standard input to most programs, a file to some, and to bash after `<`.
    """
    harmless = ("/dev/null", "/dev/stdin", *(("-", "/dev/stdout", "/dev/stderr") if place.confined else ()))
    for kind, text in dict.fromkeys(uses):
        if isinstance(text, _Unknown) or text in harmless:
            continue
        found = judge_path(text, "list" if kind == "list" else "read", Path(place.root), place.cwd, shell=True)
        no_path = place.confined and found.action == "deny" and (kind == "rev" or not sure)
        certain = place.known or found.sensitive or text.startswith("/")
        if found.action != "allow" and certain and not no_path:
            raise RefusedError(found.reason)


def _is_confined(name: str, rest: list[str], place: _Place) -> bool:
    """Return whether the words run a builtin, a wrapper or git, looked at here. Raises RefusedError."""
    form = _BUILTIN_WORDS.get(name, "")
    if form and not (rest and all(re.fullmatch(form, word, re.DOTALL) for word in rest)) and (rest or name == "set"):
        raise RefusedError(f"{name} may change its shell")
    if name == "printf" and rest and rest[0].startswith("-v"):
        raise RefusedError("printf sets a variable")
    if name == "git":
        _check_paths(check_git(rest, place, mounts=place.mounts).uses, place)
    elif name in programs.WRAPPERS and not (name == "command" and rest[:1] and rest[0] in ("-v", "-V")):
        inner = programs.parse_arguments(name, programs.WRAPPERS[name], rest).operands[name == "timeout" :]
        if inner:
            _check(inner, place)
        elif name != "xargs":
            raise RefusedError(f"{name} without a command")
    else:
        return name in _BUILTINS
    return True


def _listed(name: str, program: programs.Program, rest: list[str], place: _Place) -> None:
    if "raw" in program.marks:  # a filter of jq, say
        _check_paths([("read", word) for word in rest[1:] if not word.startswith("-")], place, sure=False)
        return
    if not any(isinstance(word, _Unknown) for word in rest):
        _check_paths(programs.parse_arguments(name, program, rest).uses, place)
        return
    # An unknown word may become an option, whose writes fail. The known ones still count.
    loose = program.replace(operands="read*", marks=program.marks - {"options-first"})
    try:
        _check_paths(programs.parse_arguments(name, loose, rest).uses, place, sure=False)
    except RefusedError as refused:
        if "the value of" not in str(refused) and "takes a number" not in str(refused):
            raise


def _find(rest: list[str], place: _Place) -> None:
    """Check `find PATH… TESTS`: every word must be a test without effect, or run a permitted command."""
    follows = ("-P", "-H", "-L") if place.confined else ("-P",)
    while rest and rest[0] in follows:
        rest.pop(0)
    uses = []
    while rest and not rest[0].startswith(("-", "(", "!", ",")):
        uses.append(("list", rest.pop(0)))
    _check_paths(uses, place)
    while rest:
        word = rest.pop(0)
        kind = programs.FIND_TESTS.get(word)
        if place.confined and (isinstance(word, _Unknown) or word in follows or word.startswith("-newer")):
            del rest[: word.startswith("-newer")]
        elif place.confined and word in FIND_RUNS:
            end = next((at for at, one in enumerate(rest) if one in (";", "+")), len(rest))
            _check([_Unknown(one) if "{}" in one else one for one in rest[:end]] or [""], place)
            del rest[: end + 1]
        elif kind is None:
            raise RefusedError(f"find {word} is not known to be read-only")
        elif kind != "none" and not rest and not place.confined:
            raise RefusedError(f"find {word} lacks its value")
        elif kind != "none":
            _check_paths([(kind, value) for value in rest[:1] if kind == "list"], place)
            del rest[:1]


def _check_strictly(name: str, words: Sequence[str], parsed: ParsedArguments, place: Location) -> None:
    """Raise RefusedError for uses of a program that its permitted options and operands do not cover."""
    match name:
        case "printf":  # `-v` and `%n` set a variable, whose subscript would be evaluated
            rest = list(words[1:] if words[:1] == ["--"] else words)
            if rest and (rest[0].startswith("-") or re.search(r"%[^%a-zA-Z]*[hlLqjzt]*n", rest[0].replace("%%", ""))):
                raise RefusedError("printf sets a variable")
        case "date":
            if parsed.operands and not parsed.operands[0].startswith("+"):
                raise RefusedError("date with an operand sets the clock")
        case "command":
            if not parsed.has("-v", "-V"):
                raise RefusedError("command runs another program")
        case "strings" | "less":  # `strings @FILE` takes options from the file, `less +!CMD` runs a command
            if any(word.startswith(("@", "+")) for word in words):
                raise RefusedError(f"{name} with a word that begins with @ or +")
        case "diff":
            if any(Path(place.cwd, operand).is_dir() for operand in parsed.operands):
                raise RefusedError("diff of folders reads every file in them")
        case "grep" | "egrep" | "fgrep" | "rg":
            _search(name, parsed, place)


def _search(name: str, parsed: ParsedArguments, place: Location) -> None:
    """Check the tree of `grep -r` and `rg`: no file may have a secret's name, and it must not be too large."""
    if parsed.has("-R", "--dereference-recursive"):
        raise RefusedError("grep -R follows links")
    if not (parsed.has("-r", "--recursive") if name != "rg" else not parsed.has("--files", "--type-list")):
        return
    who = "rg" if name == "rg" else "grep -r"
    given = parsed.operands if parsed.has("-e", "--regexp") else parsed.operands[1:]
    seen, waiting = 0, [os.path.join(place.cwd, folder) for folder in (given or ["."])]
    while waiting:
        entries: list[os.DirEntry[str]] = []
        with suppress(OSError):
            entries += os.scandir(waiting.pop())
        seen += len(entries)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting += [] if name == "rg" and entry.name == ".git" else [entry.path]
            elif why := why_unread(entry.path, place.root):
                raise RefusedError(f"{who} reaches {entry.name}, which {why}")
        if seen > _WALK_CAP:
            raise RefusedError(f"{who} searches more than {_WALK_CAP} files, too many to look for secrets first")
