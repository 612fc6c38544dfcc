"""What runs unasked without a sandbox: plain words, programs of the list with their options, paths inside.

No variable, no pattern, no loop: what is not a plain word asks, and so does each program that has a language of its
own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from codelet.safety.paths import contained, judge_path, why_unread, workspace_root
from codelet.safety.shell.folders import Folders, Location, change_folder
from codelet.safety.shell.program_arguments import ParsedArguments, RefusedError, parse_arguments
from codelet.safety.shell.programs import LOADING_VARIABLES, READ_ONLY_PROGRAMS, VERSIONS
from codelet.safety.shell.script_parser import SimpleCommand
from codelet.system.process import find_program

_WALK_CAP = 20_000
_BUILTINS = frozenset(("cd", "echo", "printf", "test", "true", "false", ":", "type", "command", "pwd", "exit"))
_STARTS = {"egrep": ("grep",), "fgrep": ("grep",)}
"""Scripts of the system that start another program, by its name alone."""


_PLAIN_LINE = re.compile(
    r"""(?:[ \t\n]|[\w./:=,+@%^-]|'[^']*'|"[^"$`\\!]*"|&&|\|\|?|;"""
    r"""|(?<![^\s;|&])[012]?(?:>&[012]|>{1,2}[ ]?[\w./-]+|<[ ]?[\w./-]+))+"""
)
"""Plain words, quoted texts without expansions, joints, and redirections that stand by themselves."""


def is_plain(line: str) -> bool:
    """Whether a line is made of plain words alone, so that every shell takes it apart as it is done here."""
    return _PLAIN_LINE.fullmatch(line) is not None


def check_strict(command: SimpleCommand, folders: Folders) -> None:
    """Raise RefusedError unless the command only reads, wherever it runs and whatever confines it."""
    if command.assignments:
        raise RefusedError(f"it sets the variable {command.assignments[0][0]}")
    if not command.words:
        return
    for word in command.words:
        if not word.plain or word.text.startswith("~"):
            raise RefusedError(f"{word.raw}: only plain words run without a sandbox")
    name, *rest = (word.text for word in command.words)
    if name == "cd":
        change_folder(command, folders)
        return
    for cwd in folders.of(command):
        _check_in(name, rest, Location(cwd, workspace_root(folders.workspace)), folders.workspace)


def _check_in(name: str, rest: Sequence[str], place: Location, workspace: Path) -> None:
    if variable := next((one for one in LOADING_VARIABLES.get(name, ()) if os.environ.get(one)), None):
        raise RefusedError(f"{name} loads what the environment names ({variable})")
    for program in (name, *_STARTS.get(name, ())):
        if program not in _BUILTINS and supplied(program, workspace, place.cwd):
            raise RefusedError(f"{program} is a program of the workspace")
    if len(rest) == 1 and (name, rest[0]) in VERSIONS:
        return
    listed = READ_ONLY_PROGRAMS.get(name)
    if listed is None:
        raise RefusedError(f"{name} is not known to be read-only")
    if listed.language:
        raise RefusedError(f"{name} runs unasked only in a sandbox, and there is none")
    parsed = ParsedArguments() if listed.raw else parse_arguments(name, listed, rest)
    _check(name, rest, parsed, place)
    for kind, text in dict.fromkeys(parsed.uses):
        refuse_path(kind, text, place.cwd, workspace)


def refuse_path(kind: str, text: str, cwd: str, workspace: Path) -> None:
    """Raise RefusedError for a path outside the workspace, or of a secret that is read."""
    # `-` is standard input to most programs, a file of that name to some, and to bash behind `<`.
    if text in ("/dev/null", "/dev/stdin"):
        return
    found = judge_path(text, "list" if kind == "list" else "read", workspace, cwd, shell=True)
    if found.action != "allow":
        raise RefusedError(found.reason)


def supplied(name: str, workspace: Path, cwd: str = "/") -> bool:
    """Whether the shell would take a program from the workspace, or from where it stands."""
    if "/" in name:
        return True
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if not folder.startswith("/"):
            return True
        if os.access(f"{folder}/{name}", os.X_OK):
            return find_program(name, workspace, {"PATH": folder}) is None
    return False


