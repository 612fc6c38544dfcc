"""The ledger of a segment: files changed and read, open errors, the state of tests and build, anchors.

Facts, not prose: each line is `key: text`. The newest statement about a file or a runner replaces the older one, also
across segments: an earlier segment's ledger lines are read back and carried on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from codelet.compaction.anchors import Anchor, Run
from codelet.compaction.reading import Reading

_ITEM = re.compile(r"(\S[^\n]{0,300}?) \(t(\d{1,7})\)(?:, |$)")
_TAGGED = re.compile(r"t(\d{1,7}) (.*)\Z", re.DOTALL)
_OPEN_ERRORS = 6
_ERROR_LENGTH = 200


@dataclass
class Ledger:
    """What is known at the end of a span: for each file the turn it was last changed or read in, and so on."""

    changed: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    errors: list[tuple[int, str]] = field(default_factory=list)
    status: dict[str, str] = field(default_factory=dict)
    anchors: list[str] = field(default_factory=list)
    narrative: list[str] = field(default_factory=list)

    def carry_on(self, lines: Sequence[tuple[str, str]]) -> None:
        """Take up the ledger lines of an earlier segment. Lines that cannot be read are left out."""
        for key, text in lines:
            if key in ("changed", "read"):
                files = self.changed if key == "changed" else self.read
                for path, turn in _ITEM.findall(text):
                    files[path] = max(files.get(path, 0), int(turn))
            elif key == "open error":
                found = _TAGGED.match(text)
                if found:
                    self.errors.append((int(found.group(1)), found.group(2)))
            elif key == "status":
                self.status[text.split(" ", 1)[0]] = text
            elif key == "anchor" and text not in self.anchors:
                self.anchors.append(text)
            elif key == "narrative" and text not in self.narrative:
                self.narrative.append(text)

    def take_in(self, readings: Sequence[Reading], runs: Sequence[Run], anchors: Sequence[Anchor]) -> None:
        """Take up what happened in a span."""
        for reading in readings:
            for deed in reading.deeds:
                if deed.subject and deed.kind in ("write", "read") and "\n" not in deed.subject:
                    files = self.changed if deed.kind == "write" else self.read
                    files[deed.subject] = reading.turn
        for run in runs:
            ended = {True: "passed", False: "failed", None: "unclear"}[run.passed]
            command = " ".join(run.command.split())[:80]
            self.status[run.what] = f"{run.what} {ended} (t{run.turn}): {command}"
        for anchor in anchors:
            line = f"t{anchor.turn} {anchor.kind}: {anchor.text}"
            if line not in self.anchors:
                self.anchors.append(line)
        self.errors = open_errors(readings, runs, self.errors)

    def lines(self, room: int) -> list[tuple[str, str]]:
        """The ledger as lines of at most `room` characters together, the most needed first."""
        wanted = [("open error", f"t{turn} {text}") for turn, text in self.errors[-_OPEN_ERRORS:]]
        wanted += [("status", text) for _, text in sorted(self.status.items())]
        wanted += [("narrative", text) for text in self.narrative[-12:]]
        found: list[tuple[str, str]] = []
        for key, text in wanted:
            cost = len(key) + len(text) + 3
            if cost <= room:
                found.append((key, text))
                room -= cost
        for key, files, share in (("changed", self.changed, 2), ("read", self._only_read(), 1)):
            text = _listing(files, room * share // 3 - len(key) - 3)
            if text:
                found.append((key, text))
                room -= len(key) + len(text) + 3
        for line in reversed(self.anchors):
            if len(line) + 9 <= room:
                found.append(("anchor", line))
                room -= len(line) + 9
        return found

    def _only_read(self) -> dict[str, int]:
        return {path: turn for path, turn in self.read.items() if path not in self.changed}


def _listing(files: dict[str, int], room: int) -> str:
    """`path (tN), …`, newest first, as many as fit."""
    items: list[str] = []
    for path, turn in sorted(files.items(), key=lambda item: (-item[1], item[0])):
        item = f"{path} (t{turn})"
        if len(item) + 2 > room:
            break
        items.append(item)
        room -= len(item) + 2
    return ", ".join(items)


def open_errors(
    readings: Sequence[Reading], runs: Sequence[Run], earlier: Sequence[tuple[int, str]] = ()
) -> list[tuple[int, str]]:
    """Errors that nothing later showed as settled: (turn, line). A passed run settles what came before it."""
    settled = max((run.turn for run in runs if run.passed and run.what != "commit"), default=-1)
    found: dict[str, int] = {line: turn for turn, line in earlier if turn > settled}
    for reading in readings:
        if reading.kind != "result" or reading.turn < settled or len(reading.text) > 60_000:
            continue
        if reading.answers is not None and reading.answers.kind == "read":
            continue
        for line in reading.errors:
            found.pop(line[:_ERROR_LENGTH], None)
            found[line[:_ERROR_LENGTH]] = reading.turn
    for run in runs:
        if run.passed and run.what != "commit":
            found = {line: turn for line, turn in found.items() if turn > run.turn or run.turn < settled}
    return [(turn, line) for line, turn in found.items()][-4 * _OPEN_ERRORS :]
