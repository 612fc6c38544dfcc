"""Findings that are known: by their fingerprint in a baseline, or by an ignore comment in the code.

A fingerprint is made of the category, the path, the first quoted line and the nearest neighbour before it, white space
not counted, and of the number of equal places before it in the change. The rule, the title and further lines are not in
it: a model names and quotes the same bug in other words each time.

The file of a baseline holds no code, only digests of it. A finding is known again by its fingerprint; if its neighbours
or its file's name have changed, by its rule, its lines and a neighbour that is left; if the model names or quotes it in
other words, by its category and lines that overlap, unless it is graver now. Each entry is one finding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from codelet.errors import UsageError
from codelet.review.diff import FileDiff, HunkLine, lines_of
from codelet.review.findings import BY_CHANGED_BASELINE, BY_NEW_COMMENT, Finding, Report, Severity, digest, weight
from codelet.review.rule_list import RULES
from codelet.system.text import one_line

_VERSION = 1
_MOST_BYTES = 64 << 20
_SIGNS = (r"#", r"//", r"\{?/\*", r"\*", r"--", r";", r"%", r"<!--", r"\(\*", r"\{-", r"'", r'"', r"!", r"REM\b")
_COMMENT = re.compile(rf"(?:{'|'.join(_SIGNS)}).*?codelet:\s*ignore\[([^\]\n]{{1,200}})\](.*)", re.IGNORECASE)
_COMMENT_LINE = re.compile(rf"\s*(?:{'|'.join(_SIGNS)})", re.IGNORECASE)
_END = re.compile(r"""\*/|-->|\*\)|-\}|\"{3}|'{3}""")
_MOST_ABOVE, _MOST_REASON = 10, 300


