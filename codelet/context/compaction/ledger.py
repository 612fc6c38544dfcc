"""The ledger of a segment: the state of files, errors that no run has settled, how runs ended, anchors.

Facts, not prose: each line is `key: text`. The newest statement about a file or a command replaces the older one, also
across segments: an earlier segment's ledger lines are read back and carried on. A status comes only from a command that
is the runner itself and whose exit status was reported; an error is settled only by a later pass of the same command,
or of a run that covers it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from codelet.context.compaction.file_changes import FileEffect, covers_path, same_file
from codelet.context.compaction.history import Execution, History, is_not_found, origins, read_failed, write_failed
from codelet.context.compaction.parsing import ParsedMessage
from codelet.context.compaction.score import TurnAnchor

_ITEM = re.compile(r"(\S[^\n]{0,300}?) \(t(\d{1,7})\)(?:, |$)")
_STATUS = re.compile(r"(tests|build|commit) (passed|failed) \(t(\d{1,7})(, files changed since)?\): (.*)\Z", re.DOTALL)
_ERROR = re.compile(r"t(\d{1,7}) (.*) \[([^\[\n]*)\]\Z|t(\d{1,7}) (.*)\Z", re.DOTALL)
_JOINT = " ;; "
_AGAIN = "; ran again, how it ended is not known"
_OPEN_ERRORS = 6
_STATUSES = 4
# What is kept for the lists of files, however many errors there are.
_FILES_PERCENT = 40
# Commands that take more room are not named, and then nothing is known to settle their errors.
_LONGEST_ORIGINS = 200
_ERROR_LENGTH = 200


@dataclass(frozen=True)
class OpenError:
    """An error that was seen: its turn, its line, and the commands that it may come from.

    `place` is its index in the list, -1 if an earlier segment tells of it; `again` says that one of these commands ran
    later and nobody can tell how it ended.
    """

    turn: int
    line: str
    origins: tuple[str, ...]
    place: int = -1
    again: bool = False

    @property
    def text(self) -> str:
        """As it stands in the ledger."""
        by = _JOINT.join(self.origins) + _AGAIN * self.again
        return f"t{self.turn} {self.line} [{by}]" if by else f"t{self.turn} {self.line}"

    @classmethod
    def read(cls, text: str) -> OpenError | None:
        """Read it back."""
        found = _ERROR.match(text)
        if found is None:
            return None
        if found.group(4):
            return cls(int(found.group(4)), found.group(5), ())
        by = found.group(3)
        named = tuple(filter(None, by.removesuffix(_AGAIN).split(_JOINT)))
        return cls(int(found.group(1)), found.group(2), named, again=by.endswith(_AGAIN))

    def after(self, executions: Sequence[Execution]) -> OpenError | None:
        """The same in the light of what ran later; None if every command that it may come from has passed since."""
        open_ones, again = set(self.origins), self.again
        for execution in executions:
            if execution.place <= self.place:
                continue
            mine = {text for text in self.origins if execution.covers(text)}
            if execution.passed:
                open_ones -= mine
            elif mine:
                open_ones |= mine
                again = again or execution.passed is None
            if self.origins and not open_ones:
                return None
        return OpenError(self.turn, self.line, self.origins, self.place, again)


@dataclass
class Ledger:
    """What is known at the end of a span: for each file the turn it was last changed or read in, and so on."""

    changed: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    errors: list[OpenError] = field(default_factory=list)
    status: dict[str, str] = field(default_factory=dict)
    anchors: list[str] = field(default_factory=list)
    narrative: list[str] = field(default_factory=list)
    _uncommitted: set[str] = field(default_factory=set)

    def carry_on(self, lines: Sequence[tuple[str, str]]) -> None:
        """Take over the ledger lines of an earlier segment. Lines that cannot be read are left out."""
        for key, text in lines:
            if key in ("changed", "read", "deleted"):
                for path, turn in _ITEM.findall(text):
                    self._carry_file(key, path, int(turn))
            elif key == "open error":
                found = OpenError.read(text)
                if found is not None:
                    self.errors.append(found)
            elif key == "status" and (told := _STATUS.match(text)):
                self.status[told.group(5)] = text
            elif key == "anchor" and text not in self.anchors:
                self.anchors.append(text)
            elif key == "narrative" and text not in self.narrative:
                self.narrative.append(text)

    def _carry_file(self, key: str, path: str, turn: int) -> None:
        lists = {"changed": self.changed, "read": self.read, "deleted": self.deleted}
        if key != "read":
            lists["changed" if key == "deleted" else "deleted"].pop(path, None)
        lists[key][path] = max(lists[key].get(path, 0), turn)

    def take_in(
        self, readings: Sequence[tuple[int, ParsedMessage]], history: History, anchors: Sequence[TurnAnchor]
    ) -> None:
        """Take in what happened in a span: (index, message) pairs. `history` is that of the whole list."""
        last_change = self._files(readings, history.effects)
        if last_change >= 0:
            self._stale()
        for execution in history.executions:
            if execution.run is not None:
                self._status(execution, last_change)
        for anchor in anchors:
            line = f"t{anchor.turn} {anchor.kind}: {anchor.text}"
            if line not in self.anchors:
                self.anchors.append(line)
        self.errors = open_errors(readings, history, self.errors)

    def _files(self, readings: Sequence[tuple[int, ParsedMessage]], effects: Mapping[int, Sequence[FileEffect]]) -> int:
        """Take in what became of files; return the index of the last change, -1 for none."""
        last = -1
        for index, reading in readings:
            action = reading.answers
            if reading.kind != "result" or action is None:
                continue
            if (
                action.kind == "read"
                and action.subject
                and "\n" not in action.subject
                and not read_failed(reading.text)
            ):
                self._see(action.subject, reading.turn)
            elif action.kind == "write" and not write_failed(reading.text):
                last = index
                for path in action.written:
                    self._write(path, reading.turn)
                for path in action.deleted:
                    self._delete(path, reading.turn)
            for effect in effects.get(index, ()):
                last = index
                self._effect(effect, reading.turn)
        return last

    def _effect(self, effect: FileEffect, turn: int) -> None:
        if effect.how == "written":
            self._write(effect.path, turn)
        elif effect.how in ("deleted", "moved"):
            self._delete(effect.path, turn)
        elif effect.how == "reverted":
            for path in self._uncommitted:
                if not effect.path or covers_path(effect.path, path):
                    self.changed.pop(path, None)
        elif effect.how == "committed":
            self._uncommitted.clear()

    def _see(self, path: str, turn: int) -> None:
        """Count a file as read, so it is there."""
        for known in [known for known in self.deleted if same_file(known, path)]:
            del self.deleted[known]
        self.read[path] = turn

    def _write(self, path: str, turn: int) -> None:
        for known in [known for known in self.deleted if same_file(known, path)]:
            del self.deleted[known]
        self.changed[path] = max(self.changed.get(path, 0), turn)
        self._uncommitted.add(path)

    def _delete(self, path: str, turn: int) -> None:
        """Count a file as deleted, or all files that a pattern or a folder covers."""
        known = [own for own in (*self.changed, *self.read) if covers_path(path, own)]
        for own in known:
            self.changed.pop(own, None)
            self.read.pop(own, None)
            self.deleted[own] = turn
        if not known and "*" not in path:
            self.deleted[path] = turn

    def _status(self, execution: Execution, last_change: int) -> None:
        """Store the newest state of a command; a run whose end nobody knows removes the older one."""
        for text in [text for text in self.status if execution.covers(text)]:
            del self.status[text]
        if execution.passed is not None:
            since = ", files changed since" if execution.passed and execution.place < last_change else ""
            ended = "passed" if execution.passed else "failed"
            self.status[execution.text] = f"{execution.what} {ended} (t{execution.turn}{since}): {execution.text}"

    def _stale(self) -> None:
        """Mark the runs that an earlier segment tells of: they came before every change in this span."""
        for text, line in self.status.items():
            if " passed (" in line and ", files changed since)" not in line:
                self.status[text] = line.replace("): ", ", files changed since): ", 1)

    def lines(self, room: int) -> list[tuple[str, str]]:
        """The ledger as lines of at most `room` characters together, the most needed first."""
        surest_last = sorted(self.errors, key=lambda fault: not fault.again)
        wanted = [("open error", fault.text) for fault in surest_last[-_OPEN_ERRORS:]]
        wanted += [("status", text) for text in self._statuses()]
        found: list[tuple[str, str]] = []
        files_room = room * _FILES_PERCENT // 100 if self.changed or self.deleted else 0
        for key, text in wanted:
            cost = len(key) + len(text) + 3
            if cost <= room - files_room:
                found.append((key, text))
                room -= cost
        lists = (("deleted", self.deleted, 1, 4), ("changed", self.changed, 2, 3), ("read", self._only_read(), 1, 3))
        for key, files, share, of in lists:
            text = _listing(files, room * share // of - len(key) - 3)
            if text:
                found.append((key, text))
                room -= len(key) + len(text) + 3
        for line in reversed(self.anchors):
            if len(line) + 9 <= room:
                found.append(("anchor", line))
                room -= len(line) + 9
        return found

    def told(self, room: int) -> list[tuple[str, str]]:
        """The narrative as lines of at most `room` characters together, from its beginning."""
        found: list[tuple[str, str]] = []
        for text in self.narrative:
            room -= len("narrative") + len(text) + 3
            if room < 0:
                break
            found.append(("narrative", text))
        return found

    def _statuses(self) -> list[str]:
        """What failed first, then the newest."""
        texts = list(self.status.values())[::-1]
        return sorted(texts, key=lambda text: " failed (" not in text)[:_STATUSES]

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
    readings: Sequence[tuple[int, ParsedMessage]],
    history: History,
    earlier: Collection[OpenError] = (),
) -> list[OpenError]:
    """The errors that nothing later settled. `readings` are (index, message) pairs of the list."""
    found = {fault.line: fault for fault in earlier}
    for index, reading in readings:
        if reading.kind != "result" or len(reading.text) > 60_000 or not reading.errors:
            continue
        sources = origins(reading, history.ended.get(index))
        for line in reading.errors if sources else ():
            short = line[:_ERROR_LENGTH]
            found.pop(short, None)
            if is_not_found(line):
                continue
            named = tuple(sources if len(_JOINT.join(sources)) <= _LONGEST_ORIGINS else ())
            found[short] = OpenError(reading.turn, short, named, index)
    faults = (fault.after(history.executions) for fault in found.values())
    return [fault for fault in faults if fault is not None][-4 * _OPEN_ERRORS :]
