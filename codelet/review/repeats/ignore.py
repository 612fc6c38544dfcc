"""`codelet: ignore[RULE] reason` in a comment of the code: the finding is set aside, counted and listed.

In place of a rule there may be a category, or `*` for all.

The comment stands on one of the lines in question or in the comment lines right above them. Without a reason it counts
for nothing, which the finding then says. One that the change itself adds counts, and every report tells that it is
new. What is a comment is told by its sign alone, whatever the language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from codelet.record import Record
from codelet.review.conclude import set_aside
from codelet.review.findings import BY_NEW_COMMENT, Finding, SetAside
from codelet.review.repeats.fingerprint import NewSides, category_of
from codelet.system.text import one_line

_SIGNS = (r"#", r"//", r"/\*", r"\*", r"--", r";", r"%", r"<!--", r"\(\*", r"\{-", r"'", r'"', r"!", r"REM\b")
_COMMENT = re.compile(rf"(?:{'|'.join(_SIGNS)}).*?codelet:\s*ignore\[([^\]\n]{{1,200}})\](.*)", re.IGNORECASE)
_COMMENT_LINE = re.compile(rf"\s*(?:{'|'.join(_SIGNS)})", re.IGNORECASE)
_ENDS = ("*/", "-->", "*)", "-}", '"""', "'''")
_MOST_ABOVE = 10
_MOST_REASON = 300
_NO_REASON = "An ignore comment stands here, but it gives no reason, so it does not count."

_STYLES = {
    "#": (
        "py pyi sh bash zsh fish rb pl pm r yml yaml toml cfg conf tf nix jl ex exs cr nim tcl mk cmake ps1 awk graphql"
    ),
    "//": (
        "c h cc cpp cxx hpp hh m mm cs java kt kts scala groovy go rs js jsx mjs cjs ts tsx mts cts swift dart php zig"
        " proto scss less sass v sv fs fsx jsonc json5 sol d gradle"
    ),
    "--": "sql lua hs elm adb ads vhd vhdl",
    ";": "lisp el clj cljs scm rkt asm s ini",
    "%": "tex erl hrl pro",
    "/*": "css",
    "<!--": "html htm xml svg md vue svelte xhtml",
}
_CLOSED_BY = {"/*": " */", "<!--": " -->"}
_SIGN_OF = {suffix: sign for sign, suffixes in _STYLES.items() for suffix in suffixes.split()}
_NAMES = {"makefile": "#", "dockerfile": "#", "gemfile": "#", "rakefile": "#", "cmakelists.txt": "#", "justfile": "#"}


class _Ignore(Record, kw_only=True):
    """One comment: the rules it names, the reason it gives, and whether the change adds it."""

    rules: frozenset[str]
    reason: str
    new: bool


def without_ignored(findings: Sequence[Finding], sides: NewSides) -> tuple[list[Finding], list[SetAside]]:
    """The findings that no comment sets aside, and those that one does."""
    kept: list[Finding] = []
    aside: list[SetAside] = []
    for finding in findings:
        names = {finding.rule.lower(), finding.category.lower(), category_of(finding), "*"}
        found = [each for each in _ignores(finding, sides) if names & each.rules]
        counts = min((each for each in found if each.reason), key=lambda each: each.new, default=None)
        if counts is not None:
            aside.append(set_aside(finding, "ignored", counts.reason + BY_NEW_COMMENT * counts.new))
        elif found:
            kept.append(finding.replace(explanation=f"{finding.explanation}\n\n{_NO_REASON}".strip()))
        else:
            kept.append(finding)
    return kept, aside


def ignore_comment(path: str, rule: str, reason: str) -> str | None:
    """The comment, without indentation, for a line of its own; None where the language of the file has none known."""
    name = PurePosixPath(path).name.lower()
    sign = _SIGN_OF.get(name.rpartition(".")[2], _NAMES.get(name)) if "." in name else _NAMES.get(name)
    if sign is None:
        return None
    said = one_line(reason, _MOST_REASON)
    for end in _ENDS:
        said = said.replace(end, " ")
    return f"{sign} codelet: ignore[{rule}] {said.strip()}{_CLOSED_BY.get(sign, '')}"


def _ignores(finding: Finding, sides: NewSides) -> list[_Ignore]:
    """The comments on the lines of a finding, and in the comment lines right above it."""
    lines, added = sides.lines(finding.path), sides.added(finding.path)
    numbers = [*range(finding.line, finding.end_line + 1), *_above(finding.line, lines)]
    read = (_read(lines.get(number, ""), new=number in added) for number in numbers)
    return [each for each in read if each is not None]


def _above(line: int, lines: Mapping[int, str]) -> list[int]:
    """The numbers of the comment lines right above a line."""
    found: list[int] = []
    for number in range(line - 1, line - 1 - _MOST_ABOVE, -1):
        text = lines.get(number)
        if text is None or not _COMMENT_LINE.match(text):
            break
        found.append(number)
    return found


def _read(line: str, *, new: bool) -> _Ignore | None:
    found = _COMMENT.search(line)
    if found is None:
        return None
    reason = found[2]
    for end in _ENDS:
        reason = reason.partition(end)[0]
    rules = frozenset(rule.strip().lower() for rule in found[1].split(","))
    return _Ignore(rules=rules, reason=one_line(reason.strip(" \t:-–—"), _MOST_REASON), new=new)
