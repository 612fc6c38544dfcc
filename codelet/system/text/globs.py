"""The one translator of globs into regular expressions.

`to_regex` is for globs that a model searches with: `*` and `?` stay within one part of a path, `**` spans parts, `[…]`
and `{a,b}` are known, and the expression matches in linear time. Without a slash a glob is for the file's name, at any
depth; with one it is for the path from the folder searched. One that begins with `!` matches what it would not match
without, as ripgrep's does. `with_literal_brackets` is for folders such as `[id]`. `rule_regex` is for the simpler
patterns of rules.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection

from codelet.errors import ToolError

_MOST_ALTERNATIVES = 64


_BRACKETS = r"\[[!^]?\]?(?:\[:[a-z]+:\]|[^\]])*\]"
_POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": re.escape(string.punctuation),
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9a-fA-F",
}
_POSIX_CLASS = re.compile(r"\[:([a-z]+):\]")

_RULE_WILDCARDS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def rule_regex(pattern: str) -> str:
    """Return a regular expression for a pattern: `**` matches any directories, `*` and `?` match inside one name.

    A backslash before one of these, or before a backslash, makes it literal. Compile it with DOTALL.
    """
    tokens = re.findall(r"\\[*?\\]|\*\*/?|.", pattern, re.DOTALL)
    return "".join(_RULE_WILDCARDS.get(token) or re.escape(token[-1]) for token in tokens)


def to_regex(glob: str) -> str:
    """A regular expression that matches whole paths relative to the folder searched. Raises ToolError."""
    if "\0" in glob or not glob.isprintable():
        raise ToolError(f"the glob {glob!r} contains characters that do not print")
    if glob[:1] == "!":  # a folder that it names is out with all that is in it
        return f"(?!(?:{'|'.join(map(_path_regex, expand(glob[1:])))})(?:/|\\Z))(?s:.+)\\Z"
    return "(?:" + "|".join(_path_regex(plain) for plain in expand(glob)) + r")\Z"


def has_brackets(glob: str) -> bool:
    """Return whether the glob has what may be a class of characters or a name such as `[id]`."""
    return re.search(_BRACKETS, glob) is not None


def with_literal_brackets(glob: str, paths: Collection[str]) -> str:
    """Return the glob with brackets escaped in parts that are, brackets included, the name of something on a path.

    So `app/[id]/*.ts` finds files in a folder `[id]`; without such a folder, `[id]` is a character class.
    """
    names = {name for path in paths if "[" in path for name in path.split("/") if "[" in name}
    literal: set[str] = set()
    for part in {part for plain in expand(glob.removeprefix("!")) for part in plain.split("/")}:
        pattern = re.compile(_part_regex(re.sub(_BRACKETS, _escaped, part)) + r"\Z")
        if any(pattern.match(name) for name in names):
            literal.update(re.findall(_BRACKETS, part))
    return re.sub(_BRACKETS, lambda match: _escaped(match) if match[0] in literal else match[0], glob)


def _escaped(match: re.Match[str]) -> str:
    return re.sub(r"[\[\]]", r"\\\g<0>", match[0])


def with_posix_classes(pattern: str) -> str:
    """A regular expression for Python's `re` in which `[[:alpha:]]` means what it means to ripgrep."""
    return re.sub(
        r"\\.|\[\^?\]?(?:\[:[a-z]+:\]|\\.|[^\]\\])*\]",
        lambda match: f"{match[0][0]}{_POSIX_CLASS.sub(_members, match[0][1:])}",
        pattern,
        flags=re.DOTALL,
    )


def _members(match: re.Match[str]) -> str:
    return _POSIX_CLASSES.get(match[1], match[0])


def name_globs(glob: str) -> list[str]:
    """Globs for the last component, without brackets: whatever `glob` finds matches at least one of them."""
    if glob[:1] == "!":
        return ["*"]
    names = {
        re.sub(rf"(\\.)|{_BRACKETS}|[\[\]]|\*+", lambda found: found[1] or "*", plain.rpartition("/")[2])
        for plain in expand(glob)
    }
    return sorted(name or "*" for name in names)


def expand(glob: str) -> list[str]:
    """Expand a glob with braces. Raises ToolError for too many results."""
    done, waiting = [], [glob]
    while waiting:
        plain = waiting.pop()
        innermost = re.search(r"\{([^{}]*)\}", plain)
        if innermost is None:
            done.append(plain)
        else:
            before, after = plain[: innermost.start()], plain[innermost.end() :]
            waiting += [before + part + after for part in reversed(innermost[1].split(","))]
        if len(done) + len(waiting) > _MOST_ALTERNATIVES:
            raise ToolError(f"the glob {glob!r} has too many alternatives: use a simpler one")
    return done


def _path_regex(glob: str) -> str:
    anchored = "/" in glob.rstrip("/")
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    if not anchored and parts != ["**"]:
        parts.insert(0, "**")
    start, *segments = _segments(parts)
    text = "/".join(map(_part_regex, start))
    if not segments:
        return text
    *inner, end = segments
    text += "/" if start else ""
    # The part between two spans takes its first match and does not backtrack.
    text += "".join(f"(?>(?:[^/]+/)*?{'/'.join(map(_part_regex, segment))}/)" for segment in inner if segment)
    return text + ("(?:[^/]+/)*" + "/".join(map(_part_regex, end)) if end else ".+")


def _segments(parts: list[str]) -> list[list[str]]:
    """Return the parts around the spans: the one before the first span, and so on."""
    segments: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            segments.append([])
        else:
            segments[-1].append(part)
    return segments


def _part_regex(part: str) -> str:
    """One part of a path. All stars but the last take the first match and do not backtrack."""
    first, *rest = _chunks(part)
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in rest[:-1])
    return f"{first}{middle}[^/]*{rest[-1]}"


def _chunks(part: str) -> list[str]:
    """Return the parts between the stars, each as a regular expression."""
    chunks = [""]
    for token in re.findall(rf"\*+|\?|{_BRACKETS}|\\.|.", part, re.DOTALL):
        if token[0] == "*":
            chunks.append("")
        elif token == "?":
            chunks[-1] += "[^/]"
        elif len(token) > 2 and token[0] == "[":
            chunks[-1] += _class(token[1:-1])
        else:
            chunks[-1] += re.escape(token[-1])
    return chunks


def _class(inner: str) -> str:
    negated = inner[0] in "!^"
    body = inner[1:] if negated else inner
    escaped = "".join(
        _members(found) if (found := _POSIX_CLASS.fullmatch(piece)) else re.sub(r"[\\\[\]^]", r"\\\g<0>", piece)
        for piece in re.split(r"(\[:[a-z]+:\])", body)
    )
    text = f"(?!/)[{'^' if negated else ''}{escaped}]"
    try:
        re.compile(text)
    except re.error:
        return re.escape(f"[{inner}]")
    return text
