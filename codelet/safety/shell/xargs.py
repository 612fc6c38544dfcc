"""What `xargs` runs, and on which names: programs that tell numbers and names, on what a list of files gave.

The names are known at run time only. So what prints the content of files is not allowed, and the names must come from a
program that lists the workspace. One that looks like an option is kept from being one: `prepare` writes a `--` behind
the program's own words.
"""

from __future__ import annotations

from collections.abc import Sequence

from codelet.safety.shell.folders import Location
from codelet.safety.shell.git_commands import split_git
from codelet.safety.shell.program_arguments import (
    ParsedArguments,
    Program,
    RefusedError,
    parse_arguments,
)
from codelet.safety.shell.syntax import SimpleCommand

XARGS = Program(
    "-0 --null -r --no-run-if-empty -t --verbose -x --exit -n:number --max-args:number -L:number -P:number "
    "--max-procs:number -s:number -I:text",
    "text text*",
    check="xargs",
    permutes=False,
)
_RUNS = {
    "wc": Program("-l --lines -w --words -c --bytes -m --chars -L --max-line-length"),
    "dirname": Program("-z --zero"),
    "basename": Program("-a --multiple -z --zero"),
}
"""Programs that print nothing of a file but its name and its numbers, each with its permitted options."""

_FILTERS = {
    "grep": Program("-v --invert-match -i --ignore-case -E -F -w -x -z", "text"),
    "sort": Program("-r -u -n -z -V", ""),
    "uniq": Program("-u -d -z", ""),
    "head": Program("-n:number -NUM -z", ""),
    "tail": Program("-n:number -NUM -z", ""),
}
"""Programs that pass on some of the lines that they read, each as it was."""

_FIND_PRINTS_OTHERWISE = frozenset(("-printf", "-ls", "-exec"))
_GIT_LISTS = Program(
    "-c --cached -m --modified -o --others -z --exclude-standard --deduplicate -d --deleted -x:text --exclude:text",
    "text*",
)
_RG_LISTS = Program(
    "-l --files-with-matches --files-without-match --files -i --ignore-case -s -S --smart-case -w -x -F -U "
    "-P -0 --null --hidden -e:text --regexp:text -g:text --glob:text --iglob:text -t:text --type:text "
    "-T:text --type-not:text",
    "text*",
)


def check_xargs(_: Sequence[str], parsed: ParsedArguments, __: Location) -> None:
    """`xargs PROGRAM OPTIONS`: a program that tells numbers and names, with nothing but options of its own."""
    name, *words = parsed.operands or ("",)
    program = _RUNS.get(name)
    if program is None:
        raise RefusedError(f"xargs {name}".rstrip() + " is not known to tell no more than numbers and names")
    places = parsed.values("-I")
    if places:
        if places[0] and places[0] in "--":
            raise RefusedError("xargs -I puts names in the place of the -- that ends the options")
        if len(places) > 1 or not places[0] or words[-1:] != places or any(places[0] in word for word in words[:-1]):
            raise RefusedError("xargs -I with a name that is not the last word")
        words = words[:-1]
    parse_arguments(f"xargs {name}", program, words)
    parsed.programs.append(name)


def refuse_unknown_input(command: SimpleCommand) -> None:
    """Raise RefusedError unless what xargs reads is a list of files of the workspace."""
    if not command.piped_from:
        raise RefusedError("xargs on names that do not come from a list of files")
    source, *filters = command.piped_from
    words = [word.text for word in source.words]
    if any(word.dynamic for one in command.piped_from for word in one.words) or not _lists_files(words):
        raise RefusedError("xargs on names that do not come from a list of files")
    for one in filters:
        name, *rest = (word.text for word in one.words) if one.words else ("",)
        if name not in _FILTERS or any(word.glob for word in one.words):
            raise RefusedError(f"xargs behind {name}, which may change the names")
        parse_arguments(name, _FILTERS[name], rest)


def _lists_files(words: Sequence[str]) -> bool:
    """Whether a command, judged to be read-only by itself, prints names of files of the workspace and nothing else."""
    if words[:1] == ["find"]:
        return not _FIND_PRINTS_OTHERWISE & set(words)
    if words[:1] == ["git"]:
        index, name = split_git(words[1:])
        if name != "ls-files":
            return False
        parse_arguments("git ls-files", _GIT_LISTS, words[index + 2 :])
        return True
    if words[:1] == ["rg"]:
        options = parse_arguments("rg", _RG_LISTS, words[1:])
        return options.has("-l", "--files-with-matches", "--files-without-match", "--files")
    return False


def end_of_own_words(command: SimpleCommand) -> int:
    """Which word of an allowed `xargs …` is the last of its program's own, behind which `--` belongs."""
    words = [word.text for word in command.words]
    places = parse_arguments("xargs", XARGS, words[1:]).values("-I")
    return len(words) - 1 - len(places)
