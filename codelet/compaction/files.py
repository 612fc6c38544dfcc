"""What shell commands did to files: deleted, moved, written, taken back, edited in place.

Only what surely ran counts: the first command of a line, or one whose line went well; a program that failed says so.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

from codelet.compaction.shell_line import TRIVIAL, Command

_PROGRAMS = frozenset({"rm", "unlink", "mv", "git", "sed", "perl", "touch", "tee"})
_SAID_NO = re.compile(r"(?:^|\n)(?:rm|mv|unlink|sed|fatal|error|git|perl)\b[^\n]{0,40}:")
_SUBSTITUTION = re.compile(r"(?:\A|[;\s])s([/|#,@!:%])((?:(?!\1)[^\\\n]|\\.)*)\1(?:(?!\1)[^\\\n]|\\.)*\1")
# What a basic regular expression takes as it stands, and an extended one does not.
_SWAPPED = re.compile(r"\\([+?(){}|])|([+?(){}|])")
_LONGEST_PATTERN = 300
# A repeated group, or many repetitions, could take a time that grows without bounds.
_SLOW = re.compile(r"\)\s*[*+{]|\\\d|(?:[*+}].*){4}", re.DOTALL)
_GLOB = re.compile(r"[*?\[]")
_PASSING = ("/tmp/", "/dev/", "/proc/")


@dataclass(frozen=True)
class Effect:
    """What was done to one path, which may be a pattern or a folder; "" as path of `reverted` means all files.

    `how` is deleted, moved (it stands elsewhere), written, committed, reverted to what was committed, or edited; of
    what is edited in place the lines go that match `pattern`.
    """

    how: str
    path: str
    pattern: re.Pattern[str] | None = None


def same_file(one: str, other: str) -> bool:
    """Whether two paths can name one file: they are equal, or one ends with the other."""
    if one == other:
        return True
    long, short = (one, other) if len(one) > len(other) else (other, one)
    short = short.removeprefix("./")
    return bool(short) and (long == short or long.endswith("/" + short))


def meant(pattern: str, path: str) -> bool:
    """Whether a path that a command names, which may be a pattern or a folder, means a file."""
    pattern = pattern.rstrip("/").removeprefix("./")
    if _GLOB.search(pattern):
        return fnmatchcase(path, pattern) or fnmatchcase(path, "*/" + pattern)
    return same_file(pattern, path) or f"/{pattern.lstrip('/')}/" in "/" + path


def effects(ended: Sequence[tuple[Command, bool | None]], output: str) -> list[Effect]:
    """The effects of a line of commands, in order."""
    found: list[Effect] = []
    sure = True
    for command, passed in ended:
        if command.link in ("|", "||", "&"):
            sure = False
        elif command.link == ";":
            sure = True
        acts = command.name in _PROGRAMS or command.writes
        if acts and (passed is True or (passed is None and sure and not _SAID_NO.search(output))):
            found += _of(command)
        sure = sure and (command.name in TRIVIAL or command.name in _PROGRAMS)
    return found


def _of(command: Command) -> list[Effect]:
    words = command.words[1:]
    named = [_placed(command, word) for word in words if not word.startswith("-")]
    found = [Effect("written", _placed(command, file)) for file in command.writes]
    match command.name:
        case "rm" | "unlink":
            found += [Effect("deleted", path) for path in named]
        case "mv":
            found += _moved(named)
        case "touch" | "tee":
            found += [Effect("written", path) for path in named]
        case "git":
            found += _of_git(command, [word for word in words if word != "--"], separated="--" in words)
        case "sed" | "perl":
            found += _in_place(command)
    return [effect for effect in found if not effect.path.startswith(_PASSING) and "$" not in effect.path]


def _placed(command: Command, path: str) -> str:
    if not command.folder or path.startswith(("/", "~")):
        return path
    return posixpath.normpath(f"{command.folder}/{path}")


def _moved(named: Sequence[str]) -> list[Effect]:
    """What a move takes from where it was. Where to is a file if it looks like one, else a folder."""
    if len(named) < 2:
        return []
    target = named[-1]
    found = [Effect("moved", path) for path in named[:-1]]
    for path in named[:-1]:
        name = posixpath.basename(path)
        folder = len(named) > 2 or target.endswith("/") or ("." in name and "." not in posixpath.basename(target))
        found.append(Effect("written", posixpath.join(target, name) if folder else target))
    return found


def _of_git(command: Command, words: list[str], *, separated: bool) -> list[Effect]:
    plain = [word for word in words[1:] if not word.startswith("-")]
    flags = [word for word in words[1:] if word.startswith("-")]
    paths = [_placed(command, word) for word in plain]
    match words[0] if words else "":
        case "commit" if "--dry-run" not in flags:
            return [Effect("committed", "")]
        case "rm" if "--cached" not in flags:
            return [Effect("deleted", path) for path in paths]
        case "mv":
            return _moved(paths)
        case "restore" if "--staged" not in flags or "--worktree" in flags:
            return [Effect("reverted", "" if path in (".", ":/") else path) for path in paths]
        case "checkout" if separated or "." in plain:
            return [
                Effect("reverted", "" if word in (".", ":/") else path) for word, path in zip(plain, paths, strict=True)
            ]
        case "reset" if "--hard" in flags:
            return [Effect("reverted", "")]
        case "stash" if not plain or plain[0] in ("push", "save"):
            return [Effect("reverted", "")]
    return []


def _in_place(command: Command) -> list[Effect]:
    """What `sed -i` and `perl -pi` do: the lines that their substitutions match are no more what they were."""
    words = list(command.words[1:])
    flags = [word for word in words if word.startswith("-")]
    if not any(re.match(r"-\w*i|--in-place", flag) for flag in flags):
        return []
    scripts: list[str] = []
    files: list[str] = []
    for before, word in pairwise(["", *words]):
        if before in ("-e", "--expression"):
            scripts.append(word)
        elif word and not word.startswith("-"):  # an empty word is the suffix that BSD's sed wants behind -i
            (files if scripts or "-e" in flags else scripts).append(word)
    extended = command.name == "perl" or any(re.match(r"-\w*[Er]\Z|--regexp-extended", flag) for flag in flags)
    old = [text for script in scripts for _, text in _SUBSTITUTION.findall(script)]
    patterns = [pattern for text in old if (pattern := _compiled(text, extended=extended)) is not None]
    found = []
    for path in files:
        found += [Effect("edited", _placed(command, path), pattern) for pattern in patterns]
        found.append(Effect("written", _placed(command, path)))
    return found


def _compiled(text: str, *, extended: bool) -> re.Pattern[str] | None:
    """The pattern of a substitution; None for one that takes a construct which is not Python's."""
    if not extended:
        text = _SWAPPED.sub(lambda found: found.group(1) or "\\" + found.group(2), text)
    try:
        return re.compile(text, re.MULTILINE) if len(text) <= _LONGEST_PATTERN and not _SLOW.search(text) else None
    except (re.error, RecursionError, OverflowError):
        return None
