"""The files that bear on the current work: `@` completion lists them first.

Touches come from the records of calls, imports from the files themselves whenever they are asked for.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from codelet.call_record import CallRecord

# The most points of each part, so that none wins alone; the files in use, whose imports count.
_RECENT, _CHANGED, _NAMED, _IMPORTED, _IN_USE = 10, 5, 10, 5, 3
_LONGEST_PROMPT, _LONGEST_SOURCE = 20_000, 200_000
_WORD = re.compile(r"\w{3,}")
_PATH = re.compile(r"[\w@.~-]+(?:/[\w@.~-]+)+|[\w-]+\.\w{1,5}\b")
_PYTHON = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import\b[ \t]*\(?([\w, \t]*)|import[ \t]+([\w.]+))", re.MULTILINE
)
_QUOTED = re.compile(
    r"^[ \t]*(?:(?:import|export)\b[^'\"\n;]{0,300}|}[ \t]*from[ \t]+|(?:const|let|var)\b[^'\"\n;]{0,200}\(|"
    r"#[ \t]*include[ \t]*)['\"]([^'\"\n]{1,200})['\"]",
    re.MULTILINE,
)


class FileRelations:
    """The points of files, after these calls, for the next prompt; paths are relative to `root`.

    A file has points for a recent touch, for a change, if the prompt names it, and if a file in use imports it. The
    files in use are the three touched last.
    """

    def __init__(self, records: Iterable[CallRecord], prompt: str, root: Path) -> None:
        touched: dict[str, bool] = {}
        for fact in (fact for record in records for fact in record.files):
            if fact.effect in ("read", "created", "changed", "written"):
                touched[fact.path] = touched.pop(fact.path, False) or fact.effect != "read"
        self._changed = {path for path, changed in touched.items() if changed}
        newest = list(reversed(touched))[:_RECENT]
        self._recent = {path: _RECENT - place for place, path in enumerate(newest)}
        self._words = set(_WORD.findall(prompt[:_LONGEST_PROMPT]))
        self._paths = [posixpath.normpath(path) for path in _PATH.findall(prompt[:_LONGEST_PROMPT])]
        self._imported = {name for path in newest[:_IN_USE] for name in _imports_in(root / path, path)}

    def points(self, path: str) -> int:
        """Return the points of a file, at most 30."""
        name = path.rpartition("/")[2]
        points = self._recent.get(path, 0) + _CHANGED * (path in self._changed)
        if any(path == each or path.endswith(f"/{each}") for each in self._paths):
            points += _NAMED
        elif posixpath.splitext(name)[0] in self._words:
            points += _NAMED // 2
        stem = _stem_of(path) if self._imported else ""
        while stem and stem not in self._imported:
            stem = stem.partition("/")[2]  # an import may leave out outer folders
        return points + _IMPORTED * bool(stem)


def _imports_in(file: Path, path: str) -> Iterator[str]:
    """Yield the imports of a Python, script, or C file at `path`, as paths without an extension."""
    try:
        source = file.read_text("utf-8", "replace")[:_LONGEST_SOURCE] if file.is_file() else ""
    except OSError:
        return
    folder = posixpath.dirname(path)
    for name in _QUOTED.findall(source):
        yield _stem_of(posixpath.normpath(posixpath.join(folder, name)) if name.startswith(".") else name)
    for module, names, alone in _PYTHON.findall(source) if path.endswith((".py", ".pyi")) else ():
        name = module or alone
        dots = len(name) - len(name.lstrip("."))
        stem = name.strip(".").replace(".", "/")
        stem = posixpath.normpath(posixpath.join(folder, "../" * (dots - 1), stem)) if dots else stem
        yield from (stem, *(posixpath.join(stem, each) for each in names.replace(",", " ").split()))


def _stem_of(path: str) -> str:
    """Return a path without its extension, and without `__init__` or `index`."""
    return posixpath.splitext(path)[0].removesuffix("/__init__").removesuffix("/index")