def _check(name: str, words: Sequence[str], parsed: ParsedArguments, place: Location) -> None:
    """Raise RefusedError for what the permitted options and operands of a program do not tell."""
    match name:
        case "find":
            _find(words, parsed)
        case "test":
            _test(words, parsed)
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
        case "strings":  # read before the options are told from the operands and from the options' values
            if any(word.startswith("@") for word in words):
                raise RefusedError("strings @FILE takes options from the file")
        case "less":
            if any(word.startswith("+") for word in words):
                raise RefusedError("less runs what stands behind +")
        case "diff":
            if any(Path(place.cwd, operand).is_dir() for operand in parsed.operands):
                raise RefusedError("diff of folders reads every file in them")
        case "grep" | "egrep" | "fgrep" | "rg":
            _search(name.removeprefix("e").removeprefix("f"), parsed, place)


def _search(name: str, parsed: ParsedArguments, place: Location) -> None:
    """`grep -r` and `rg` read every file of a tree."""
    if name == "grep" and parsed.has("-R", "--dereference-recursive"):
        raise RefusedError("grep -R follows links")
    recursive = parsed.has("-r", "--recursive") if name == "grep" else not parsed.has("--files", "--type-list")
    given = parsed.operands if parsed.has("-e", "--regexp") else parsed.operands[1:]
    for operand in (given or ["."]) if recursive else ():
        _refuse_secrets("grep -r" if name == "grep" else name, operand, place)


def _find(words: Sequence[str], parsed: ParsedArguments) -> None:
    """`find PATH… TESTS`: every word must be a test without effect."""
    rest = list(words[1:] if words[:1] == ["-P"] else words)
    while rest and not rest[0].startswith(("-", "(", "!", ",")):
        parsed.uses.append(("list", rest.pop(0)))
    while rest:
        word = rest.pop(0)
        kind = FIND_TESTS.get(word)
        if kind is None:
            raise RefusedError(f"find {word} is not known to be read-only")
        if kind and not rest:
            raise RefusedError(f"find {word} lacks its value")
        value = rest.pop(0) if kind else ""
        if kind == "list":
            parsed.uses.append(("list", value))


FIND_TESTS: dict[str, str] = dict.fromkeys(
    ["(", ")", "!", ",", "-not", "-a", "-and", "-o", "-or", "-true", "-false", "-print", "-print0", "-ls",
     "-prune", "-quit", "-depth", "-d", "-mount", "-xdev", "-empty", "-nouser", "-nogroup", "-readable",
     "-writable", "-executable", "-daystart", "-noleaf", "-nowarn", "-warn", "-ignore_readdir_race"],
    "",
)  # fmt: skip
FIND_TESTS |= dict.fromkeys(
    ["-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-regextype",
     "-lname", "-ilname", "-type", "-xtype", "-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime",
     "-cmin", "-used", "-perm", "-user", "-group", "-uid", "-gid", "-links", "-inum", "-maxdepth",
     "-mindepth", "-fstype", "-printf"],
    "text",
)  # fmt: skip
FIND_TESTS |= dict.fromkeys(("-newer", "-anewer", "-cnewer", "-samefile"), "list")

_FILE_TESTS = frozenset(("-e", "-f", "-d", "-s", "-r", "-w", "-x", "-L", "-h", "-p", "-S", "-b", "-c", "-O", "-G"))
_NUMBER_TESTS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))


def _test(words: Sequence[str], parsed: ParsedArguments) -> None:
    """`test …`: the shapes that evaluate nothing; `-v` and the like run what a subscript holds."""
    rest = list(words)
    while rest[:1] == ["!"]:
        rest.pop(0)
    if len(rest) < 2 and not {"-v", "-R"} & set(rest):
        return
    if len(rest) == 2 and rest[0] in ("-z", "-n"):
        return
    if len(rest) == 2 and rest[0] in _FILE_TESTS:
        parsed.uses.append(("list", rest[1]))
    elif len(rest) == 3 and rest[1] in _NUMBER_TESTS:
        if not all(re.fullmatch(r"\s*[+-]?\d+\s*", side) for side in (rest[0], rest[2])):
            raise RefusedError("test compares numbers that are not plain")
    elif not (len(rest) == 3 and rest[1] in ("=", "==", "!=")):
        raise RefusedError("this test is not known to be read-only")


def _refuse_secrets(who: str, folder: str, place: Location) -> None:
    """Raise RefusedError where the tree under `folder` holds a secret's name, or is too large to say."""
    seen, waiting = 0, [os.path.join(place.cwd, folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        seen += len(entries)
        if seen > _WALK_CAP:
            raise RefusedError(f"{who} searches more than {_WALK_CAP} files, too many to look for secrets first")
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting += [] if who == "rg" and entry.name == ".git" else [entry.path]
            elif why := why_unread(entry.path, place.root):
                raise RefusedError(f"{who} reaches {entry.name}, which {why}")
            elif entry.is_symlink() and not contained(os.path.realpath(entry.path), place.root):
                continue
