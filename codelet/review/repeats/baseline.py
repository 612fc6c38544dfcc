"""Fingerprints, and a baseline: the findings that are known already, so that a run reports the new ones only.

A fingerprint is made of the category, the path, the first quoted line and the nearest neighbour before it, white space
not counted, and of the number of equal places before it in the change. A model names and quotes the same bug in other
words each time: the rule, the title and further lines are not in it. Nor is a line number, nor anything of the other
findings: the parts of a review that run elsewhere make the same ones.

The file of a baseline holds no code, only digests of it. A finding is known again by its fingerprint; if its neighbours
or its file's name have changed, by its rule, its lines and a neighbour that is left; if the model names or quotes it in
other words, by its category and lines that overlap, unless it is graver now. Each entry is one finding: a second bug of
the same kind next to a known one is new.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codelet.errors import UsageError
from codelet.record import Record
from codelet.review.conclude import set_aside
from codelet.review.diff import FileDiff, HunkLine, lines_of
from codelet.review.findings import SEVERITIES, Finding, SetAside, Severity, digest, weight
from codelet.review.rule_list import RULES


class NewSides:
    """The new side of each file of a change, as far as the change shows it: lines by number, read when asked for."""

    def __init__(self, files: Iterable[FileDiff]) -> None:
        self.files: Mapping[str, FileDiff] = {file.path: file for file in files}
        self._read: dict[str, dict[int, str]] = {}

    def lines(self, path: str) -> Mapping[int, str]:
        """The lines of a file by number, in order; none of a file that the change does not show."""
        if path not in self._read:
            self._read[path] = {line.number: line.text for line in self._rows(path) if line.sign != "-"}
        return self._read[path]

    def added(self, path: str) -> set[int]:
        """The numbers of the lines that the change adds to a file."""
        return {line.number for line in self._rows(path) if line.sign == "+"}

    def removed(self, path: str) -> list[str]:
        """The lines that the change takes away from a file."""
        return [line.text for line in self._rows(path) if line.sign == "-"]

    def _rows(self, path: str) -> list[HunkLine]:
        return [line for hunk in self.files[path].hunks for line in lines_of(hunk)] if path in self.files else []


def fingerprinted(findings: Sequence[Finding], sides: NewSides) -> list[Finding]:
    """The findings with their fingerprints."""
    return [finding.replace(fingerprint=_fingerprint(finding, sides)) for finding in findings]


def normalised(text: str) -> str:
    """Lines without white space that counts for nothing."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def category_of(finding: Finding) -> str:
    """The category of a finding's rule, else the one that the model named."""
    return RULES[finding.rule].category if finding.rule in RULES else finding.category


def _fingerprint(finding: Finding, sides: NewSides) -> str:
    lines = sides.lines(finding.path)

    def before(number: int) -> str:
        """The nearest line before it that shows something, as far as the change shows the lines in a row."""
        while (number := number - 1) in lines:
            if text := normalised(lines[number]).strip():
                return text
        return ""

    text, neighbour = normalised(lines.get(finding.line, "")), before(finding.line)
    earlier = sum(
        normalised(line) == text and before(number) == neighbour
        for number, line in lines.items()
        if number < finding.line
    )
    return digest("codelet review 2", category_of(finding), finding.path, text, neighbour, str(earlier))


_VERSION = 1
_KNOWN = "it is in the baseline"
_MOST_BYTES = 64 << 20
_SURE_NEIGHBOURS = 2
_LISTS = ("near", "lines")
_NEWER = {"lines", "category"}
"""Fields that files of older versions lack."""
_Paths = Mapping[str, str | None]


class BaselineEntry(Record, kw_only=True):
    """A known finding. `quote` and `first` are digests of its lines and of the first one, `near` of its neighbours.

    `lines` are digests of each of its lines, and `category` is that of its rule; older files have neither.
    """

    fingerprint: str
    rule: str
    path: str
    quote: str
    first: str
    near: tuple[str, ...]
    severity: Severity
    title: str
    lines: tuple[str, ...] = ()
    category: str = ""


