"""Fingerprints: by them a finding is known again when its lines have moved, be it to another commit or another runner.

A fingerprint is made of the category, the path, the first quoted line and the nearest neighbour before it, white space
not counted, and of the number of equal places before it in the change. A model names and quotes the same bug in other
words each time: the rule, the title and further lines are not in it. Nor is a line number, nor anything of the other
findings: the parts of a review that run elsewhere make the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from codelet.review.diff import FileDiff, HunkLine, lines_of
from codelet.review.findings import Finding, digest
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
