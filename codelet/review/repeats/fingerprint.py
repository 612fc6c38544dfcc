"""Fingerprints: by them a finding is known again when its lines have moved, be it to another commit or another runner.

A fingerprint is made of the category, the path, the first quoted line and the nearest neighbour before it, white space
not counted, and of the number of equal places before it in the change. A model names and quotes the same bug in other
words each time: the rule, the title and further lines are not in it. Nor is a line number, nor anything of the other
findings: the parts of a review that run elsewhere make the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from codelet.review.diff import FileDiff
from codelet.review.findings import Finding
from codelet.review.hunk_lines import lines_of
from codelet.review.rule_list import RULES

_DIGITS = 32


class NewSides:
    """The new side of each file of a change, as far as the change shows it: lines by number, read when asked for."""

    def __init__(self, files: Iterable[FileDiff]) -> None:
        self._files = {file.path: file for file in files}
        self._read: dict[str, dict[int, str]] = {}

    @property
    def files(self) -> Mapping[str, FileDiff]:
        """The files by path."""
        return self._files

    def lines(self, path: str) -> Mapping[int, str]:
        """The lines of a file by number, in order; none of a file that the change does not show."""
        known = self._read.get(path)
        if known is None:
            file = self._files.get(path)
            known = self._read[path] = dict(_numbered(file)) if file is not None else {}
        return known

    def added(self, path: str) -> set[int]:
        """The numbers of the lines that the change adds to a file."""
        file = self._files.get(path)
        hunks = file.hunks if file is not None else ()
        return {line.number for hunk in hunks for line in lines_of(hunk) if line.sign == "+"}

    def removed(self, path: str) -> list[str]:
        """The lines that the change takes away from a file."""
        file = self._files.get(path)
        hunks = file.hunks if file is not None else ()
        return [line.text for hunk in hunks for line in lines_of(hunk) if line.sign == "-"]


def fingerprinted(findings: Sequence[Finding], sides: NewSides) -> list[Finding]:
    """The findings with their fingerprints."""
    return [finding.replace(fingerprint=_fingerprint(finding, sides)) for finding in findings]


def normalised(text: str) -> str:
    """Lines with white space that counts for nothing taken out."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def digest(*parts: str) -> str:
    """A short name for texts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _numbered(file: FileDiff) -> Iterable[tuple[int, str]]:
    return ((line.number, line.text) for hunk in file.hunks for line in lines_of(hunk) if line.sign != "-")


def _neighbour(lines: Mapping[int, str], start: int, step: int) -> str:
    """The nearest line that shows something, as far as the change shows the lines in a row; else nothing."""
    number = start + step
    while number in lines:
        if text := normalised(lines[number]).strip():
            return text
        number += step
    return ""


def _fingerprint(finding: Finding, sides: NewSides) -> str:
    lines = sides.lines(finding.path)
    text = normalised(lines.get(finding.line, ""))
    before = _neighbour(lines, finding.line, -1)
    earlier = sum(
        normalised(line) == text and _neighbour(lines, number, -1) == before
        for number, line in lines.items()
        if number < finding.line
    )
    return digest("codelet review 2", category_of(finding), finding.path, text, before, str(earlier))


def category_of(finding: Finding) -> str:
    """The category of a finding's rule, else the one that the model named."""
    return RULES[finding.rule].category if finding.rule in RULES else finding.category
