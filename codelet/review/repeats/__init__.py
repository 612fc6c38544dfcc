"""What a run does about findings that it has met before: fingerprints, ignore comments, the baseline.

It is a sieve of the run, before anything is asked a second time. `fingerprint`, `ignore`
and `baseline` hold the work.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from codelet.errors import UsageError
from codelet.record import Record
from codelet.review.conclude import set_aside
from codelet.review.diff import FileDiff
from codelet.review.findings import BY_CHANGED_BASELINE, BY_NEW_COMMENT, Finding, HunkCoverage, Report, SetAside
from codelet.review.repeats.baseline import NewSides, category_of, fingerprinted, open_baseline
from codelet.system.text import one_line


class Repeats:
    """The sieve of one review, and its baseline, where it has one, after it.

    `files` are those of the change; a merge of reports has none, and takes the paths from their `hunks`.
    """

    def __init__(
        self,
        *,
        files: Sequence[FileDiff] = (),
        hunks: Sequence[HunkCoverage] = (),
        baseline: Path | None = None,
        update: bool = False,
    ) -> None:
        if update and baseline is None:
            raise UsageError("--update-baseline needs --baseline FILE, which it writes")
        self._sides = NewSides(files) if files else None
        self._paths: dict[str, str | None] = {hunk.path: hunk.old_path for hunk in hunks}
        self._paths.update((file.path, file.old_path) for file in files)
        self._baseline = open_baseline(baseline, may_be_missing=update) if baseline is not None else None
        self._changed = BY_CHANGED_BASELINE if baseline is not None and _is_among(baseline, self._paths) else ""
        self.target = baseline if update else None

    def sifted(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[SetAside]]:
        """The findings that are new, with their fingerprints, and those that are ignored or known."""
        kept = list(findings)
        aside: list[SetAside] = []
        if self._sides is not None:
            kept, aside = without_ignored(fingerprinted(kept, self._sides), self._sides)
        if self._baseline is not None:
            kept, known = self._baseline.new_findings(kept, self._paths)
            aside = [*aside, *(each.replace(why=each.why + self._changed) for each in known)]
        return kept, aside

    def titles(self, paths: Collection[str]) -> list[str]:
        """The known findings of these files; none of a baseline that the change may have written."""
        if self._baseline is None or self._changed:
            return []
        return [f"{each.path}: {each.title}" for each in self._baseline.entries if each.path in paths]

    def updated(self, report: Report) -> str | None:
        """Return what the file of the baseline is to hold after the run; None if it stays as it is."""
        if self.target is None or self._baseline is None:
            return None
        return self._baseline.updated(report.findings, self._sides).text()


def _is_among(baseline: Path, paths: Iterable[str]) -> bool:
    """Return whether the change may touch the file: the repository's root is not known, so the path's end counts."""
    places = {str(baseline.absolute()), str(baseline.resolve())}
    return any(place.endswith(f"/{path}") for place in places for path in paths)


_SIGNS = (r"#", r"//", r"/\*", r"\*", r"--", r";", r"%", r"<!--", r"\(\*", r"\{-", r"'", r'"', r"!", r"REM\b")
_COMMENT = re.compile(rf"(?:{'|'.join(_SIGNS)}).*?codelet:\s*ignore\[([^\]\n]{{1,200}})\](.*)", re.IGNORECASE)
_COMMENT_LINE = re.compile(rf"\s*(?:{'|'.join(_SIGNS)})", re.IGNORECASE)
_ENDS = ("*/", "-->", "*)", "-}", '"""', "'''")
_MOST_ABOVE = 10
_MOST_REASON = 300
_NO_REASON = "This ignore comment gives no reason, so it does not count."

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
    """The comment, without indentation, for a line of its own; None if the language of the file has none known."""
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
