"""Fingerprints: by them a finding is known again when its lines have moved, be it to another commit or another runner.

A fingerprint is made of the rule, the path, the quoted lines and the nearest neighbour on either side, white space not
counted, and of the number of equal places before it in the change. No line number is in it, and nothing of the other
findings: the parts of a review that run elsewhere make the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from codelet.review.diff import FileDiff
from codelet.review.findings import Finding
from codelet.review.hunk_lines import lines_of

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


def _place(lines: Mapping[int, str], line: int, end_line: int) -> tuple[str, str, str]:
    """What stands at a place: the nearest neighbour before, the lines themselves, the nearest neighbour after."""
    text = normalised("\n".join(lines.get(number, "") for number in range(line, end_line + 1)))
    return _neighbour(lines, line, -1), text, _neighbour(lines, end_line, 1)


def _fingerprint(finding: Finding, sides: NewSides) -> str:
    lines = sides.lines(finding.path)
    before, text, after = here = _place(lines, finding.line, finding.end_line)
    length = finding.end_line - finding.line
    first = text.split("\n")[0]
    earlier = sum(
        normalised(line) == first and _place(lines, number, number + length) == here
        for number, line in lines.items()
        if number < finding.line
    )
    return digest("codelet review 1", finding.rule, finding.path, text, before, after, str(earlier))
