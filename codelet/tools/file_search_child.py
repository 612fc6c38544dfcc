"""The built-in search, run as a separate program so that it can be stopped at any moment.

An expression that backtracks without end cannot be interrupted inside a process, nor can a walk through a huge tree.
The first argument is a JSON object, the others are paths below the root that are skipped. The output is that of ripgrep
with `--null` and `--byte-offset`, which is 0 here: with a pattern `path NUL line : 0 : text` (`-` for a line of
context), without one `path NUL` for each file. Every folder and file is opened from the folder that holds it, so no
link is followed, whenever it was put there.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import resource
import stat
import sys
from collections import deque
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_REPOSITORIES = (".git", ".hg", ".jj", ".svn")
_SAMPLE = 1 << 16
_LONGEST_LINE = 1 << 20
_MOST_OPEN = 8192
_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY  # a pipe in a file's place is not waited for

IgnoreRules = list[tuple[str, "GitIgnoreSpec"]]
"""Ignore rules with the folder that their patterns are relative to, outermost first."""


class FoundFile(NamedTuple):
    """A file below the root: its path as shown, and the open folder and the name to open it by."""

    path: str
    folder: int | None
    name: str


class _Listed(NamedTuple):
    """A folder that is open: its path, descriptor and rules, and the entries still to come, last first."""

    path: str
    descriptor: int
    rules: IgnoreRules | None
    entries: list[tuple[str, bool]]


def opened(path: str, flags: int, folder: int | None = None) -> int:
    """Open `path`, absolute or below an open folder, without following links; return the descriptor.

    Raises OSError. So a folder that is swapped for a link while the search runs leads to nothing.
    """
    *parts, name = path.split("/")
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    if parts[:1] == [""]:
        folder = None
        parts[0] = "/"
    own: list[int] = []
    try:
        for part in filter(None, parts):
            own.append(os.open(part, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=own[-1] if own else folder))
        return os.open(name or ".", flags, dir_fd=own[-1] if own else folder)
    finally:
        for descriptor in own:
            os.close(descriptor)


def walk(root: str, top: int, *, ignored: bool = False) -> Iterator[FoundFile]:
    """Yield all regular files below the open folder `root` that no .gitignore excludes, in the order of their names.

    With `ignored`, excluded ones too. Each folder is opened from the one that holds it. A file can be opened until the
    next one is requested.
    """
    waiting = [_listed(root, top, None if ignored else _rules_above(root))]
    while waiting:
        folder = waiting[-1]
        if not folder.entries:
            os.close(folder.descriptor)
            waiting.pop()
            continue
        name, is_folder = folder.entries.pop()
        path = f"{folder.path.rstrip('/')}/{name}"
        if not is_folder:
            yield FoundFile(path, folder.descriptor, name)
            continue
        with contextlib.suppress(OSError):
            waiting.append(_listed(path, opened(name, os.O_RDONLY | os.O_DIRECTORY, folder.descriptor), folder.rules))


def _listed(path: str, descriptor: int, above: IgnoreRules | None) -> _Listed:
    rules = None if above is None else _rules_with(path, descriptor, above)
    entries = []
    with contextlib.suppress(OSError), os.scandir(descriptor) as scan:
        for entry in sorted(scan, key=lambda entry: os.fsencode(entry.name), reverse=True):
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in _REPOSITORIES or _ignored(f"{path.rstrip('/')}/{entry.name}", is_folder, rules or []):
                continue
            if is_folder or entry.is_file(follow_symlinks=False):
                entries.append((entry.name, is_folder))
    return _Listed(path, descriptor, rules, entries)


def _rules_above(root: str) -> IgnoreRules:
    """The rules of the folders above, up to the top of the repository; none if they exclude `root` itself."""
    rules: IgnoreRules = []
    folder = root
    while not os.path.lexists(f"{folder}/.git") and folder != str(Path(folder).parent):
        folder = str(Path(folder).parent)
        with contextlib.suppress(OSError):
            descriptor = opened(folder, os.O_RDONLY | os.O_DIRECTORY)
            rules = _own_rules(folder, descriptor) + rules
            os.close(descriptor)
    return [] if _ignored(root, True, rules) else rules


def _rules_with(path: str, descriptor: int, rules: IgnoreRules) -> IgnoreRules:
    """A repository inside another follows its own rules alone."""
    own = _own_rules(path, descriptor)
    try:
        os.stat(".git", dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return rules + own
    return own


def _own_rules(path: str, descriptor: int) -> IgnoreRules:
    from pathspec import GitIgnoreSpec

    rules: IgnoreRules = []
    for name in (".git/info/exclude", ".gitignore"):
        with contextlib.suppress(OSError), _regular(name, descriptor) as file:
            text = file.read().decode("utf-8", "surrogateescape")
            # `b/**` is all that is inside b, not b itself: so that b's own .gitignore is read.
            lines = [f"{line}/*" if line.endswith("/**") else line for line in text.splitlines()]
            rules.append((path, GitIgnoreSpec.from_lines(lines)))
    return rules


def _regular(path: str, folder: int | None) -> BufferedReader:
    """A regular file, open to read. Raises OSError for anything else."""
    descriptor = opened(path, _FILE, folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file")
    return os.fdopen(descriptor, "rb")


def _ignored(path: str, is_folder: bool, rules: IgnoreRules) -> bool:
    for folder, spec in reversed(rules):
        relative = path[len(folder.rstrip("/")) + 1 :] + ("/" if is_folder else "")
        included = spec.check_file(relative).include
        if included is not None:
            return bool(included)
    return False


def search_file(place: FoundFile, pattern: re.Pattern[str], around: int, output: BinaryIO) -> int:
    """Write the matching lines of one file with `around` lines of context; how many matched."""
    name = os.fsencode(place.path) + b"\0"
    before: deque[tuple[int, str]] = deque(maxlen=around)
    after = found = 0
    for number, line in _lines(place):
        if pattern.search(line):
            output.writelines(
                name + b"%d-0-%b\n" % (earlier, text.encode("utf-8", "surrogateescape")) for earlier, text in before
            )
            before.clear()
            found += 1
            after = around
            output.write(name + b"%d:0:%b\n" % (number, line.encode("utf-8", "surrogateescape")))
        elif after:
            after -= 1
            output.write(name + b"%d-0-%b\n" % (number, line.encode("utf-8", "surrogateescape")))
        else:
            before.append((number, line))
    return found


def _lines(place: FoundFile) -> Iterator[tuple[int, str]]:
    """The numbered lines of a text file; none of a binary one. Of a very long line only the first MiB."""
    try:
        with _regular(place.name, place.folder) as file:
            sample = file.peek(_SAMPLE)
            mark, codec = next((pair for pair in _MARKS if sample.startswith(pair[0])), (b"", "utf-8"))
            if codec != "utf-8":
                text = file.read()[len(mark) :].decode(codec, "replace")
                yield from enumerate(re.split("\r?\n", text.removesuffix("\n")), 1)
                return
            if b"\0" in file.read(_SAMPLE):
                return
            file.seek(len(mark))
            number = 0
            whole = True
            while piece := file.readline(_LONGEST_LINE):
                number += whole
                if whole:
                    yield number, piece.rstrip(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
                whole = piece.endswith(b"\n")
    except OSError:
        return


def main(request: dict[str, Any], skipped: frozenset[str]) -> None:
    """Do what the request asks for without opening the files `skipped`; stop after its number of hits."""
    with contextlib.suppress(ValueError, OSError):  # a folder stays open while what is in it is searched
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_OPEN if most < 0 else min(most, _MOST_OPEN), most))
    output = sys.stdout.buffer
    root, left = request["root"], request["most"]
    include = re.compile(request["include"]) if request["include"] else None
    pattern = None
    if request["pattern"] is not None:
        text = re.escape(request["pattern"]) if request["literal"] else request["pattern"]
        pattern = re.compile(text, re.IGNORECASE if request["ignore_case"] else 0)
    try:
        top = opened(root, _FILE)
    except OSError:
        return
    whole = stat.S_ISDIR(os.fstat(top).st_mode)
    start = len(root.rstrip("/")) + 1
    for place in walk(root, top, ignored=request["ignored"]) if whole else [FoundFile(root, None, root)]:
        if whole and (place.path[start:] in skipped or (include and not include.match(place.path[start:]))):
            continue
        if pattern is None:
            output.write(os.fsencode(place.path) + b"\0")
            left -= 1
        else:
            left -= search_file(place, pattern, request["around"], output)
        if left < 0:
            break
    output.flush()


if __name__ == "__main__":
    _request = json.loads(sys.argv[1])
    sys.path[:] = _request["sys_path"]
    try:
        main(_request, frozenset(sys.argv[2:]))
    except re.error as _error:
        sys.stderr.write(f"regex parse error: {_error}\n")
        sys.exit(2)