class Repeats:
    """The known findings of one review, and its baseline if it has one, which may be missing if it is to be updated."""

    def __init__(self, *, files: Sequence[FileDiff], baseline: Path | None = None, update: bool = False) -> None:
        self._sides = NewSides(files)
        self._baseline = open_baseline(baseline, may_be_missing=update) if baseline is not None else None
        # The repository's root is not known, so the end of the path says whether the change may touch the file.
        places = {str(baseline.absolute()), str(baseline.resolve())} if baseline is not None else set()
        self._is_changed = any(place.endswith(f"/{file.path}") for place in places for file in files)

    def sifted(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
        """The new findings with their fingerprints, and the ignored and known ones."""
        kept, aside = without_ignored(fingerprinted(findings, self._sides), self._sides)
        if self._baseline is not None:
            kept, known = self._baseline.new_findings(kept, self._sides)
            aside += [each.replace(why=each.why + BY_CHANGED_BASELINE * self._is_changed) for each in known]
        return kept, aside

    def titles(self, paths: Collection[str]) -> list[str]:
        """The known findings of these files; none of a baseline that the change may have written."""
        entries = () if self._baseline is None or self._is_changed else self._baseline.entries
        return [f"{each.path}: {each.title}" for each in entries if each.path in paths]

    def updated(self, report: Report) -> str | None:
        """The new text of the baseline's file."""
        return None if self._baseline is None else self._baseline.updated(report.findings, self._sides).text()


class NewSides:
    """The new side of each file of a change, as far as the change shows it."""

    def __init__(self, files: Iterable[FileDiff]) -> None:
        self.files: Mapping[str, FileDiff] = {file.path: file for file in files}
        self._read: dict[str, dict[int, str]] = {}

    def lines(self, path: str) -> Mapping[int, str]:
        """The lines of a file by number, in order; none of a file that the change does not show."""
        if path not in self._read:
            self._read[path] = {line.number: line.text for line in self.rows(path) if line.sign != "-"}
        return self._read[path]

    def rows(self, path: str) -> list[HunkLine]:
        """The rows of a file with their signs, removed ones too."""
        return [line for hunk in self.files[path].hunks for line in lines_of(hunk)] if path in self.files else []


def without_ignored(findings: Sequence[Finding], sides: NewSides) -> tuple[list[Finding], list[Finding]]:
    """The findings that no comment sets aside, and those that one does."""
    kept: list[Finding] = []
    aside: list[Finding] = []
    for finding in findings:
        names = {finding.rule.lower(), finding.category.lower(), category_of(finding), "*"}
        found = [(is_new, reason) for rules, reason, is_new in _ignores(finding, sides) if names & rules]
        reasons = sorted(each for each in found if each[1])  # comments that were there before come first
        if reasons:
            is_new, reason = reasons[0]
            aside.append(finding.set_aside("ignored", reason + BY_NEW_COMMENT * is_new))
        elif found:
            note = "This ignore comment gives no reason, so it does not count."
            kept.append(finding.replace(explanation=f"{finding.explanation}\n\n{note}".strip()))
        else:
            kept.append(finding)
    return kept, aside


def _ignores(finding: Finding, sides: NewSides) -> Iterator[tuple[set[str], str, bool]]:
    """Yield the comments on and right above the lines of a finding: rules, reason, and whether the change adds it."""
    lines = sides.lines(finding.path)
    added = {line.number for line in sides.rows(finding.path) if line.sign == "+"}
    first = finding.line
    while first > finding.line - _MOST_ABOVE and _COMMENT_LINE.match(lines.get(first - 1, "")):
        first -= 1
    for number in range(first, finding.end_line + 1):
        if (found := _COMMENT.search(lines.get(number, ""))) is not None:
            reason = one_line(_END.split(found[2])[0].strip(" \t:-–—"), _MOST_REASON)
            yield {rule.strip().lower() for rule in found[1].split(",")}, reason, number in added


def category_of(finding: Finding) -> str:
    """The category of a finding's rule, else the one that the model named."""
    return RULES[finding.rule].category if finding.rule in RULES else finding.category


def fingerprinted(findings: Sequence[Finding], sides: NewSides) -> list[Finding]:
    """The findings with their fingerprints."""

    def place(lines: Mapping[int, str], number: int) -> tuple[str, str]:
        """The line, and the nearest one before it that shows something, as far as the change shows lines in a row."""
        before = number - 1
        while before in lines and not lines[before].strip():
            before -= 1
        return _normalised(lines.get(number, "")), _normalised(lines.get(before, ""))

    def fingerprint(finding: Finding) -> str:
        lines = sides.lines(finding.path)
        own = place(lines, finding.line)
        earlier = sum(place(lines, number) == own for number in lines if number < finding.line)
        return digest("codelet review 2", category_of(finding), finding.path, *own, str(earlier))

    return [finding.replace(fingerprint=fingerprint(finding)) for finding in findings]


def _normalised(text: str) -> str:
    """Lines without white space that counts for nothing."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def _digests(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(digest(_normalised(line)) for line in lines if line.strip())


class BaselineEntry(msgspec.Struct, kw_only=True, frozen=True):
    """A known finding, its lines and their neighbours as digests. Older files have neither lines nor categories."""

    fingerprint: str
    rule: str
    path: str
    quote: str
    near: tuple[str, ...]
    severity: Severity
    title: str
    lines: tuple[str, ...] = ()
    category: str = ""


class _BaselineFile(msgspec.Struct):
    version: int
    tool: str
    findings: list[BaselineEntry]


class Baseline:
    """The known findings of one file, and which of them a run has met again."""

    def __init__(self, entries: Sequence[BaselineEntry] = ()) -> None:
        self.entries = tuple(entries)
        self._met: dict[int, Finding] = {}

    def new_findings(self, findings: Sequence[Finding], sides: NewSides) -> tuple[list[Finding], list[Finding]]:
        """Split findings into new and known ones, matched with the entries, the surest pairs first."""
        pairs = [
            (likeness, -order, -index)
            for order, own in enumerate(map(entry_of, findings))
            for index, entry in enumerate(self.entries)
            if index not in self._met and (likeness := _likeness(entry, own, sides.files)) is not None
        ]
        known: dict[int, Finding] = {}
        for _, order, index in sorted(pairs, reverse=True):
            if -order not in known and -index not in self._met:
                self._met[-index] = findings[-order]
                known[-order] = findings[-order].set_aside("known", "it is in the baseline")
        new = [finding for order, finding in enumerate(findings) if order not in known]
        return new, [known[order] for order in sorted(known)]

    def updated(self, findings: Sequence[Finding], sides: NewSides) -> Baseline:
        """The baseline after a run: the known and the new findings, without those whose lines the change removes."""
        rest = (entry for index, entry in enumerate(self.entries) if index not in self._met)
        kept = [entry for entry in rest if not _is_gone(entry, sides)]
        fresh = [entry_of(finding) for finding in (*self._met.values(), *findings)]
        return Baseline(sorted([*kept, *fresh], key=lambda entry: (entry.path, entry.rule, entry.fingerprint)))

    def text(self) -> str:
        file = _BaselineFile(_VERSION, "codelet review", list(self.entries))
        return json.dumps(msgspec.to_builtins(file), indent=1) + "\n"


def _likeness(known: BaselineEntry, own: BaselineEntry, files: Mapping[str, FileDiff]) -> tuple[int, int] | None:
    """Return how alike two findings are, None if they are different bugs."""
    is_same_file = known.path == own.path or (own.path in files and known.path == files[own.path].old_path)
    is_same_bug = (known.rule, known.quote) == (own.rule, own.quote)
    near = len({*own.near} & {*known.near})
    if (known.fingerprint, known.rule) == (own.fingerprint, own.rule):
        return 3, 0
    if is_same_bug and is_same_file and (near or not (own.near and known.near)):
        return 2, near
    # The change no longer has the file that the entry names: the same lines are in another one.
    if is_same_bug and known.path not in files and near >= max(1, min(2, len(known.near))):
        return 1, near
    # A model names and quotes the same bug in other words.
    lines = len({*own.lines} & {*known.lines})
    around = len({*own.lines, *own.near} & {*known.lines, *known.near})
    is_graver = weight(own.severity) > weight(known.severity)
    if is_same_file and not is_graver and known.category == own.category and lines:
        return (0, around) if around > lines or not (known.near or own.near) else None
    return None


def entry_of(finding: Finding) -> BaselineEntry:
    """The entry of a baseline for a finding."""
    return BaselineEntry(
        fingerprint=finding.fingerprint,
        rule=finding.rule,
        path=finding.path,
        quote=digest(_normalised(finding.quote)),
        near=_digests((*finding.before, *finding.after)),
        severity=finding.severity,
        title=finding.title,
        lines=_digests(finding.quote.split("\n")),
        category=category_of(finding),
    )


def open_baseline(path: Path, *, may_be_missing: bool = False) -> Baseline:
    """The baseline in a file. Raises UsageError that names the file and what is wrong with it."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        if may_be_missing:
            return Baseline()
        raise UsageError(f"{path}: the baseline does not exist; --update-baseline creates it") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot read the baseline: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: is larger than {_MOST_BYTES >> 20} MiB")
    return read_baseline(data, str(path))


def read_baseline(data: bytes, name: str) -> Baseline:
    """The baseline in the bytes of a file. Raises UsageError that begins with the name."""
    try:
        file = msgspec.json.decode(data, type=_BaselineFile)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: is no baseline: {one_line(str(error), _MOST_REASON)}") from None
    if file.version != _VERSION:
        raise UsageError(f"{name}: is a baseline of another version ({file.version}); this one reads {_VERSION}")
    return Baseline(file.findings)


def _is_gone(entry: BaselineEntry, sides: NewSides) -> bool:
    """Return whether the change removes the lines of an entry."""
    file = sides.files.get(entry.path)
    if file is None or file.state == "removed":
        return file is not None
    first = {*entry.lines[:1]}
    if first & {*_digests(sides.lines(entry.path).values())}:
        return False
    removed = _digests(line.text for line in sides.rows(entry.path) if line.sign == "-")
    return file.state == "added" or bool(first & {*removed})
