"""Secret, protected and delicate file names, by the table `names`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

from codelet.safety.tables import rows_by_word, word_list

SECRET_FILES = word_list("names", "secret", "files")
COPIES = word_list("names", "secret", "copies")
SECRET_PLACES = word_list("names", "secret", "places")
NOT_SECRET = word_list("names", "secret", "not")
"""Names that the patterns match although they hold no secret."""
SECRET_FOLDERS = word_list("names", "secret", "folders")
DELICATE_FOLDERS = word_list("names", "delicate folders")
DELICATE_FILES = word_list("names", "delicate files")
_RUN_LATER = word_list("names", "run later")
_PROTECTED_FOLDERS = rows_by_word("names", "protected folders")
_PROTECTED_FILES = rows_by_word("names", "protected files")


@cache
def _parsed(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...], list[list[str]]]:
    """Whole names, prefixes, suffixes, and the pieces of the other patterns around their `*`.

    A regular expression would take each start 2 ms to compile.
    """
    split = [pattern.split("*") for pattern in patterns]
    names = frozenset(pieces[0] for pieces in split if len(pieces) == 1)
    begins = tuple(pieces[0] for pieces in split if pieces[1:] == [""])
    ends = tuple(pieces[1] for pieces in split if len(pieces) == 2 and not pieces[0])
    return names, begins, ends, [pieces for pieces in split if len(pieces) > 2 or (len(pieces) == 2 and all(pieces))]


def _any(patterns: tuple[str, ...], spelled: Iterable[str]) -> bool:
    names, begins, ends, others = _parsed(patterns)
    return any(
        name in names
        or name.startswith(begins)
        or name.endswith(ends)
        or any(name.startswith(one[0]) and name.endswith(one[-1]) and one[1] in name for one in others)
        for name in spelled
    )


def _components(path: str) -> list[str]:
    # Some file systems fold case: .GIT is .git there.
    return [part.casefold() for part in path.split("/") if part not in ("", ".")]


@lru_cache(maxsize=1 << 13)  # a line of several searches asks for each file of the tree several times
def secret(path: str) -> str | None:
    """Return why the content of `path` (relative inside the workspace) may be a secret, or None."""
    parts = _components(path)
    if not parts:
        return None
    for folder in parts:
        if folder in SECRET_FOLDERS:
            return f"is in {folder}, a place for secrets"
    if any("/".join(parts[-place.count("/") - 1 :]) == place for place in SECRET_PLACES):
        return "holds a program's credentials"
    original = parts[-1]
    while original.endswith(COPIES):
        original = original.removesuffix(next(copy for copy in COPIES if original.endswith(copy)))
    spelled = (parts[-1], original, original.removeprefix("."))
    if _any(SECRET_FILES, spelled) and not _any(NOT_SECRET, spelled[:2]):
        return "has the name of a file with secrets"
    if ".git" in parts[:-1] and (original == "config" or original.startswith("config.")):
        return "may hold credentials of a remote"
    return None


def protected(path: str) -> str | None:
    """Return why nothing may write at `path`, or None."""
    parts = _components(path)
    for folder in parts:
        # Windows and macOS drop trailing dots and spaces from a name.
        if folder.rstrip(". ") in _PROTECTED_FOLDERS:
            return _PROTECTED_FOLDERS[folder.rstrip(". ")]
    if "/.config/codelet/" in "/" + "/".join(parts) + "/":
        return _PROTECTED_FOLDERS[".codelet"]
    return _PROTECTED_FILES.get(parts[-1].rstrip(". ")) if parts else None


def delicate(path: str) -> str | None:
    """Return why a write at `path` needs approval, or None."""
    parts = _components(path)
    if not parts:
        return None
    if _any(DELICATE_FILES, parts[-1:]):
        return "is run later by CI, an agent or another tool"
    joined = "/" + "/".join(parts) + "/"
    for folder in DELICATE_FOLDERS:
        if f"/{folder}/" in joined:
            return f"is in {folder}, whose files act later"
    return None


def runs_later(name: str) -> bool:
    """Return whether a file of this name runs at the next build, test or start of a project."""
    return _any(_RUN_LATER, [name.casefold()])
