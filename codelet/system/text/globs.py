"""The one translator of globs into regular expressions.

`to_regex` is for globs that a model searches with: `*` and `?` stay within one part of a path, `**` spans parts, `[…]`
and `{a,b}` are known, and the expression matches in linear time. Without a slash a glob is for the file's name, at any
depth; with one it is for the path from the folder searched. `rule_regex` is for the simpler patterns of rules. What
bash makes of a wildcard is another matter: see `safety.shell.wildcards`.
"""

from __future__ import annotations

import re

from codelet.errors import ToolError

_MOST_ALTERNATIVES = 64


_RULE_WILDCARDS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def rule_regex(pattern: str) -> str:
    """A regular expression for a pattern in which `**` stands for any directories, `*` and `?` for what is in one name.

    A backslash before one of these, or before a backslash, takes it as it is. It is to be compiled with DOTALL.
    """
    tokens = re.findall(r"\\[*?\\]|\*\*/?|.", pattern, re.DOTALL)
    return "".join(_RULE_WILDCARDS.get(token) or re.escape(token[-1]) for token in tokens)


def to_regex(glob: str) -> str:
    """A regular expression that matches whole paths relative to the folder searched. Raises ToolError."""
    if "\0" in glob or not glob.isprintable():
        raise ToolError(f"the glob {glob!r} contains characters that do not print")
    return "(?:" + "|".join(_path_regex(plain) for plain in expand(glob)) + r")\Z"


def name_globs(glob: str) -> list[str]:
    """Globs for the last component: whatever `glob` finds matches at least one of them."""
    return sorted({plain.rpartition("/")[2].replace("**", "*") or "*" for plain in expand(glob)})


def expand(glob: str) -> list[str]:
    """The globs without braces that one with braces stands for. Raises ToolError for too many."""
    done, waiting = [], [glob]
    while waiting:
        plain = waiting.pop()
        braces = _innermost(plain)
        if braces is None:
            done.append(plain)
        else:
            start, end = braces
            parts = plain[start + 1 : end].split(",")
            waiting += [plain[:start] + part + plain[end + 1 :] for part in reversed(parts)]
        if len(done) + len(waiting) > _MOST_ALTERNATIVES:
            raise ToolError(f"the glob {glob!r} has too many alternatives: use a simpler one")
    return done


def _innermost(glob: str) -> tuple[int, int] | None:
    """Where the first pair of braces without another inside stands."""
    match = re.search(r"\{[^{}]*\}", glob)
    return (match.start(), match.end() - 1) if match else None


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
    # What stands between two spans takes the first place where it matches and does not backtrack.
    text += "".join(f"(?>(?:[^/]+/)*?{'/'.join(map(_part_regex, segment))}/)" for segment in inner if segment)
    return text + ("(?:[^/]+/)*" + "/".join(map(_part_regex, end)) if end else ".+")


def _segments(parts: list[str]) -> list[list[str]]:
    """The parts between the spans: what stands before the first one, and so on."""
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
    """What stands between the stars, each as a regular expression."""
    chunks = [""]
    for token in re.findall(r"\*+|\?|\[!?\]?[^\]]*\]|\\.|.", part, re.DOTALL):
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
    escaped = body.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("^", "\\^")
    text = f"(?!/)[{'^' if negated else ''}{escaped}]"
    try:
        re.compile(text)
    except re.error:
        return re.escape(f"[{inner}]")
    return text
