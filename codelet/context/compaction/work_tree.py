"""What git did to the files: which effects its commands had, which branch is checked out, and which commits stand.

What failed on another branch, or at a commit that a bisection tried, says nothing of the files as they are now; and
what was committed and taken back later is no change any more. In doubt about git's answer nothing is said of either.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from codelet.context.compaction.shell_commands import ShellCommand, commands

_Part = TypeVar("_Part")
# What git says that put another branch, or a commit, into the work tree, and of one that stays.
_SWITCHED = re.compile(
    r"^(?:Switched to|Previous HEAD position|HEAD is now at|Already on|Note: switching to)", re.MULTILINE
)
_NAMED = re.compile(
    r"^(?:On branch (\S+)|## ([^\s.]+)(?:\.\.\.|$)|\* (\S+)|\[(\S+) (?:\(root-commit\) )?[0-9a-f]{7,}\] )", re.MULTILINE
)
_REFUSED = re.compile(r"^(?:error|fatal): ", re.MULTILINE)
_CREATES = frozenset({"-b", "-B", "-c", "-C", "--create", "--force-create"})
_FILE = re.compile(r"\.[A-Za-z]\w*\Z|/\Z")
_MOVES = frozenset({"checkout", "switch", "bisect"})
_TELLS_NAME = frozenset({"status", "branch", "commit"})
# Commands that stop in the middle, and what goes on with them or ends them.
_STOPPING = frozenset({"rebase", "merge", "cherry-pick", "revert", "am"})
_GOES_ON = frozenset({"--continue", "--abort", "--skip", "--quit"})

# What git says of a commit, and of the one that is checked out now; a commit by its distance from the newest.
COMMITTED = re.compile(r"^\[[\w/.-]+(?: \(root-commit\))? ([0-9a-f]{7,})\] ", re.MULTILINE)
_NOW_AT = re.compile(r"^HEAD is now at ([0-9a-f]{7,})", re.MULTILINE)
_BACK = re.compile(r"(?:HEAD|@)(?:~(\d{1,3})?|(\^+))")
# Effects that leave all files as they are.
OF_COMMITS = frozenset({"committed", "reopened"})


@dataclass(frozen=True)
class FileEffect:
    """What was done to one path, which may be a pattern or a folder; "" as path of `reverted` means all files.

    `how` is deleted, moved (it stands elsewhere), written, committed, reverted to what was committed, stashed (reverted
    until it is unstashed), or edited in place, which removes the lines that match `pattern`. Of commits the path is a
    hash, `~N` for the last ones or "" (not known): committed, rewound to that one, reopened (their files stay as they
    are), undone by a commit of its own; `replaced` are files that another branch or commit put there.
    """

    how: str
    path: str
    pattern: re.Pattern[str] | None = None


class CheckedOut:
    """Follows which branch is checked out. `here` names it: "" is the one that a list begins with, and its other name
    is known only if git told it.
    """

    def __init__(self) -> None:
        self.here = ""
        self._before = self._bisected = ""
        self._labels: dict[str, str] = {}
        self._steps = 0
        self._folder: str | None = None
        self._merged: dict[str, set[str]] = {}

    def take(self, command: ShellCommand, passed: bool | None, output: str) -> None:
        """Take in a command and how it ended; one whose end is not told counts if git did not refuse it."""
        if command.name != "git" or len(command.words) < 2 or passed is False:
            return
        if passed is None and _REFUSED.search(output):
            return
        what, words = command.words[1], command.words[2:]
        if what in _TELLS_NAME:
            self._learn(output)
            return
        if self._folder not in (None, command.folder):  # another work tree
            return
        if what in _MOVES:
            self._folder = command.folder
        if what in ("merge", "rebase"):
            others = {self._labels[word] for word in words if word in self._labels}
            self._merged.setdefault(self.here, set()).update(others)
        elif what == "pull":  # what was pushed elsewhere may come with it
            self._merged.setdefault(self.here, set()).update(self._labels.values())
        elif what == "bisect" and words:
            self._bisect(words[0])
        elif what in ("checkout", "switch") and "--" not in words:
            self._switch(what, words, output)

    def held(self) -> set[str]:
        """The branches of which all is in what is checked out, itself first of all."""
        found, left = set[str](), [self.here]
        while left:
            label = left.pop()
            if label not in found:
                found.add(label)
                left += self._merged.get(label, ())
        return found

    def _learn(self, output: str) -> None:
        """Take the name of the branch from what git says of it."""
        found = _NAMED.search(output)
        if found and (name := next(filter(None, found.groups()))) not in ("detached", "(HEAD", "(no"):
            self._labels.setdefault(name, self.here)

    def _bisect(self, step: str) -> None:
        if step == "reset":
            self.here = self._bisected if self.here.startswith("bisect ") else self.here
        elif step in ("start", "good", "bad", "skip", "old", "new", "run"):
            if not self.here.startswith("bisect "):
                self._bisected = self.here
            self._steps += 1
            self.here = f"bisect {self._steps}"

    def _switch(self, what: str, words: tuple[str, ...], output: str) -> None:
        plain = [word for word in words if not word.startswith("-") or word == "-"]
        if _CREATES.intersection(words):
            if len(plain) == 1:  # of the same files
                self._labels[plain[0]] = self.here
            elif plain:
                self._go(self._labels.setdefault(plain[0], plain[0]))
        elif len(plain) == 1 and plain[0] != ".":
            told = _SWITCHED.search(output) is not None
            if what == "switch" or told or (not _FILE.search(plain[0]) and "Updated " not in output):
                self._go(self._before if plain[0] == "-" else self._label(plain[0]))

    def _label(self, name: str) -> str:
        """The label of a branch; one that was never named is the first one, if that was left last and has no name."""
        unnamed = "" not in self._labels.values()
        if name not in self._labels and unnamed and self.here and not self._before:
            return self._labels.setdefault(name, "")
        return self._labels.setdefault(name, name)

    def _go(self, label: str) -> None:
        if label != self.here:
            self._before, self.here = self.here, label


class Commits(Generic[_Part]):
    """What each commit holds, the newest last: parts are paths, or numbers of sources."""

    def __init__(self) -> None:
        self._made: list[tuple[str, set[_Part]]] = []

    def add(self, name: str, parts: set[_Part]) -> None:
        """A commit was made; `name` is its hash as git told it, "" if it did not."""
        self._made.append((name, set(parts)))

    def back_to(self, name: str) -> set[_Part]:
        """Take off the commits behind the one of that hash, or the last ones (`~2`), all if it is not known; return
        what they held.
        """
        keep = self._place(name) + 1 if not name.startswith("~") else len(self._made) - int(name[1:])
        gone = self._made[max(0, keep) :]
        del self._made[max(0, keep) :]
        return set[_Part]().union(*(parts for _, parts in gone))

    def without(self, name: str) -> set[_Part]:
        """What the commit of that hash, or the last one (`~0`), held; nothing if it is none of these."""
        place = len(self._made) - 1 if name == "~0" else self._place(name)
        return self._made[place][1] if place >= 0 else set()

    def _place(self, name: str) -> int:
        same = (
            i
            for i, (own, _) in enumerate(self._made)
            if own and name and (own.startswith(name) or name.startswith(own))
        )
        return max(same, default=-1)


def path_of(command: ShellCommand, path: str) -> str:
    """A path of a command as it is seen from the first folder."""
    if not command.folder or path.startswith(("/", "~")):
        return path
    return posixpath.normpath(f"{command.folder}/{path}")


def moved(named: Sequence[str]) -> list[FileEffect]:
    """The effects of a move. Its target is a file if it looks like one, else a folder."""
    if len(named) < 2:
        return []
    target = named[-1]
    found = [FileEffect("moved", path) for path in named[:-1]]
    for path in named[:-1]:
        name = posixpath.basename(path)
        folder = len(named) > 2 or target.endswith("/") or ("." in name and "." not in posixpath.basename(target))
        found.append(FileEffect("written", posixpath.join(target, name) if folder else target))
    return found


def of_git(command: ShellCommand, words: list[str], output: str, *, files: bool) -> list[FileEffect]:
    """The effects of a git command; `files` says that a checkout is one of files, not of a branch."""
    plain = [word for word in words[1:] if not word.startswith("-")]
    flags = {word for word in words[1:] if word.startswith("-")}
    paths = [path_of(command, word) for word in plain]
    match words[0] if words else "":
        case "commit" if "--dry-run" not in flags:
            amends = [FileEffect("reopened", "~1")] if "--amend" in flags else []
            return [*amends, FileEffect("committed", _hash(COMMITTED, output))]
        case "rm" if "--cached" not in flags:
            return [FileEffect("deleted", path) for path in paths]
        case "mv":
            return moved(paths)
        case "restore" if "--staged" not in flags or "--worktree" in flags:
            return [FileEffect("reverted", "" if path in (".", ":/") else path) for path in paths]
        case "checkout" if files or "." in plain:
            return [
                FileEffect("reverted", "" if word in (".", ":/") else path)
                for word, path in zip(plain, paths, strict=True)
            ]
        case "reset" if "--hard" in flags:
            back = [] if plain in ([], ["HEAD"]) else [FileEffect("rewound", _commit(plain[0], _hash(_NOW_AT, output)))]
            return [*back, FileEffect("reverted", "")]
        case "reset" if len(plain) == 1 and ("--soft" in flags or _BACK.fullmatch(plain[0])) and plain != ["HEAD"]:
            return [FileEffect("reopened", _commit(plain[0], ""))]
        case "revert" if plain and not flags & {"-n", "--no-commit"}:
            named = [_commit(word, word) for word in plain]
            return [FileEffect("undone", "~0" if name == "HEAD" else name) for name in named]
        case "merge" | "pull" | "rebase" | "cherry-pick" | "am" | "revert" if "up to date" not in output:
            made = _hash(COMMITTED, output)
            return [FileEffect("replaced", ""), *[FileEffect("committed", made)] * bool(made)]
        case "stash" if not plain or plain[0] in ("push", "save"):
            return [FileEffect("stashed", "")]
        case "stash" if plain[0] in ("pop", "apply"):
            return [FileEffect("unstashed", "")]
    return []


def _hash(told: re.Pattern[str], output: str) -> str:
    """The hash of a commit that git told of."""
    found = told.search(output)
    return found[1] if found else ""


def _commit(word: str, otherwise: str) -> str:
    """How many commits back a word says that a commit is, as `~N`; else another name of it."""
    found = _BACK.fullmatch(word)
    return otherwise if found is None else f"~{found[1] or len(found[2] or '') or 1}"


def goes_on(text: str, other: str) -> bool:
    """Whether a command goes on with another one of git that stopped, ends it, or does again what was refused."""
    one, two = _git_words(text), _git_words(other)
    if not one or not two or one[0] != two[0]:
        return False
    if one[0] in _STOPPING:
        return bool(_GOES_ON.intersection(one)) and not _GOES_ON.intersection(two)
    if one[0] == "push":
        mine, others = ([word for word in words[1:] if not word.startswith("-")] for words in (one, two))
        return mine == others or not mine or not others
    return False


@lru_cache(maxsize=1024)  # each command is asked about with every other one
def _git_words(text: str) -> tuple[str, ...]:
    found = commands(text)
    return found[-1].words[1:] if found and found[-1].name == "git" else ()
