"""The imports in a piece of source, as paths without an extension: read by line, so a part of a file will do."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

LONGEST_SOURCE = 200_000
"""Characters of one file that are searched."""
MOST_IMPORTS = 200
"""The most imports of one file."""

_NUMBER = r"^[ \t]*(?:\d+[ \t]*(?:\t|→|:|\|)[ \t]?)?[ \t]*"
"""A line's beginning, which may have a line number."""
_PYTHON = re.compile(
    _NUMBER + r"(?:from[ \t]+([.\w]+)[ \t]+import\b[ \t]*\(?([\w, \t]*)|import[ \t]+([\w.]+))", re.MULTILINE
)
_SCRIPT = re.compile(
    _NUMBER + r"(?:(?:import|export)\b[^'\"\n;]{0,300}|}[ \t]*from[ \t]+|(?:const|let|var)\b[^'\"\n;]{0,200}\()"
    r"['\"](\.{1,2}/[^'\"\n]{1,200})['\"]",
    re.MULTILINE,
)
_INCLUDE = re.compile(_NUMBER + r"#[ \t]*include[ \t]*\"([^\"\n]{1,200})\"", re.MULTILINE)
_ENDINGS = {
    **dict.fromkeys((".py", ".pyi"), "python"),
    **dict.fromkeys((".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".vue", ".svelte"), "script"),
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".hpp", ".m"), "include"),
}


def imports_in(path: str, text: str) -> frozenset[str]:
    """Return the imports in a piece of the file at `path`; none if its language is unknown.

    A relative import is resolved against the file; any other is the end of a path.
    """
    language = _ENDINGS.get(posixpath.splitext(path)[1].lower())
    text = text[:LONGEST_SOURCE]
    folder = posixpath.dirname(path)
    match language:
        case "python":
            found = sorted(set(_from_python(folder, text)))
        case "script":
            found = sorted({stem_of(posixpath.join(folder, name)) for name in _SCRIPT.findall(text)})
        case "include":
            found = sorted({stem_of(name) for name in _INCLUDE.findall(text)})
        case _:
            found = []
    return frozenset(found[:MOST_IMPORTS])


def stem_of(path: str) -> str:
    """Return a path without its extension, and without `__init__` or `index`."""
    stem = posixpath.splitext(posixpath.normpath(path))[0]
    for name in ("/__init__", "/index"):
        stem = stem.removesuffix(name)
    return stem


def _from_python(folder: str, text: str) -> Iterator[str]:
    for module, names, alone in _PYTHON.findall(text):
        named = module or alone
        dots = len(named) - len(named.lstrip("."))
        stem = named.strip(".").replace(".", "/")
        if dots:
            stem = posixpath.normpath(posixpath.join(folder, "../" * (dots - 1), stem))
        if stem and stem != ".":
            yield stem
        for name in names.replace(",", " ").split():
            yield posixpath.normpath(posixpath.join(stem, name))  # it may be a module of the package
