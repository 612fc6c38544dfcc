"""Commands that no rule and no mode allows: those that destroy the system, the home or the whole workspace, or plant
code that runs later; and those that rewrite shared history, which the user must permit each time. They are found in
wrappers and in `sh -c` strings too.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from codelet.record import Record
from codelet.safety import sensitive_names
from codelet.safety.paths import contained, relative_name, workspace_root
from codelet.safety.shell.nested import FIND_RUNS, SHELLS, base_name, nested_scripts, unwrapped
from codelet.safety.shell.script_parser import FORK_BOMB, Redirect, Script, ScriptPart, SimpleCommand, UnclearPart, read_script
from codelet.safety.tables import read_table, rows_by_word

_TABLE = read_table("shell")["critical"]
_WRITES = rows_by_word("shell", "writes")
_COPIES_ITSELF = re.compile(r"\$0\s*[|&]\s*\$0|%0\s*\|\s*%0")
REWRITES_HISTORY = "git push --force rewrites shared history"
"""Critical too, but it destroys nothing on this machine: the user can permit this very command."""

_TEXT_INPUT = ("it has a here-document", "it has a here-string")
_TEXT_CAP = 20_000
"""Characters of a command in which the patterns are searched."""
_ROOT_REMOVED = re.compile(
    r"\brm\s+(?:-\S+\s+)*-(?:\w*[rR]\w*|-recursive|-no-preserve-root)\s+(?:-\S+\s+)*[\"']?(?:/|~|\$\{?HOME\}?)/?\*?[\"']?(?:\s|[;&|)]|$)"
)


class _Context(Record):
    folders: frozenset[str]
    workspace: Path

    def forbids(self, targets: Sequence[str]) -> str | None:
        """Return why a write at one of these places is forbidden, or None."""
        found = (forbidden_place(target, cwd, self.workspace) for target in targets for cwd in self.folders)
        return next(filter(None, found), None)


def find_critical(command: str, script: Script, workspace: Path, depth: int = 0) -> str | None:
    """Return why the command is critical, or None; reasons that the user cannot lift come first."""
    text = command[:_TEXT_CAP]
    unclear = {part.reason: part.confinable for part in script.parts if isinstance(part, UnclearPart)}
    if FORK_BOMB in unclear or _COPIES_ITSELF.search(text):
        return "a fork bomb"
    started = {base_name(command.words[0].text) for command in script.commands if command.words}
    from_text = not unclear.keys().isdisjoint(_TEXT_INPUT) and not started.isdisjoint(SHELLS)
    if (from_text or not all(unclear.values())) and _ROOT_REMOVED.search(text):  # perhaps in no part
        return "it removes the whole file system or home"
    printed: list[str] = []
    lighter = None
    for part in script.parts:
        for why in _part_critical(part, workspace, depth, printed):
            if why and why != REWRITES_HISTORY:
                return why
            lighter = lighter or why
    return lighter


def _part_critical(part: ScriptPart, workspace: Path, depth: int, printed: list[str]) -> Iterator[str | None]:
    if isinstance(part, Redirect) and part.access == "write":
        yield _Context(part.folders, workspace).forbids([part.target.text])
    elif isinstance(part, SimpleCommand) and part.words:
        words = [word.text for word in part.words if not word.splits]
        if words[:1] == ["echo"]:  # to a shell, perhaps
            printed.append(" ".join(itertools.dropwhile(lambda word: re.fullmatch("-[neE]+", word), words[1:])))
        elif words[:1] == ["printf"]:
            printed += [joint.join(words[1:]).replace("\\n", "\n") for joint in (" ", "\n")]
        yield from _words_critical(words, _Context(part.folders, workspace), depth, printed)


def _words_critical(words: list[str], context: _Context, depth: int, printed: list[str]) -> Iterator[str | None]:
    for inner in unwrapped(words):
        name = base_name(inner[0])
        yield _simple(name, inner, context)
        if name in SHELLS and not [word for word in inner[1:] if not word.startswith("-")]:
            # The shell reads its commands from the pipe: it runs the lines printed before it.
            while printed and depth < 3:
                line = printed.pop()
                yield find_critical(line, read_script(line, context.workspace), context.workspace, depth + 1)
    if depth < 3:
        for text in nested_scripts(words):
            yield find_critical(text, read_script(text, context.workspace), context.workspace, depth + 1)


def _simple(name: str, words: list[str], context: _Context) -> str | None:
    """Return why the command itself is critical, apart from those that it starts; None if it is not."""
    rest, operands = words[1:], _operands(words)
    match name:
        case "rm":
            recursive = _is_recursive(rest, "[rR]")
            if "--no-preserve-root" in words:
                return "rm --no-preserve-root removes the whole file system"
            for operand in operands:
                if (recursive or operand.endswith("*")) and (why := _everything(operand, context)):
                    return f"rm removes {why}"
        case "find":
            return _find(words, context)
        case "chmod" | "chown" | "chgrp":
            recursive = _is_recursive(rest, "R")
            for why in filter(None, (_everything(one, context) for one in operands[1:] if recursive)):
                if why != "the whole workspace":
                    return f"{words[0]} -R changes {why}"
        case "mv":
            for why in filter(None, (_everything(one, context) for one in operands[:-1])):
                return f"mv moves {why} away"
            if operands[-1:] == ["/dev/null"]:
                return "mv replaces /dev/null"
        case "git":
            return _git(words)
        case "crontab" if "-l" not in words:
            return "crontab plants what runs later"
        case "init" if rest[:1] in (["0"], ["6"]):
            return "init stops the machine"
        case "systemctl" if set(_TABLE["systemctl stops"].split()) & set(rest):
            return "systemctl stops the machine"
        case "kill" | "killall5" if name == "killall5" or (words[-1:] == ["-1"] and len(words) != 2):
            return "it kills every process"
    if name in _TABLE["make file systems"].split() or name.startswith("mkfs"):
        return None if "/" in words[0] and name == "format" else f"{name} destroys a file system"
    if name in _TABLE["stop"].split():
        return f"{name} stops the machine"
    return context.forbids(_written(name, words, operands))


def _is_recursive(words: Sequence[str], letter: str) -> bool:
    return any(re.fullmatch(rf"-\w*{letter}\w*", word) or _means(word, "--recursive") for word in words)


def _written(name: str, words: list[str], operands: list[str]) -> list[str]:
    """The places that a program writes or removes."""
    if name == "dd":
        return [word.partition("=")[2] for word in words if word.startswith("of=")]
    if name in ("sed", "perl"):
        in_place = any(re.match(r"-\w*i", word) or _means(word, "--in-place") for word in words[1:])
        return operands[1:] if in_place else []
    which = _WRITES.get(name, "")
    written = operands if which.startswith("all") else operands[-1:] if which else []
    return [*(_named_targets(words) if which.endswith("target") else ()), *written]


def _find(words: list[str], context: _Context) -> str | None:
    destroys = "-delete" in words or any(
        word in FIND_RUNS and base_name(words[at + 1]) in ("rm", "shred", "unlink")
        for at, word in enumerate(words[:-1])
    )
    narrowed = any(word.startswith(("-name", "-iname", "-path", "-regex", "-newer", "-mtime")) for word in words)
    if destroys and not narrowed:
        rest = list(words[1:])
        while rest and re.fullmatch(r"-[HLP]|-O\d", rest[0]):
            rest.pop(0)
        given = list(itertools.takewhile(lambda word: not word.startswith("-"), rest))
        for word in given or ["."]:
            if why := _everything(word, context):
                return f"find removes {why}"
    return None


def _everything(operand: str, context: _Context) -> str | None:
    """Return the name of the system folder, home or workspace that the operand is as a whole, or None."""
    home = os.path.realpath(os.environ.get("HOME") or "/")
    root = workspace_root(context.workspace)
    for cwd in sorted(context.folders):
        spelled = operand if operand.startswith("/") else f"{cwd}/{operand}"
        plain = re.sub(r"(?:/(?:\*+|\.|\.\*|\{[^}]*\}))+$", "", os.path.normpath(spelled)) or "/"
        place = os.path.realpath(plain)
        if place == root:
            return "the whole workspace"
        if contained(root, place):
            return "a folder that holds the workspace"
        if contained(home, place):
            return "the whole home"
        for one in (plain, place):  # `/bin` may be a link to a deeper folder
            if one.count("/") == 1 and one not in ("/tmp", "/mnt", "/srv", "/media", "/workspace", "/data"):
                return f"{one}, a folder of the system"
    return None


def _named_targets(words: list[str]) -> Iterator[str]:
    """The folders of `-t` and `--target-directory`, attached or in the next word."""
    for word, following in itertools.pairwise([*words[1:], ""]):
        bundled = re.fullmatch(r"-\w*?t(.*)", word, re.DOTALL)
        if bundled or _means(word, "--target-directory"):
            yield (bundled[1] if bundled else word.partition("=")[2]) or following


def _git(words: list[str]) -> str | None:
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") else rest[1:]
    if rest[:1] != ["push"]:
        return None
    for word in rest[1:]:
        forced = re.fullmatch(r"-\w*f\w*|--force", word) or _means(word, "--mirror")
        if forced or (word.startswith("+") and len(word) > 1):
            return REWRITES_HISTORY
    return None


def _is_output(place: str) -> bool:
    """Return whether the place is the command's own output, /dev/null, or a socket, which asks."""
    return place.startswith(("/dev/tcp/", "/dev/udp/")) or any(
        contained(place, one) for one in _TABLE["outputs"].split()
    )


