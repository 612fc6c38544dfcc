"""Judge the simple commands of a script one by one: what each reads, where it runs, what it would change."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codelet.safety.paths import contained, judge_path, workspace_root
from codelet.safety.shell.folders import Folders, Location, folder_reached
from codelet.safety.shell.git_checks import check_git, git_place
from codelet.safety.shell.git_commands import split_git
from codelet.safety.shell.program_arguments import (
    ParsedArguments,
    RefusedError,
    WildcardMatch,
    parse_arguments,
    refuse_uncertain_order,
)
from codelet.safety.shell.program_checks import PROGRAM_CHECKS
from codelet.safety.shell.programs import LOADING_VARIABLES, READ_ONLY_PROGRAMS, VERSIONS
from codelet.safety.shell.syntax import Redirect, SimpleCommand, Word
from codelet.safety.shell.wildcards import MATCH_CAP, expansion
from codelet.safety.shell.xargs import refuse_unknown_input
from codelet.safety.verdict import Tier

FOLDER_CAP = 4
"""Folders that a command may stand in after the `cd`s before it."""

_LOCALE = ("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_MESSAGES", "LANG", "LANGUAGE")
_LOCALES = re.compile(r"C|POSIX|(?:C|en_US|en_GB)\.(?:UTF-8|utf8)|")
_DYNAMIC_WORDS = ("echo", "printf", "basename", "dirname")


@dataclass(frozen=True)
class PartVerdict:
    """What was found about one part: None as `reason` means that it is read-only.

    `words` are the command's words where a rule may cover it: every one of them is known.
    """

    reason: str | None
    tier: Tier = "execute"
    words: tuple[str, ...] | None = None
    write_to: str | None = None


def judge_command(command: SimpleCommand, folders: Folders) -> PartVerdict:
    """What one simple command does."""
    words = command.words
    for name, value in command.assignments:
        known = value is not None and not value.dynamic and _LOCALES.fullmatch(value.text)
        if name not in _LOCALE or not known or not words:
            return PartVerdict(f"it sets the variable {name}")
    if not words:
        return PartVerdict(None, "read")
    name = words[0].text
    if words[0].dynamic or words[0].glob is not None:
        return PartVerdict("the program's name is known only at run time")
    plain = None if any(word.dynamic for word in words) else tuple(word.text for word in words)
    try:
        if any(word.dynamic for word in words[1:]):
            _refuse_dynamic(name, words)
        if name == "xargs":
            refuse_unknown_input(command)
        if name == "cd":
            _change_folder(command, folders)
        else:
            inner = _timed(words)
            for cwd in folders.of(command):
                place = Location(cwd, workspace_root(folders.workspace), folders.written)
                if inner is not words:
                    _refuse_own_program(name, place)  # `time` too: it is a word of bash, not of every shell
                _judge_in(inner[0].text, inner, place)
    except RefusedError as refused:
        return PartVerdict(str(refused), words=plain if not command.assignments else None)
    return PartVerdict(None, "read", words=plain)


def only_reads(command: SimpleCommand) -> bool:
    """Whether the program can do no more than read, whatever its options: it needs no sandbox to run unasked."""
    name = command.words[0].text if command.words else "cd"
    program = READ_ONLY_PROGRAMS.get(name)
    return name == "cd" or (program is not None and program.any_option)


_REWRITTEN = frozenset(("grep", "egrep", "fgrep", "rg", "sed", "xargs"))
"""Programs that are told more before they run, where they begin a command."""


def _timed(words: Sequence[Word]) -> Sequence[Word]:
    """The words of the program behind `time` or `timeout SECONDS`, where it can do nothing but read; else all words."""
    plain = [word.text for word in words]
    start = 1 if plain[0] == "time" else 2 if plain[0] == "timeout" and _DURATION.fullmatch(" ".join(plain[1:2])) else 0
    if not start or len(words) <= start or words[start].glob is not None:
        return words
    name = plain[start]
    program = READ_ONLY_PROGRAMS.get(name)
    reads = program is not None and program.any_option and name not in _BUILTINS | _REWRITTEN
    return words[start:] if reads else words


_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?", re.ASCII)


def _refuse_dynamic(name: str, words: Sequence[Word]) -> None:
    if name == "test" and not any(word.splits for word in words):
        # In these shapes the operator is fixed, so that the unknown word is text whatever it is.
        plain = [None if word.dynamic else word.text for word in words[1:]]
        if (len(plain) == 3 and plain[1] in ("=", "==", "!=")) or (len(plain) == 2 and plain[0] in ("-n", "-z")):
            return
    format_at = 2 if name == "printf" and words[1].text == "--" else 1
    if name not in _DYNAMIC_WORDS or (name == "printf" and any(word.dynamic for word in words[1 : format_at + 1])):
        raise RefusedError(f"{name} gets words known only at run time")


def _judge_in(name: str, words: Sequence[Word], place: Location) -> None:
    """Raise RefusedError unless the command is read-only when it runs there."""
    says_version = len(words) == 2 and (name, words[1].text) in VERSIONS
    if variable := next((one for one in LOADING_VARIABLES.get(name, ()) if os.environ.get(one)), None):
        raise RefusedError(f"{name} loads what the environment names ({variable})")
    if says_version:
        _refuse_own_program(name, place)
        return
    program = READ_ONLY_PROGRAMS.get(name)
    if program is None and name != "git":
        raise RefusedError(f"{name} is not known to be read-only")
    arguments = list(_expanded(name, words[1:], place, any_option=program is not None and program.any_option))
    _refuse_own_program(name, place)
    if program is None:
        _refuse_loose_git(arguments)
        inside = git_place(arguments, place)
        if inside != place and any(word.glob is not None for word in words):
            raise RefusedError("git -C with a wildcard, which the shell expands in another folder")
        place = inside
        parsed = check_git(arguments, place)
    else:
        parsed = ParsedArguments() if program.raw else parse_arguments(name, program, arguments)
        if program.check:
            PROGRAM_CHECKS[program.check](arguments, parsed, place)
    for other in (*_STARTS.get(name, ()), *parsed.programs):
        _refuse_own_program(other, place)
    if program is None or not program.raw:
        refuse_uncertain_order(name, arguments, parsed)
    uses = dict.fromkeys(parsed.uses)
    if len(uses) > MATCH_CAP:
        raise RefusedError(f"{name} reads more than {MATCH_CAP} files")
    for kind, text in uses:
        _refuse_path(kind, text, place.cwd, Path(place.root))


def _refuse_path(kind: str, text: str, cwd: str, workspace: Path) -> None:
    # `-` is standard input to most programs, a file of that name to some, and to bash behind `<`.
    if text in ("/dev/null", "/dev/stdin"):
        return
    found = judge_path(text, "list" if kind == "list" else "read", workspace, cwd, shell=True)
    if kind == "rev" and found.action == "deny" and found.place is None and "\0" not in text:
        return
    if found.action != "allow":
        raise RefusedError(found.reason)


def _expanded(name: str, words: Sequence[Word], place: Location, *, any_option: bool) -> Iterator[str]:
    """The words with their wildcards expanded as bash may do it, each match checked."""
    operands_only = False
    for word in words:
        operands_only = operands_only or word.text == "--"
        if word.glob is None:
            yield word.text
            continue
        if word.dynamic:
            raise RefusedError(f"{word.raw}: a pattern with a part known only at run time")
        stands_for = expansion(word, place)
        if stands_for.words == (word.text,):
            yield word.text
            continue
        if word.glob[0] in "*?[" and not any_option and not operands_only:
            raise RefusedError(f"{name} {word.raw}: a file's name may look like an option; write ./{word.raw}")
        if any(match.startswith("-") for match in stands_for.words):
            raise RefusedError(f"{word.raw} may stand for a file whose name looks like an option")
        if stands_for.certain and len(stands_for.words) == 1:
            yield from stands_for.words
        else:
            yield from map(WildcardMatch, stands_for.words)


_GIT_TAKES_FILES = frozenset(("diff", "log", "show", "status", "blame", "ls-files", "ls-tree", "grep", "check-ignore"))


def _refuse_loose_git(words: Sequence[str]) -> None:
    """Raise RefusedError where a wildcard may become git's subcommand."""
    first = next((index for index, word in enumerate(words) if isinstance(word, WildcardMatch)), len(words))
    if first < len(words) and split_git(words)[1] not in _GIT_TAKES_FILES:
        raise RefusedError(f"git may take {words[first]} for a subcommand")


