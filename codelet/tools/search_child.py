"""The built-in search, run as a program of its own so that it can be stopped at any moment.

An expression that backtracks without end cannot be interrupted inside a process, nor can a walk through a
huge tree. The one argument is a JSON object; the output is that of ripgrep with `--null`: with a pattern
`path NUL line : text` (`-` for a line of context), without one `path NUL` for each file.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_REPOSITORIES = (".git", ".hg", ".jj", ".svn")
_SAMPLE = 1 << 16
_LONGEST_LINE = 1 << 20
_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))

Rules = list[tuple[str, "GitIgnoreSpec"]]
"""Ignore rules with the folder that their patterns are relative to, outermost first."""


def walk(root: str) -> Iterator[str]:
    """All regular files below `root` that no .gitignore excludes, each folder in the order of its names."""
    waiting: list[tuple[str, Rules] | str] = [(root, _rules_above(root))]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            continue
        folder, rules = item
        rules = _rules_with(folder, rules)
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: os.fsencode(entry.name), reverse=True)
        except OSError:
            continue
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in _REPOSITORIES or _ignored(entry.path, is_folder, rules):
                continue
            if is_folder:
                waiting.append((entry.path, rules))
            elif entry.is_file(follow_symlinks=False):
                waiting.append(entry.path)


def _rules_above(root: str) -> Rules:
    """The rules of the folders above, up to the top of the repository; none if they exclude `root` itself."""
    rules: Rules = []
    folder = root
    while not os.path.lexists(f"{folder}/.git") and folder != str(Path(folder).parent):
        folder = str(Path(folder).parent)
        rules = _own_rules(folder) + rules
    return [] if _ignored(root, True, rules) else rules


def _rules_with(folder: str, rules: Rules) -> Rules:
    """A repository inside another follows its own rules alone."""
    own = _own_rules(folder)
    return own if os.path.lexists(f"{folder}/.git") else rules + own


def _own_rules(folder: str) -> Rules:
    from pathspec import GitIgnoreSpec

    rules: Rules = []
    for name in (".git/info/exclude", ".gitignore"):
        try:
            text = Path(folder, name).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            continue
        # `b/**` is all that is inside b, not b itself: so that b's own .gitignore is read.
        lines = [f"{line}/*" if line.endswith("/**") else line for line in text.splitlines()]
        rules.append((folder, GitIgnoreSpec.from_lines(lines)))
    return rules


def _ignored(path: str, is_folder: bool, rules: Rules) -> bool:
    for folder, spec in reversed(rules):
        relative = path[len(folder.rstrip("/")) + 1 :] + ("/" if is_folder else "")
        included = spec.check_file(relative).include
        if included is not None:
            return bool(included)
    return False


def search(path: str, pattern: re.Pattern[str], around: int, output: BinaryIO) -> int:
    """Write the matching lines of one file with `around` lines of context; how many matched."""
    name = os.fsencode(path) + b"\0"
    before: deque[tuple[int, str]] = deque(maxlen=around)
    after = found = 0
    for number, line in _lines(path):
        if pattern.search(line):
            output.writelines(
                name + b"%d-%b\n" % (earlier, text.encode("utf-8", "surrogateescape")) for earlier, text in before
            )
            before.clear()
            found += 1
            after = around
            output.write(name + b"%d:%b\n" % (number, line.encode("utf-8", "surrogateescape")))
        elif after:
            after -= 1
            output.write(name + b"%d-%b\n" % (number, line.encode("utf-8", "surrogateescape")))
        else:
            before.append((number, line))
    return found


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a text file; none of a binary one. Of a very long line only the first MiB."""
    try:
        with Path(path).open("rb") as file:
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


def main(request: dict[str, Any]) -> None:
    """Do what the request asks for; stop after its number of hits."""
    output = sys.stdout.buffer
    root, left = request["root"], request["most"]
    include = re.compile(request["include"]) if request["include"] else None
    pattern = None
    if request["pattern"] is not None:
        text = re.escape(request["pattern"]) if request["literal"] else request["pattern"]
        pattern = re.compile(text, re.IGNORECASE if request["ignore_case"] else 0)
    paths = [root] if Path(root).is_file() else walk(root)
    for path in paths:
        if include and path != root and not include.match(path[len(root.rstrip("/")) + 1 :]):
            continue
        if pattern is None:
            output.write(os.fsencode(path) + b"\0")
            left -= 1
        else:
            left -= search(path, pattern, request["around"], output)
        if left < 0:
            break
    output.flush()


if __name__ == "__main__":
    _request = json.loads(sys.argv[1])
    sys.path[:] = _request["sys_path"]
    try:
        main(_request)
    except re.error as _error:
        sys.stderr.write(f"regex parse error: {_error}\n")
        sys.exit(2)
