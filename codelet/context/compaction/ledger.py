"""The ledger of a segment: goal and standing orders, the state of files, errors, how runs ended, milestones.

Facts, not prose: each line is `key: text`. The newest statement about a file or a command replaces the older one, also
across segments: an earlier segment's ledger lines are read back and carried on. A status comes only from a command that
is the runner itself and whose exit status was reported; an error is settled only by a later pass of the same command,
or of a run that covers it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from codelet.context.compaction.actions import Action
from codelet.context.compaction.file_changes import changed_since, covers_path, same_file
from codelet.context.compaction.history import (
    MOST_ERRORS,
    UNTOLD,
    Execution,
    History,
    OpenError,
    errors_seen,
)
from codelet.context.compaction.parsing import ParsedMessage
from codelet.context.compaction.score import TurnAnchor
from codelet.context.compaction.signals import read_failed, write_failed
from codelet.context.compaction.user_text import as_given, goal_in, orders_in, said_in, softened, softens
from codelet.context.compaction.work_tree import Commits, FileEffect
from codelet.messages import AnyMessage, images_of

_ITEM = re.compile(r"(\S[^\n]{0,300}?) \(t(\d{1,7})\)(?:, |$)")
_STATUS = re.compile(r"(tests|build|commit) (passed|failed) \(t(\d{1,7})(, files changed since)?\): (.*)\Z", re.DOTALL)
_CHANGE = re.compile(r"(\S[^\n]{0,300}?) \(t(\d{1,7})(?:\.(\d{1,7}))?\): ([^\n]+)\Z")
_RULE = re.compile(r"t(\d{1,7}) ([^\n]+)\Z")
_LINE_END = " ⏎ "
# Behind a list of files that names not all of them.
_MORE = ", …"
_OPEN_ERRORS = 6
_STATUSES = 4
# What is kept for the lists of files, however many errors there are.
_FILES_PERCENT = 40
_SETTLED = 4
_MOST_CHANGES = 60
_PICTURES_NAMED = 20
# Of the newest change of a file so many lines stand, each so long at most; a shorter one says nothing.
_CHANGED_LINES, _LONGEST_LINE, _SHORTEST_LINE = 3, 120, 8
_SAYS_LITTLE = re.compile(
    r"\W*\Z|#|//|\*|/\*|\"\"\"|(?:import|from|package|use|using|module|namespace|include) |```|"
    r"[\"'][^\"']*[\"'],?\Z|[\w-]+:\Z|[\w@~.+-]*(?:/[\w@~.+-]+)+\Z|"
    r"(?:name|type|title|version): |(?:Update|Add|Delete|Move) \S+\Z"
)
# Of a file that was written anew the lines say most that define something, or are headings.
_DEFINES = re.compile(
    r"(?:(?:export|default|pub(?:\(\w+\))?|public|private|static|async|final|abstract) )*"
    r"(?:def|func|function|class|type|struct|interface|enum|fn|impl|trait|const) \S|##? \S"
)
# What the user laid down may take up to this share of the ledger.
_RULES_PERCENT = 25
_BY_PROGRAM = ("<", "[", "/")


@dataclass(frozen=True)
class NewLines:
    """The newest change of a file: some of its new lines."""

    turn: int
    step: int
    lines: tuple[str, ...]

    def text(self, path: str) -> str:
        """As it stands in the ledger."""
        place = f"t{self.turn}.{self.step}" if self.step else f"t{self.turn}"
        return f"{path} ({place}): {_LINE_END.join(self.lines)}"


@dataclass
class Ledger:
    """What is known at the end of a span: for each file the turn it was last changed or read in, and so on.

    `parts` are the lists of files (changed, read, deleted) of which an earlier segment named only a part.
    """

    changed: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    errors: list[OpenError] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    changes: dict[str, NewLines] = field(default_factory=dict)
    goal: tuple[int, str] = (0, "")
    rules: dict[str, int] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)
    anchors: list[str] = field(default_factory=list)
    narrative: list[str] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)
    _uncommitted: set[str] = field(default_factory=set)
    _commits: Commits[str] = field(default_factory=Commits[str])
    _stashed: dict[str, tuple[int, NewLines | None]] = field(default_factory=dict)

    def carry_on(self, lines: Sequence[tuple[str, str]]) -> None:
        """Take over the ledger lines of an earlier segment. Lines that cannot be read are left out."""
        for key, text in lines:
            if key in ("changed", "read", "deleted"):
                if text.endswith(_MORE):
                    self.parts.add(key)
                for path, turn in _ITEM.findall(text):
                    self._carry_file(key, path, int(turn))
            elif key == "open error":
                found = OpenError.read(text)
                if found is not None:
                    self.errors.append(found)
            elif key == "status" and (told := _STATUS.match(text)):
                self.status[told.group(5)] = text
            elif key == "settled error" and text not in self.settled:
                self.settled.append(text)
            elif key == "change" and (told := _CHANGE.match(text)):
                self.changes[told.group(1)] = NewLines(
                    int(told.group(2)), int(told.group(3) or 0), tuple(told.group(4).split(_LINE_END))
                )
                self._carry_file("changed", told.group(1), int(told.group(2)))
            elif key == "goal" and (told := _RULE.match(text)):
                self.goal = self.goal if self.goal[1] else (int(told.group(1)), told.group(2))
            elif key == "standing order" and (told := _RULE.match(text)):
                self.rules[told.group(2)] = int(told.group(1))
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
        self._files(readings, history.effects)
        if history.last_change >= 0:
            self._stale()
        if not history.is_here(-1):  # what was told of was on the branch that the list begins with
            self.status.clear()
        for execution in history.executions:  # of what is kept beside the span, too
            if execution.run is None or execution.branch not in history.branches:
                continue
            if execution.what != "commit" or execution.place > history.last_reset:
                self._status(execution, history.last_change)
        for anchor in anchors:
            line = f"t{anchor.turn} {anchor.kind}: {anchor.text}"
            if anchor.by_run and line not in self.anchors:  # what was said of others stands as it was said
                self.anchors.append(line)
        found = errors_seen(readings, history, self.errors)
        self.errors = [fault for fault in found if not fault.settled][-MOST_ERRORS:]
        self.settled += [
            fault.text for fault in found if fault.settled not in ("", UNTOLD) and fault.text not in self.settled
        ]
        for _, reading in readings:
            if reading.kind == "user":
                self._laid_down(reading.turn, reading.text)
            for entry in reading.segment.entries if reading.segment is not None else ():
                if entry.is_user:
                    self._laid_down(entry.turn, "\n".join(entry.lines))

    def _laid_down(self, turn: int, text: str) -> None:
        """Take in what the user set as goal and as rules; what a program put in for the user is neither."""
        text = text.strip()
        if text.startswith(_BY_PROGRAM):
            return
        if not self.goal[1]:
            self.goal = turn, goal_in(text)
        given = said_in(text)
        bent = set()
        for one in given if self.rules else ():
            for rule in [rule for rule, told in self.rules.items() if told < turn and softens(one, rule)]:
                told = self.rules.pop(rule)
                self.rules[softened(rule, one, turn)] = told
                bent.add(one)
        for one in orders_in([one for one in given if one not in bent]):
            self.rules = {rule: told for rule, told in self.rules.items() if as_given(rule) != one}
            self.rules[one] = turn

    def _files(
        self, readings: Sequence[tuple[int, ParsedMessage]], effects: Mapping[int, Sequence[FileEffect]]
    ) -> None:
        """Take in what became of files."""
        for index, reading in readings:
            action = reading.answers
            if action is None:
                continue
            if (
                action.kind == "read"
                and action.subject
                and "\n" not in action.subject
                and not read_failed(reading.text)
            ):
                self._see(action.subject, reading.turn)
            elif action.kind == "write" and not write_failed(reading.text):
                for path in action.written:
                    self._write(path, reading.turn)
                lines = _new_lines(action) if len(action.written) == 1 else ()
                if lines:
                    self.changes[action.written[0]] = NewLines(reading.turn, reading.step, lines)
                    if len(self.changes) > _MOST_CHANGES:
                        del self.changes[next(iter(self.changes))]
                for path in action.deleted:
                    self._delete(path, reading.turn)
            for effect in effects.get(index, ()):
                self._effect(effect, reading.turn)

    def _effect(self, effect: FileEffect, turn: int) -> None:
        if effect.how == "written":
            self._write(effect.path, turn)
        elif effect.how in ("deleted", "moved"):
            self._delete(effect.path, turn)
        elif effect.how in ("reverted", "stashed"):
            for path in self._uncommitted:
                if not effect.path or covers_path(effect.path, path):
                    turn, change = self.changed.pop(path, 0), self.changes.pop(path, None)
                    if effect.how == "stashed" and turn:
                        self._stashed[path] = turn, change
        elif effect.how == "unstashed":
            for path, (turn, change) in self._stashed.items():
                self.changed.setdefault(path, turn)
                if change is not None:
                    self.changes.setdefault(path, change)
            self._stashed.clear()
        elif effect.how == "committed":
            self._commits.add(effect.path, self._uncommitted)
            self._uncommitted.clear()
        elif effect.how == "reopened":
            self._uncommitted |= self._commits.back_to(effect.path)
        elif effect.how in ("rewound", "undone"):
            for path in (self._commits.back_to if effect.how == "rewound" else self._commits.without)(effect.path):
                self.changed.pop(path, None)
                self.changes.pop(path, None)

    def _see(self, path: str, turn: int) -> None:
        """Count a file as read, so it is there."""
        for known in [known for known in self.deleted if same_file(known, path)]:
            del self.deleted[known]
        self.read[path] = turn

    def _write(self, path: str, turn: int) -> None:
        for known in [known for known in self.deleted if same_file(known, path)]:
            del self.deleted[known]
        self.changed[path] = max(self.changed.get(path, 0), turn)
        name = path.rpartition("/")[2]
        for known in [known for known in self.changes if known.endswith(name) and same_file(known, path)]:
            del self.changes[known]
        self._uncommitted.add(path)

    def _delete(self, path: str, turn: int) -> None:
        """Count a file as deleted, or all files that a pattern or a folder covers."""
        known = [own for own in (*self.changed, *self.read) if covers_path(path, own)]
        for own in known:
            self.changes.pop(own, None)
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
            since = ", files changed since" if execution.place < last_change else ""
            ended = "passed" if execution.passed else "failed"
            self.status[execution.text] = f"{execution.what} {ended} (t{execution.turn}{since}): {execution.text}"

    def _stale(self) -> None:
        """Mark the runs that an earlier segment tells of: they came before every change in this span."""
        for text, line in self.status.items():
            if ", files changed since)" not in line:
                self.status[text] = line.replace("): ", ", files changed since): ", 1)

    def lines(self, room: int, gone: Container[str] = (), *, goal: bool = True) -> list[tuple[str, str]]:
        """The ledger as lines of at most `room` characters together, the most needed first.

        `gone` holds lines that an edit removed since; `goal` says that the first request does not stand right below.
        """
        page = _Page(room)
        if goal and self.goal[1]:
            page.put("goal", f"t{self.goal[0]} {self.goal[1]}")
        rules = _newest([f"t{turn} {text}" for text, turn in self.rules.items()], room * _RULES_PERCENT // 100)
        for text in rules:
            page.put("standing order", text)
        files_room = room * _FILES_PERCENT // 100 if self.changed or self.deleted else 0
        surest_last = sorted(self.errors, key=lambda fault: not fault.again)
        for fault in surest_last[-_OPEN_ERRORS:]:
            since = changed_since(fault.line, fault.turn, self.changed, self.deleted)
            page.put("open error", fault.text + since, files_room)
        for text in self._statuses():
            page.put("status", text, files_room)
        # Half of what is left is for the lines that were put in, so that the lists of files do not take all of it.
        page.put("deleted", self._listed("deleted", self.deleted, page.room // 4 - 10))
        spare = page.room // 2
        shown = set()
        for path, change in sorted(self.changes.items(), key=lambda item: (-item[1].turn, -item[1].step, item[0])):
            current = not any(line in gone for line in change.lines)
            if current and path in self.changed and page.put("change", change.text(path), spare):
                shown.add(path)
        others = {path: turn for path, turn in self.changed.items() if path not in shown}
        page.put("changed", self._listed("changed", others, page.room * 2 // 3 - 10))
        page.put("read", self._listed("read", self._only_read(), page.room // 3 - 7))
        for text in self.settled[: -_SETTLED - 1 : -1]:
            page.put("settled error", text)
        for line in reversed(self.anchors):
            page.put("anchor", line)
        return page.lines

    def told(self, room: int) -> list[tuple[str, str]]:
        """The narrative as lines of at most `room` characters together, from its beginning."""
        found: list[tuple[str, str]] = []
        for text in self.narrative:
            room -= len("narrative") + len(text) + 3
            if room < 0:
                break
            found.append(("narrative", text))
        return found

    def _listed(self, key: str, files: dict[str, int], room: int) -> str:
        return _listing(files, room - len(_MORE), part=key in self.parts)

    def _statuses(self) -> list[str]:
        """What failed first, then tests and builds before commits, of each the newest."""
        texts = list(self.status.values())[::-1]
        return sorted(texts, key=lambda text: (" failed (" not in text, text.startswith("commit ")))[:_STATUSES]

    def _only_read(self) -> dict[str, int]:
        return {path: turn for path, turn in self.read.items() if path not in self.changed}


class _Page:
    """Ledger lines and the room that is left for more, in characters."""

    def __init__(self, room: int) -> None:
        self.lines: list[tuple[str, str]] = []
        self.room = room

    def put(self, key: str, text: str, spare: int = 0) -> bool:
        """Add a line if it says something, fits and leaves `spare` characters; return whether it did."""
        cost = len(key) + len(text) + 3
        fits = bool(text) and cost <= self.room - spare
        if fits:
            self.lines.append((key, text))
            self.room -= cost
        return fits


def _newest(texts: Sequence[str], room: int) -> list[str]:
    """The newest of some lines, as many as fit, in their order."""
    kept: list[str] = []
    for text in reversed(texts):
        room -= len(text) + 17
        if room < 0:
            break
        kept.append(text)
    return kept[::-1]


def _new_lines(action: Action) -> tuple[str, ...]:
    """Lines that a write put in and that say something, the first few."""
    removed = {line.strip() for edit in action.edits for _, lines in edit.removed for line in lines}
    found: dict[str, None] = {}
    for edit in action.edits:
        for line in edit.text.split("\n"):
            bare = line.removeprefix("+").strip()
            says = _DEFINES.match(bare) if action.whole else not _SAYS_LITTLE.match(bare)
            if says and _SHORTEST_LINE <= len(bare) <= _LONGEST_LINE and bare not in removed and _LINE_END not in bare:
                found[bare] = None
                if len(found) == _CHANGED_LINES:
                    return tuple(found)
    return tuple(found)


def _listing(files: dict[str, int], room: int, *, part: bool) -> str:
    """`path (tN), path (tN)`, newest first, as many as fit; `…` at its end says that there are more, as does `part`."""
    items: list[str] = []
    for path, turn in sorted(files.items(), key=lambda item: (-item[1], item[0])):
        item = f"{path} (t{turn})"
        if len(item) + 2 > room:
            part = True
            break
        items.append(item)
        room -= len(item) + 2
    return ", ".join(items) + _MORE * (part and bool(items))


def pictures_gone(messages: Iterable[AnyMessage]) -> list[tuple[str, str]]:
    """A line that names the pictures of messages which are not in the list any more, the newest of them."""
    names = [picture["name"] for message in messages if "images" in message for picture in images_of(message)]
    told = ", ".join(dict.fromkeys(names[-_PICTURES_NAMED:]))
    return [("pictures", f"no longer here; look at the file again for what you need: {told}")] if told else []
