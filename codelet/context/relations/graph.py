"""The graph: the files of a session, their imports, and how much each file bears on the current work."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator

from codelet.context.relations.imports import stem_of
from codelet.record import Record

MOST_FILES = 300
"""The most files; beyond it the least recently touched one is removed."""
RECENT_CAP, CHANGED_CAP, NAMED_CAP, REFERS_CAP, REFERRED_CAP = 10, 5, 10, 5, 5
LONGEST_PROMPT = 20_000

_IN_USE = 3
_WORD = re.compile(r"\w{3,}")
_PATH = re.compile(r"[\w@.~-]+(?:/[\w@.~-]+)+|[\w-]+\.\w{1,5}\b")


class Bearing(Record, kw_only=True):
    """A file's points, by reason, each capped so that none wins alone.

    It was touched lately, it was changed, the prompt names it, it imports a file in use, or a file in use imports it.
    The files in use are the three touched last and up to three that the prompt names.
    """

    recent: int = 0
    changed: int = 0
    named: int = 0
    refers: int = 0
    referred: int = 0

    @property
    def total(self) -> int:
        return self.recent + self.changed + self.named + self.refers + self.referred


_NOTHING = Bearing()


class _File(Record, kw_only=True):
    """A file's imports, and whether it was changed."""

    imports: frozenset[str] = frozenset()
    changed: bool = False


class Relations:
    """The files of a session, in the order of their newest touch, and the user's prompt."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._words: frozenset[str] = frozenset()
        self._paths: frozenset[str] = frozenset()
        self._in_use: list[str] | None = None
        self._imported: frozenset[str] = frozenset()
        self._places: dict[str, int] = {}
        self._hints: set[str] = set()

    @property
    def files(self) -> list[str]:
        """The files, the newest touch last."""
        return list(self._files)

    def touch(self, path: str, imports: Collection[str] = (), *, changed: bool = False, whole: bool = False) -> None:
        """Note that a file was read or changed, with the imports seen in it; `whole` if these are all."""
        known = self._files.pop(path, _File())
        before = () if whole else known.imports
        self._files[path] = _File(imports=frozenset((*before, *imports)), changed=known.changed or changed)
        if len(self._files) > MOST_FILES:
            del self._files[next(iter(self._files))]
        self._in_use = None

    def ask(self, prompt: str) -> None:
        """Set the user's prompt."""
        text = prompt[:LONGEST_PROMPT]
        self._words = frozenset(_WORD.findall(text))
        self._paths = frozenset(posixpath.normpath(path) for path in _PATH.findall(text))
        self._in_use = None

    def bearing(self, path: str) -> Bearing:
        """Return a file's points; an untouched file may be imported or named."""
        use = self._used()
        file = self._files.get(path)
        if file is None and not self._is_hinted(path):  # nearly all of a large workspace
            return _NOTHING
        others = path not in use
        referred = others and not self._imported.isdisjoint(_ends_of(path))
        refers = others and file is not None and any(not file.imports.isdisjoint(_ends_of(each)) for each in use)
        return Bearing(
            recent=max(0, RECENT_CAP - self._places[path]) if file is not None else 0,
            changed=CHANGED_CAP if file is not None and file.changed else 0,
            named=self._named(path),
            refers=REFERS_CAP if refers else 0,
            referred=REFERRED_CAP if referred else 0,
        )

    def _is_hinted(self, path: str) -> bool:
        """Return whether the prompt or an import may name a file."""
        name = path.rpartition("/")[2]
        return name in self._hints or name.partition(".")[0] in self._hints

    def _used(self) -> list[str]:
        if self._in_use is None:
            files = list(self._files)
            asked = [path for path in files if self._named(path)]
            self._in_use = list(dict.fromkeys([*files[-_IN_USE:], *asked[-_IN_USE:]]))
            self._imported = frozenset(name for path in self._in_use for name in self._files[path].imports)
            self._places = {path: place for place, path in enumerate(reversed(files))}
            named = (*self._imported, *self._paths)
            self._hints = {*self._words, *(name.rpartition("/")[2].partition(".")[0] for name in named)}
            self._hints.update(("__init__", "index") if self._imported else ())
        return self._in_use

    def _named(self, path: str) -> int:
        """Return 10 if the prompt names a file by its path or the end of it, 5 for its name without an extension."""
        if any(path == named or path.endswith(f"/{named}") for named in self._paths):
            return NAMED_CAP
        return NAMED_CAP // 2 if posixpath.splitext(posixpath.basename(path))[0] in self._words else 0


def _ends_of(path: str) -> Iterator[str]:
    """Yield the forms in which an import can name a path: without its extension and without outer folders."""
    stem = stem_of(path)
    while stem:
        yield stem
        stem = stem.partition("/")[2]