class Baseline:
    """The known findings of one file, and which of them a run has met again."""

    def __init__(self, entries: Sequence[BaselineEntry] = ()) -> None:
        self.entries = tuple(entries)
        self._met: dict[int, Finding] = {}

    def new_findings(self, findings: Sequence[Finding], paths: _Paths) -> tuple[list[Finding], list[SetAside]]:
        """Split findings into new and known ones.

        `paths` are the files of the change, each with its former path if it was renamed or copied.
        """
        found = self._matched(findings, paths)
        self._met |= found
        met = {id(finding) for finding in found.values()}
        known = [set_aside(finding, "known", _KNOWN) for finding in findings if id(finding) in met]
        return [finding for finding in findings if id(finding) not in met], known

    def updated(self, findings: Sequence[Finding], sides: NewSides) -> Baseline:
        """The baseline after a run: the known and the new findings, without those whose lines the change removes."""
        rest = (entry for index, entry in enumerate(self.entries) if index not in self._met)
        kept = [entry for entry in rest if not _is_gone(entry, sides)]
        fresh = [entry_of(finding) for finding in (*self._met.values(), *findings)]
        return Baseline(sorted([*kept, *fresh], key=lambda entry: (entry.path, entry.rule, entry.fingerprint)))

    def text(self) -> str:
        """The file."""
        entries = [{name: getattr(entry, name) for name in BaselineEntry.fields} for entry in self.entries]
        return json.dumps({"version": _VERSION, "tool": "codelet review", "findings": entries}, indent=1) + "\n"

    def _matched(self, findings: Sequence[Finding], paths: _Paths) -> dict[int, Finding]:
        """Match findings with entries, the surest pairs first; the findings by the index of their entry."""
        pairs = []
        for order, own in enumerate(map(entry_of, findings)):
            for index, entry in enumerate(self.entries):
                if index not in self._met and (likeness := _likeness(entry, own, paths)) is not None:
                    pairs.append((likeness, -order, -index))
        met: dict[int, Finding] = {}
        taken: set[int] = set()
        for _, order, index in sorted(pairs, reverse=True):
            if order not in taken and -index not in met:
                taken.add(order)
                met[-index] = findings[-order]
        return met


def _likeness(known: BaselineEntry, own: BaselineEntry, paths: _Paths) -> tuple[int, int] | None:
    """Return how alike two findings are, None if they are different bugs."""
    is_same_file = known.path in (own.path, paths.get(own.path))
    is_same_bug = (known.rule, known.quote) == (own.rule, own.quote)
    near = len({*own.near} & {*known.near})
    if (known.fingerprint, known.rule) == (own.fingerprint, own.rule):
        return 3, 0
    if is_same_bug and is_same_file and (near or not (own.near and known.near)):
        return 2, near
    # The change no longer has the file that the entry names: the same lines are in another one.
    if is_same_bug and known.path not in paths and near >= max(1, min(_SURE_NEIGHBOURS, len(known.near))):
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

    def digests(lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(digest(normalised(line)) for line in lines if line.strip())

    lines = finding.quote.split("\n")
    return BaselineEntry(
        fingerprint=finding.fingerprint,
        rule=finding.rule,
        path=finding.path,
        quote=digest(normalised(finding.quote)),
        first=digest(normalised(lines[0])),
        near=digests((*finding.before, *finding.after)),
        severity=finding.severity,
        title=finding.title,
        lines=digests(lines),
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


def read_baseline(data: bytes, source: str) -> Baseline:
    """The baseline in these bytes; `source` names them in the UsageError that wrong ones raise."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{source}: is no baseline: it is not JSON") from None
    if not isinstance(document, dict) or not isinstance(document.get("findings"), list):
        raise UsageError(f"{source}: is no baseline: it has no list of findings")
    if document.get("version") != _VERSION:
        raise UsageError(f"{source}: is a baseline of another version than {_VERSION}")
    listed = enumerate(document["findings"])
    return Baseline([_entry_in(each, f"{source}: findings[{index}]") for index, each in listed])


def _entry_in(value: object, place: str) -> BaselineEntry:
    if not isinstance(value, dict) or set(value) | _NEWER != set(BaselineEntry.fields):
        raise UsageError(f"{place}: must have {', '.join(BaselineEntry.fields)}, and nothing else")
    fields: dict[str, Any] = {}
    for name, given in value.items():
        texts = given if name in _LISTS else [given]
        if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
            raise UsageError(f"{place}.{name}: must be a {'list of strings' if name in _LISTS else 'string'}")
        fields[name] = tuple(texts) if name in _LISTS else given
    if fields["severity"] not in SEVERITIES:
        raise UsageError(f"{place}.severity: must be one of {', '.join(SEVERITIES)}")
    return BaselineEntry(**fields)


def _is_gone(entry: BaselineEntry, sides: NewSides) -> bool:
    """Return whether the change removes the lines of an entry."""
    file = sides.files.get(entry.path)
    if file is None or file.state == "removed":
        return file is not None
    if any(entry.first == digest(normalised(line)) for line in sides.lines(entry.path).values()):
        return False
    return file.state == "added" or any(entry.first == digest(normalised(line)) for line in sides.removed(entry.path))