def forbidden_place(text: str, cwd: str, workspace: Path) -> str | None:
    """Return why a write at the place is always forbidden, or None if the user can decide."""
    if "\0" in text:
        return "the path holds a NUL character"
    spelled = text if text.startswith("/") else f"{cwd}/{text}"
    root = workspace_root(workspace)
    plain = os.path.normpath(spelled)
    if _is_output(plain):  # it leads elsewhere for the command than for us
        return None
    for place in dict.fromkeys((plain, os.path.realpath(spelled))):
        if _is_output(place):
            continue
        if any(contained(place, magic) for magic in ("/dev", "/proc", "/sys")):
            return f"{text} is a device or a switch of the kernel"
        if why := sensitive_names.protected(relative_name(place, workspace)):
            return f"{text} {why}"
        if not contained(place, root):
            if sensitive_names.delicate(place):
                return f"{text} plants what runs later"
            if place.startswith(tuple(_TABLE["plants"].split())):
                return f"{text} belongs to the system"
    return None


def _means(word: str, option: str) -> bool:
    """Return whether a word is the long option, perhaps abbreviated or with a value."""
    name = word.partition("=")[0]
    return len(name) > 2 and option.startswith(name)


def _operands(words: Sequence[str]) -> list[str]:
    """The words that are no options; after `--` all of them."""
    if "--" in words:
        at = list(words).index("--")
        return [word for word in words[1:at] if not word.startswith("-")] + list(words[at + 1 :])
    return [word for word in words[1:] if not word.startswith("-") or word == "-"]