def _change_folder(command: SimpleCommand, folders: Folders) -> None:
    """Follow a `cd`; raises RefusedError where it is not certain where it leads."""
    words = [word.text for word in command.words[1:]]
    if words[:1] == ["--"]:
        words.pop(0)
    if len(words) != 1 or words[0].startswith("-") or not words[0] or command.words[-1].glob:
        raise RefusedError("cd to a place that is not certain")
    if os.environ.get("CDPATH") and not words[0].startswith(("/", ".")):
        raise RefusedError("cd with CDPATH set")
    reached = set()
    for cwd in folders.of(command):
        reached.add(folder_reached("cd", words[0], Location(cwd, workspace_root(folders.workspace))))
    if len(reached) > FOLDER_CAP:
        raise RefusedError("too many folders to follow")
    folders.change(command, frozenset(reached))


def judge_redirect(redirect: Redirect, folders: Folders) -> PartVerdict:
    """What a redirection reads or writes."""
    target = redirect.target.text
    if re.match(r"/dev/(?:tcp|udp)/", target):
        return PartVerdict("it opens a network connection")
    if redirect.access == "write":
        return PartVerdict(f"it writes to {target}", "write", write_to=target)
    try:
        for cwd in folders.of(redirect):
            _refuse_path("read", target, cwd, folders.workspace)
    except RefusedError as refused:
        return PartVerdict(str(refused))
    return PartVerdict(None, "read")


_STARTS = {"egrep": ("grep",), "fgrep": ("grep",)}
"""Scripts of the system that start another program, by its name alone."""
_BUILTINS = frozenset(("cd", "echo", "printf", "test", "true", "false", ":", "type", "command", "pwd", "exit"))


def _refuse_own_program(name: str, place: Location) -> None:
    """Raise RefusedError where the shell would take the program from the workspace."""
    if name in _BUILTINS:
        return
    found = _found_program(name, os.environ.get("PATH", ""))
    if found is None:
        return
    if not found.startswith("/") or contained(os.path.realpath(found), place.root) or contained(found, place.root):
        raise RefusedError(f"{name} is a program of the workspace")


def _found_program(name: str, search: str) -> str | None:
    """Where the shell finds the program now: what is kept here would hide one that came into a folder meanwhile."""
    for folder in search.split(os.pathsep):
        candidate = f"{folder}/{name}" if folder else name
        if not folder.startswith("/") or os.access(candidate, os.X_OK):
            return candidate
    return None
