"""Commands that no rule and no mode allows: those that destroy the system, the home or the whole workspace, or plant
code that runs later; and those that rewrite shared history, which the user must permit each time. They are found in
the commands that others start too: behind wrappers, in `sh -c` strings, after `find -exec`.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from codelet.safety.paths import contained, delicate, protected, relative_name, workspace_root
from codelet.safety.shell.programs import Location, resolved
from codelet.safety.shell.script_parser import FORK_BOMB, Redirect, Script, SimpleCommand, UnclearPart, read_script
from codelet.safety.tables import read_table, rows_by_word, word_list

_TABLE = read_table("shell")["critical"]
_WRITES = rows_by_word("shell", "writes")
_COPIES_ITSELF = re.compile(r"\$0\s*[|&]\s*\$0|%0\s*\|\s*%0")
REWRITES_HISTORY = "git push --force rewrites shared history"
"""Critical too, but it destroys nothing on this machine: the user can permit this very command."""

_WORKSPACE = "the whole workspace"
_TEXT_INPUT = ("it has a here-document", "it has a here-string")
_TEXT_CAP = 20_000
_ROOT_REMOVED = re.compile(
    r"\brm\s+(?:-\S+\s+)*-(?:\w*[rR]\w*|-recursive|-no-preserve-root)\s+(?:-\S+\s+)*[\"']?(?:/|~|\$\{?HOME\}?)/?\*?[\"']?(?:\s|[;&|)]|$)"
)


def find_critical(script: Script, workspace: Path) -> str | None:
    """Return why the command is critical, or None; reasons that the user cannot lift come first."""
    found = [why for each in with_nested(script, workspace) for why in _reasons(each, workspace)]
    return next((why for why in found if why != REWRITES_HISTORY), found[0] if found else None)


def _reasons(script: Script, workspace: Path) -> Iterator[str]:
    text, root = script.text[:_TEXT_CAP], workspace_root(workspace)
    unclear = {part.reason: part.confinable for part in script.parts if isinstance(part, UnclearPart)}
    if FORK_BOMB in unclear or _COPIES_ITSELF.search(text):
        yield "a fork bomb"
    started = {base_name(command.words[0].text) for command in script.commands if command.words}
    from_text = not unclear.keys().isdisjoint(_TEXT_INPUT) and not started.isdisjoint(SHELLS)
    if (from_text or not all(unclear.values())) and _ROOT_REMOVED.search(text):  # perhaps in no part
        yield "it removes the whole file system or home"
    for part in script.parts:
        for place in [] if isinstance(part, UnclearPart) else [Location(cwd, root) for cwd in sorted(part.folders)]:
            if isinstance(part, SimpleCommand):
                known = [word.text for word in part.words if not word.splits]
                yield from filter(None, (_simple(base_name(words[0]), words, place) for words in unwrapped(known)))
            elif isinstance(part, Redirect) and part.access == "write":
                yield from filter(None, [forbidden_place(part.target.text, place)])


def _simple(name: str, words: list[str], place: Location) -> str | None:
    """Return why the command itself is critical, apart from those that it starts; None if it is not."""
    rest, end = words[1:], words.index("--") if "--" in words else len(words)
    operands = [word for word in words[1:end] if not word.startswith("-")] + words[end + 1 :]
    match name:
        case "rm":
            recursive = _is_recursive(rest, "[rR]")
            if "--no-preserve-root" in words:
                return "rm --no-preserve-root removes the whole file system"
            for operand in operands:
                if (recursive or operand.endswith("*")) and (why := _everything(operand, place)):
                    return f"rm removes {why}"
        case "find":
            return _find(words, place)
        case "chmod" | "chown" | "chgrp" if _is_recursive(rest, "R"):
            for why in (_everything(one, place) for one in operands[1:]):
                if why and why != _WORKSPACE:
                    return f"{words[0]} -R changes {why}"
        case "mv":
            for why in filter(None, (_everything(one, place) for one in operands[:-1])):
                return f"mv moves {why} away"
            if operands[-1:] == ["/dev/null"]:
                return "mv replaces /dev/null"
        case "git":
            while rest and rest[0].startswith("-"):
                rest = rest[2:] if rest[0] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") else rest[1:]
            forced = (re.fullmatch(r"-\w*f\w*|--force|\+.+", word) or _means(word, "--mirror") for word in rest[1:])
            return REWRITES_HISTORY if rest[:1] == ["push"] and any(forced) else None
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
    return next(filter(None, (forbidden_place(one, place) for one in _written(name, words, operands))), None)


def _is_recursive(words: Sequence[str], letter: str) -> bool:
    return any(re.fullmatch(rf"-\w*{letter}\w*", word) or _means(word, "--recursive") for word in words)


def _written(name: str, words: list[str], operands: list[str]) -> Iterator[str]:
    """The places that a program writes or removes."""
    which = _WRITES.get(name, "")
    if name == "dd":
        yield from (word.partition("=")[2] for word in words if word.startswith("of="))
    elif name in ("sed", "perl"):
        if any(re.match(r"-\w*i", word) or _means(word, "--in-place") for word in words[1:]):
            yield from operands[1:]
    elif which:
        for word, following in itertools.pairwise([*words[1:], ""]) if which.endswith("target") else ():
            bundled = re.fullmatch(r"-\w*?t(.*)", word, re.DOTALL)
            if bundled or _means(word, "--target-directory"):
                yield (bundled[1] if bundled else word.partition("=")[2]) or following
        yield from operands if which.startswith("all") else operands[-1:]


def _find(words: list[str], place: Location) -> str | None:
    destroys = "-delete" in words or any(
        word in FIND_RUNS and base_name(words[at + 1]) in ("rm", "shred", "unlink")
        for at, word in enumerate(words[:-1])
    )
    narrowed = any(word.startswith(("-name", "-iname", "-path", "-regex", "-newer", "-mtime")) for word in words)
    rest = itertools.dropwhile(lambda word: re.fullmatch(r"-[HLP]|-O\d", word), words[1:])
    given = list(itertools.takewhile(lambda word: not word.startswith("-"), rest)) or ["."]
    found = (_everything(word, place) for word in given) if destroys and not narrowed else ()
    return next((f"find removes {why}" for why in found if why), None)


def _everything(operand: str, at: Location) -> str | None:
    """Return the name of the system folder, home or workspace that the operand is as a whole, or None."""
    home = resolved(os.environ.get("HOME") or "/")
    spelled = operand if operand.startswith("/") else f"{at.cwd}/{operand}"
    plain = re.sub(r"(?:/(?:\*+|\.|\.\*|\{[^}]*\}))+$", "", os.path.normpath(spelled)) or "/"
    place = resolved(plain)
    if place == at.root:
        return _WORKSPACE
    if contained(at.root, place):
        return "a folder that holds the workspace"
    if contained(home, place):
        return "the whole home"
    for one in (plain, place):  # `/bin` may be a link to a deeper folder
        if one.count("/") == 1 and one not in ("/tmp", "/mnt", "/srv", "/media", "/workspace", "/data"):
            return f"{one}, a folder of the system"
    return None


def forbidden_place(text: str, at: Location) -> str | None:
    """Return why a write at the place is always forbidden, or None if the user can decide."""
    if "\0" in text:
        return "the path holds a NUL character"
    spelled = text if text.startswith("/") else f"{at.cwd}/{text}"
    plain = os.path.normpath(spelled)
    for place in dict.fromkeys((plain, resolved(spelled))):
        is_socket = place.startswith(("/dev/tcp/", "/dev/udp/"))
        if is_socket or any(contained(place, one) for one in _TABLE["outputs"].split()):
            if place == plain:  # it leads elsewhere for the command than for us
                return None
            continue
        if any(contained(place, magic) for magic in ("/dev", "/proc", "/sys")):
            return f"{text} is a device or a switch of the kernel"
        if why := protected(relative_name(place, Path(at.root))):
            return f"{text} {why}"
        if contained(place, at.root):
            continue
        if delicate(place):
            return f"{text} plants what runs later"
        if place.startswith(tuple(_TABLE["plants"].split())):
            return f"{text} belongs to the system"
    return None


def _means(word: str, option: str) -> bool:
    """Return whether a word is the long option, perhaps abbreviated or with a value."""
    name = word.partition("=")[0]
    return len(name) > 2 and option.startswith(name)


SHELLS = frozenset(word_list("shell", "wrappers", "shells"))
_OPERAND_FIRST = frozenset(word_list("shell", "wrappers", "operand first"))
_WRAPPERS = _OPERAND_FIRST | frozenset(word_list("shell", "wrappers", "plain"))
_CHANGES_SHELL = frozenset(word_list("shell", "builtins"))
FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def unwrapped(words: Sequence[str]) -> Iterator[list[str]]:
    """The command itself and every command that it may start as a wrapper, each once; wrappers can be nested.

    The word after a wrapper's option may be its value or the command: both are tried.
    """
    waiting, seen = [0] if words else [], set[int]()
    while waiting:
        start = waiting.pop()
        if start in seen:
            continue
        seen.add(start)
        command, started, name = list(words[start:]), list[int](), base_name(words[start])
        yield command
        if name == "find":
            started = [at for at, word in enumerate(command[:-1], 1) if word in FIND_RUNS]
        maybe_value = name in _OPERAND_FIRST
        for at, word in enumerate(command[1:] if name in _WRAPPERS else (), 1):
            if word.startswith("-"):
                maybe_value = True
            elif not re.match(r"\w+=|\d+(?:\.\d+)?[smhd]?$", word):
                started.append(at)
                if not maybe_value:
                    break
                maybe_value = False
        waiting += [start + at for at in reversed(started)]


def nested_scripts(words: Sequence[str]) -> Iterator[str]:
    """The command lines in the words of a shell, `eval` and the like."""
    for inner in unwrapped(words):
        name = base_name(inner[0]) if inner else ""
        if name == "eval":
            yield " ".join(inner[1:])
        elif name == "env":
            for index, word in enumerate(inner[1:], 1):
                if found := re.fullmatch(r"(?:-\w*?S|--s[\w-]*=)(.*)|--s[\w-]*", word, re.DOTALL):
                    yield " ".join((found[1] or "", *inner[index + 1 :]))
        elif name in SHELLS or name == "su":
            for index, word in enumerate(inner[1:-1], 1):
                if re.fullmatch(r"-\w*c|--command", word):
                    yield inner[index + 1]
        elif name in ("ssh", "watch", "script", "flock") and len(inner) > 1:
            yield inner[-1]


def with_nested(script: Script, workspace: Path, most: int = 3) -> Iterator[Script]:
    """The script and every one that its commands start: in the words of a shell, or printed for one to read."""
    yield script
    printed: list[str] = []
    for command in script.commands if most else ():
        words = [word.text for word in command.words if not word.splits]
        texts = list(nested_scripts(words))
        if words[:1] == ["echo"]:
            printed.append(" ".join(itertools.dropwhile(lambda word: re.fullmatch("-[neE]+", word), words[1:])))
        elif words[:1] == ["printf"]:
            printed += [joint.join(words[1:]).replace("\\n", "\n") for joint in (" ", "\n")]
        for name, *rest in unwrapped(words) if printed else ():
            if base_name(name) in SHELLS and all(word.startswith("-") for word in rest):
                texts, printed = texts + printed[::-1], []
        for text in texts:
            yield from with_nested(read_script(text, workspace), workspace, most - 1)


def changes_shell(words: Sequence[str]) -> bool:
    """Return whether a command can change its shell, and so the commands after it."""
    rest = list(words)
    while rest and rest[0] in ("builtin", "command", "time"):
        rest.pop(0)
        while rest and rest[0].startswith("-"):
            rest.pop(0)
    return not _CHANGES_SHELL.isdisjoint(rest[:1])


def base_name(word: str) -> str:
    """The program's name without its folder, in lower case."""
    return word.rpartition("/")[2].lower()
