"""Checks for programs whose options alone do not say what they do: those with a language of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from codelet.safety.paths import contained, why_unread
from codelet.safety.shell.folders import Location
from codelet.safety.shell.program_arguments import ParsedArguments, RefusedError, WildcardMatch
from codelet.safety.shell.sed import read_sed
from codelet.safety.shell.xargs import check_xargs

WALK_CAP = 20_000
"""Files that a recursive search is checked for secrets, before the check gives up and asks."""


Check = Callable[[Sequence[str], ParsedArguments, Location], None]


def _refuse_open(name: str, words: Sequence[str]) -> None:
    """Raise RefusedError where one of the words is one of several that a wildcard may stand for."""
    if any(isinstance(word, WildcardMatch) for word in words):
        raise RefusedError(f"{name} may take its arguments otherwise, by what a wildcard stands for")


def _find(words: Sequence[str], parsed: ParsedArguments, _: Location) -> None:
    """`find PATH… TESTS`: every word must be a test without effect."""
    rest = list(words)
    if rest[:1] == ["-P"]:
        rest.pop(0)
    while rest and not rest[0].startswith(("-", "(", "!", ",")):
        parsed.uses.append(("list", rest.pop(0)))
    _refuse_open("find", rest)
    while rest:
        word = rest.pop(0)
        kind = _FIND_TESTS.get(word)
        if word == "-exec" and (length := _counting(rest)):
            del rest[:length]
            parsed.programs.append("wc")
            continue
        if kind is None:
            raise RefusedError(f"find {word} is not known to be read-only")
        if kind == "":
            continue
        if not rest:
            raise RefusedError(f"find {word} lacks its value")
        value = rest.pop(0)
        if kind == "list":
            parsed.uses.append(("list", value))


def _counting(words: Sequence[str]) -> int:
    """How many words behind `-exec` run `wc`, which prints numbers alone, on what find found; 0 where they do not."""
    options = 1
    while options < len(words) and re.fullmatch(r"-[lwcmL]+", words[options]):
        options += 1
    return options + 2 if words[:1] == ["wc"] and words[options : options + 2] in (["{}", "+"], ["{}", ";"]) else 0


_FIND_TESTS: dict[str, str] = dict.fromkeys(
    ["(", ")", "!", ",", "-not", "-a", "-and", "-o", "-or", "-true", "-false", "-print", "-print0", "-ls",
     "-prune", "-quit", "-depth", "-d", "-mount", "-xdev", "-empty", "-nouser", "-nogroup", "-readable",
     "-writable", "-executable", "-daystart", "-noleaf", "-nowarn", "-warn", "-ignore_readdir_race"],
    "",
)  # fmt: skip
_FIND_TESTS |= dict.fromkeys(
    ["-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-regextype",
     "-lname", "-ilname", "-type", "-xtype", "-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime",
     "-cmin", "-used", "-perm", "-user", "-group", "-uid", "-gid", "-links", "-inum", "-maxdepth",
     "-mindepth", "-fstype", "-printf"],
    "text",
)  # fmt: skip
_FIND_TESTS |= dict.fromkeys(("-newer", "-anewer", "-cnewer", "-samefile"), "list")
# `-newerXY`: the time X of a file against the time Y of another, or against a date where Y is `t`.
_FIND_TESTS |= {f"-newer{one}{two}": "text" if two == "t" else "list" for one in "aBcm" for two in "aBcmt"}

_FILE_TESTS = frozenset(("-e", "-f", "-d", "-s", "-r", "-w", "-x", "-L", "-h", "-p", "-S", "-b", "-c", "-O", "-G"))
_TEXT_TESTS = frozenset(("=", "==", "!=", "<", ">"))
_NUMBER_TESTS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))


def _test(words: Sequence[str], parsed: ParsedArguments, place: Location) -> None:
    """`test …`: the shapes that evaluate nothing; `-v` and the like run what a subscript holds."""
    rest = list(words)
    _refuse_open("test", rest)
    if {"-v", "-R"} & set(rest):
        raise RefusedError("test -v evaluates the subscript in a name")
    while rest[:1] == ["!"]:
        rest.pop(0)
    for joint in ("-a", "-o"):
        if joint in rest[1:-1] and len(rest) > 3:
            at = rest.index(joint, 1)
            _test(rest[:at], parsed, place)
            _test(rest[at + 1 :], parsed, place)
            return
    if len(rest) < 2:
        return
    if len(rest) == 2 and rest[0] in ("-z", "-n"):
        return
    if len(rest) == 2 and rest[0] in _FILE_TESTS:
        parsed.uses.append(("list", rest[1]))
    elif len(rest) == 3 and rest[1] in ("-nt", "-ot", "-ef"):
        parsed.uses += [("list", rest[0]), ("list", rest[2])]
    elif len(rest) == 3 and rest[1] in _NUMBER_TESTS:
        if not all(re.fullmatch(r"\s*[+-]?\d+\s*", side) for side in (rest[0], rest[2])):
            raise RefusedError("test compares numbers that are not plain")
    elif not (len(rest) == 3 and rest[1] in _TEXT_TESTS):
        raise RefusedError("this test is not known to be read-only")


def _sed(_: Sequence[str], parsed: ParsedArguments, __: Location) -> None:
    """A sed script of the commands that neither run, write nor read another file."""
    scripts = parsed.values("-e", "--expression") or parsed.operands[:1]
    if not scripts:
        raise RefusedError("sed without a script")
    read_sed(scripts)


# A name may follow a number without a blank: `1system("x")` is a number and a call.
_AWK_UNSAFE = re.compile(
    r"[|>@`]|(?<![A-Za-z_])(?:system|getline|close|fflush|ENVIRON|PROCINFO|ARGV|ARGC|SYMTAB|FUNCTAB|include|load|namespace)\b",
    re.ASCII,
)


def _awk(_: Sequence[str], parsed: ParsedArguments, __: Location) -> None:
    """An awk program without a way to run, write or read anything but its input."""
    if not parsed.operands:
        raise RefusedError("awk without a program")
    program = parsed.operands[0].replace("||", "  ")
    pattern, brace, action = program.partition("{")
    if not set('"/') & set(pattern):
        # Outside of an action `>` compares; inside, it may write.
        program = pattern.replace(">", " ") + brace + action
    if _AWK_UNSAFE.search(program) or "\\\n" in program:
        raise RefusedError("this awk program is not known to be read-only")
    for value in parsed.values("-v", "--assign"):
        if value.partition("=")[0] in ("ARGV", "ARGC", "ENVIRON", "PROCINFO"):
            raise RefusedError("awk -v with a variable of awk's own")


_JQ_FLAGS = frozenset("rcMSesjanC")
_JQ_LONG = frozenset(
    ["--raw-output", "--compact-output", "--monochrome-output", "--sort-keys", "--exit-status", "--slurp",
     "--join-output", "--tab", "--ascii-output", "--null-input", "--color-output", "--raw-input", "--seq",
     "--stream"]
)  # fmt: skip
_JQ_UNSAFE = re.compile(
    r"(?<![A-Za-z_])(?:env|ENV|import|include|modulemeta|input_filename|get_search_list|__prog_args)\b", re.ASCII
)


def _jq(words: Sequence[str], parsed: ParsedArguments, _: Location) -> None:
    """`jq FILTER FILE…`: a filter that reaches neither the environment nor another file."""
    rest = list(words)
    operands: list[str] = []
    while rest:
        word = rest.pop(0)
        if word in ("--arg", "--argjson"):
            if len(rest) < 2:
                raise RefusedError(f"jq {word} lacks its values")
            _refuse_open("jq", rest[:2])
            del rest[:2]
        elif word == "--indent":
            _refuse_open("jq", rest[:1])
            if not rest or not rest.pop(0).isdigit():
                raise RefusedError("jq --indent takes a number")
        elif word.startswith("--") and len(word) > 2:
            if word not in _JQ_LONG:
                raise RefusedError(f"jq {word} is not known to be read-only")
        elif word.startswith("-"):
            if not set(word[1:]) <= _JQ_FLAGS | {"R"} or len(word) == 1:
                raise RefusedError(f"jq {word} is not known to be read-only")
        else:
            operands.append(word)
    _refuse_open("jq", operands[:1])
    if not operands or _JQ_UNSAFE.search(operands[0]):
        raise RefusedError("this jq filter is not known to be read-only")
    parsed.uses += [("read", operand) for operand in operands[1:]]


def _echo(_: Sequence[str], __: ParsedArguments, ___: Location) -> None:
    """`echo` prints its words, whatever they are."""


def _printf(words: Sequence[str], _: ParsedArguments, __: Location) -> None:
    """`printf` prints; `-v` and `%n` set a variable, whose subscript would be evaluated."""
    rest = list(words)
    if rest[:1] == ["--"]:
        rest.pop(0)
    elif rest[:1] and rest[0].startswith("-"):
        raise RefusedError(f"printf {rest[0]} is not known to be read-only")
    _refuse_open("printf", rest[:1])
    if rest and re.search(r"%[^%a-zA-Z]*[hlLqjzt]*n", rest[0].replace("%%", "")):
        raise RefusedError("printf %n sets a variable")


def _date(_: Sequence[str], parsed: ParsedArguments, __: Location) -> None:
    if parsed.operands and not parsed.operands[0].startswith("+"):
        raise RefusedError("date with an operand sets the clock")


def _command(_: Sequence[str], parsed: ParsedArguments, __: Location) -> None:
    if not parsed.has("-v", "-V"):
        raise RefusedError("command runs another program")


def _strings(words: Sequence[str], _: ParsedArguments, __: Location) -> None:
    # They are read before the options are told from the operands and from the options' values.
    if any(word.startswith("@") for word in words):
        raise RefusedError("strings @FILE takes options from the file")


def _less(words: Sequence[str], _: ParsedArguments, __: Location) -> None:
    # Its output is no terminal: it only copies its files. `+` brings commands of its own.
    if any(word.startswith("+") for word in words):
        raise RefusedError("less runs what stands behind +")


def _diff(_: Sequence[str], parsed: ParsedArguments, place: Location) -> None:
    for operand in parsed.operands:
        if Path(place.cwd, operand).is_dir():
            raise RefusedError("diff of folders reads every file in them")


def _grep(_: Sequence[str], parsed: ParsedArguments, place: Location) -> None:
    if parsed.has("-r", "--recursive", "-R", "--dereference-recursive"):
        given = parsed.operands if parsed.has("-e", "--regexp") else parsed.operands[1:]
        for operand in given or ["."]:
            follow = parsed.has("-R", "--dereference-recursive")
            refuse_secrets("grep -r", operand, place, follow=follow, endings=_included(parsed))


def _included(parsed: ParsedArguments) -> tuple[str, ...]:
    """The endings that the names of searched files have, or ("",) where other files are searched too."""
    filters = [(name, value or "") for name, value in parsed.options if name in ("--include", "--exclude")]
    wanted = [value for name, value in filters if name == "--include"]
    # What no filter matches is left out only where the first one is --include.
    if filters and filters[0][0] == "--include" and all(re.fullmatch(r"\*\.\w+", value) for value in wanted):
        return tuple(value[1:] for value in wanted)
    return ("",)


def _rg(_: Sequence[str], parsed: ParsedArguments, place: Location) -> None:
    """Where rg is told not to leave hidden and ignored files out, the tree is looked through first."""
    if parsed.has("--files", "--type-list"):
        return
    given = parsed.operands if parsed.has("-e", "--regexp") else parsed.operands[1:]
    if not given:
        parsed.uses.append(("read", "."))
    everything = parsed.has("--hidden", "-.", "--no-ignore", "-u", "--unrestricted")
    for operand in given or ["."]:
        # Told to start in a hidden folder, it does not leave it out, and its rules for names no longer see that one.
        inside = os.path.relpath(os.path.realpath(os.path.join(place.cwd, operand)), place.root)
        if everything or any(part.startswith(".") for part in Path(inside).parts):
            refuse_secrets("rg", operand, place)


def refuse_secrets(
    who: str, folder: str, place: Location, *, follow: bool = False, endings: tuple[str, ...] = ("",)
) -> None:
    """Raise RefusedError where the tree under `folder` holds a secret's name, or is too large to say.

    Only files whose names have one of the `endings` count.
    """
    seen = 0
    stack = [folder if folder.startswith("/") else f"{place.cwd}/{folder}"]
    while stack:
        try:
            entries = list(os.scandir(stack.pop()))
        except OSError:
            continue
        seen += len(entries)
        if seen > WALK_CAP:
            raise RefusedError(f"{who} searches more than {WALK_CAP} files, too many to look for secrets first")
        for entry in entries:
            if follow and entry.is_symlink():
                _refuse_followed(who, entry, place)
            if _is_folder(entry, follow=follow):
                # What git keeps for itself may repeat anything, but shows names and packed data only.
                if entry.name != ".git":
                    stack.append(entry.path)
            elif entry.name.endswith(endings) and (why := why_unread(entry.path, place.root)):
                raise RefusedError(f"{who} reaches {entry.name}, which {why}")


def _is_folder(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:  # a link to itself, or to where this user may not look: it holds nothing to be read
        return False


def _refuse_followed(who: str, link: os.DirEntry[str], place: Location) -> None:
    """Raise RefusedError where a link leads out of the workspace, or to what has a secret's name there."""
    target = os.path.realpath(link.path)
    if not contained(target, place.root):
        raise RefusedError(f"{who} follows {link.name} out of the workspace")
    if why := why_unread(target, place.root):
        raise RefusedError(f"{who} follows {link.name} to {Path(target).name}, which {why}")


PROGRAM_CHECKS: dict[str, Check] = {
    "awk": _awk,
    "command": _command,
    "date": _date,
    "diff": _diff,
    "echo": _echo,
    "find": _find,
    "grep": _grep,
    "jq": _jq,
    "less": _less,
    "printf": _printf,
    "rg": _rg,
    "sed": _sed,
    "strings": _strings,
    "test": _test,
    "xargs": check_xargs,
}
