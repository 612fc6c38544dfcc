"""What ran in a conversation, how each run ended as far as an exit status or the tool itself says, and the errors seen.

A run whose exit status nobody reported counts as nothing: it neither passed nor failed, and it settles nothing.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, takewhile

from codelet.context.compaction.file_changes import effects
from codelet.context.compaction.parsing import ParsedMessage
from codelet.context.compaction.runners import Run, run_in, run_of
from codelet.context.compaction.shell_commands import LOOKERS, ShellCommand, endings, exit_code
from codelet.context.compaction.signals import is_error_line, write_failed
from codelet.context.compaction.work_tree import COMMITTED, OF_COMMITS, CheckedOut, FileEffect, goes_on

_TELLING = re.compile(
    r"\b\d+ (?:passed|failed|passing|failing|tests?|examples?|errors?|warnings?)\b|"
    r"^test result: |^(?:ok|FAIL)\s|^OK\b|^FAILED \(|^Success: |^All checks passed|^Found \d+ error|"
    r"BUILD (?:SUCCESS|FAIL)"
)
_COMMIT = "git commit"
_GIT = "git "
_LONGEST = 120
# How much of an answer tells whether the call itself failed.
_HEAD = 400
_SEARCHES = ("grep", "search", "find", "glob", "list", "fetch", "web")


@dataclass(frozen=True)
class Execution:
    """One command, or one call of another tool, by its place in the list; `passed` is None if nobody can tell.

    `text` names it: equal texts are the same command. `line` is what it said of its end, if it did; `is_command` says
    that a shell ran it, `branch` what was checked out (`CheckedOut`).
    """

    place: int
    turn: int
    text: str
    run: Run | None
    passed: bool | None
    line: str = ""
    is_command: bool = False
    branch: str = ""

    @property
    def what(self) -> str:
        """The kind of its run: tests, build or commit; "" for other commands."""
        return self.run.what if self.run is not None else ""

    @property
    def named(self) -> str:
        """Its text and turn."""
        return f"{self.text} (t{self.turn})"

    def covers(self, text: str) -> bool:
        """Whether this is the command of that text, or a run that runs all of it, or git going on with it."""
        if self.text == text or (_GIT in text and _GIT in self.text and goes_on(self.text, text)):
            return True
        other = run_in(text) if self.run is not None else None
        return self.run is not None and other is not None and self.run.covers(other)


Endings = dict[int, list[tuple[ShellCommand, bool | None]]]


def command_endings(readings: Sequence[ParsedMessage]) -> Endings:
    """For each result of a shell command, by its index: the commands in it and how they ended."""
    found: Endings = {}
    for index, reading in enumerate(readings):
        action = reading.answers
        if action is not None and action.kind == "command":
            ended = endings(action.subject, exit_code(reading.text), reading.text)
            found[index] = _with_commit(ended) if COMMITTED.search(reading.text) else ended
    return found


def _with_commit(ended: list[tuple[ShellCommand, bool | None]]) -> list[tuple[ShellCommand, bool | None]]:
    """The same where git told of a commit: the only one in the line was made, and what it had to wait for went well."""
    made = [n for n, (command, _) in enumerate(ended) if command.words[:2] == ("git", "commit")]
    if len(made) != 1 or ended[made[0]][1] is not None:
        return ended
    first = made[0]
    while ended[first][0].link == "&&" and not ended[first - 1][0].piped:
        first -= 1
    return [(command, True if first <= n <= made[0] else passed) for n, (command, passed) in enumerate(ended)]


def executions(readings: Sequence[ParsedMessage], ended: Endings) -> tuple[list[Execution], CheckedOut]:
    """All commands and calls that changed or ran something, in order, and what is checked out behind them."""
    found: list[Execution] = []
    tree = CheckedOut()
    for index, reading in enumerate(readings):
        if reading.answers is None:
            continue
        if index in ended:
            found += _of_commands(index, reading, ended[index], tree)
        elif reading.answers.kind in ("write", "other"):
            other = reading.answers.kind == "other"
            passed = not is_error_line(reading.text[:_HEAD]) if other else not write_failed(reading.text)
            found.append(Execution(index, reading.turn, call_text(reading), None, passed, branch=tree.here))
    return found, tree


def _of_commands(
    index: int, reading: ParsedMessage, ended: Sequence[tuple[ShellCommand, bool | None]], tree: CheckedOut
) -> list[Execution]:
    found = []
    runs = [run_of(command) for command, _ in ended]
    for (command, passed), run in zip(ended, runs, strict=True):
        if not command.words:
            continue
        end = passed if run is None else _end_of(run, passed, reading.text)
        line = _line_of(run, runs, reading.text) if run is not None else ""
        tree.take(command, passed, reading.text)
        text = short(command.text)
        found.append(Execution(index, reading.turn, text, run, end, line, is_command=True, branch=tree.here))
    return found


def _line_of(run: Run, runs: Sequence[Run | None], output: str) -> str:
    """What a run said of its end, if that can be told: of several runners nobody knows which said it."""
    commits = run.name == _COMMIT
    beside = [other for other in runs if other is not None and (other.name == _COMMIT) == commits]
    return outcome_line(output, commit=commits) if len(beside) == 1 else ""


def _end_of(run: Run, passed: bool | None, output: str) -> bool | None:
    """How a run ended; None (nobody can tell) if it ran nothing or could not begin."""
    if passed and run.ran_nothing(output):
        return None
    return passed if run.tells(exit_code(output) or 0) else None


def outcome_line(text: str, *, commit: bool = False) -> str:
    """The last line in which a runner, or git of a `commit`, says how it went; "" if none does."""
    lines = [line.strip() for line in text[-4_000:].split("\n")]
    telling = COMMITTED if commit else _TELLING
    return next((line[:160] for line in reversed(lines) if telling.search(line)), "")


def call_text(reading: ParsedMessage) -> str:
    """The text of a call that is not a command: its tool and its subject."""
    action = reading.answers
    return short(" ".join(f"{action.name} {action.subject}".split())) if action is not None else ""


def short(text: str) -> str:
    """A command in one line; one that is too long is cut and given a checksum, so that it stays unlike any other."""
    text = text.replace("\n", " ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…{zlib.crc32(text.encode(errors='replace')):08x}"


def origins(reading: ParsedMessage, ended: Sequence[tuple[ShellCommand, bool | None]] | None) -> list[str]:
    """The texts of the commands that an error in a result may come from; empty where it is only text that was read."""
    action = reading.answers
    if action is None:
        return []
    if action.kind == "read":
        return []
    if action.kind != "command":
        searches = any(word in action.name.lower() for word in _SEARCHES)
        return [] if searches or not is_error_line(reading.text[:_HEAD]) else [call_text(reading)]
    if not ended:  # not understood: nothing that runs later is known to be the same
        return [short(" ".join(action.subject.split()))]
    return [short(command.text) for command, passed in ended if not passed and not command.shows_text]


def is_not_found(line: str) -> bool:
    """Whether a line is the message of a program that looks at things and did not find one."""
    name, colon, _ = line.partition(": ")
    return bool(colon) and name.rpartition("/")[2] in LOOKERS


class History:
    """Of a list that was read: its commands, how they ended, and what they did to files."""

    def __init__(self, readings: Sequence[ParsedMessage]) -> None:
        self._readings = readings
        self._covering: dict[str, list[int]] = {}
        self._judged: dict[OpenError, OpenError] = {}

    @cached_property
    def ended(self) -> Endings:
        """For each result of a command, by index, the commands in it and how each ended."""
        return command_endings(self._readings)

    @cached_property
    def _ran(self) -> tuple[list[Execution], CheckedOut]:
        return executions(self._readings, self.ended)

    @property
    def executions(self) -> list[Execution]:
        """Its commands and calls in order."""
        return self._ran[0]

    @cached_property
    def _by_text(self) -> dict[str, list[int]]:
        """The numbers of the executions of each text that are no run of a runner, and under "" of those that are."""
        found: dict[str, list[int]] = {}
        for number, execution in enumerate(self.executions):
            found.setdefault(execution.text if execution.run is None else "", []).append(number)
        return found

    def bearing_on(self, texts: Collection[str]) -> list[Execution]:
        """The executions, in order, that cover one of some commands."""
        numbers = {number for text in texts for number in self._that_cover(text)}
        return [self.executions[number] for number in sorted(numbers)]

    def judged(self, fault: OpenError) -> OpenError:
        """An error in the light of what ran later; of one that went without a change in between that is told."""
        if fault not in self._judged:
            self._judged[fault] = self._judge(fault)
        return self._judged[fault]

    def _judge(self, fault: OpenError) -> OpenError:
        found = fault.after([one for one in self.bearing_on(fault.origins) if one.branch in self.branches])
        if not found.settled or found.settled == UNTOLD or fault.place < 0:
            return found
        behind = bisect_right(self.executions, fault.place, key=lambda one: one.place)
        tried = list(
            takewhile(
                lambda one: one.turn == fault.turn and one.what in ("tests", "build"),
                islice(self.executions, behind, None),
            )
        )
        came_and_went = any(found.settled == one.named and one.passed for one in tried)
        return replace(found, settled=found.settled + CAME_AND_WENT) if came_and_went else found

    def _that_cover(self, text: str) -> list[int]:
        """The numbers of the executions that cover a command; of one that is a run any other run may do so."""
        if text not in self._covering:
            numbers = [number for number in self._by_text.get(text, ()) if self.executions[number].text == text]
            if _GIT in text:
                numbers += [number for number in self._git if self.executions[number].covers(text)]
            if text in self._runs or run_in(text) is not None:
                numbers += [number for number in self._by_text.get("", ()) if self.executions[number].covers(text)]
            self._covering[text] = numbers
        return self._covering[text]

    @cached_property
    def _git(self) -> list[int]:
        return [number for number, one in enumerate(self.executions) if _GIT in one.text]

    @cached_property
    def branches(self) -> set[str]:
        """The branches that are in what is checked out at its end."""
        return self._ran[1].held()

    def is_here(self, place: int) -> bool:
        """Whether what a result tells is about these branches; -1 stands for all that was before."""
        return self._branches.get(place, "") in self.branches

    @cached_property
    def _branches(self) -> dict[int, str]:
        return {one.place: one.branch for one in self.executions}

    @cached_property
    def _runs(self) -> set[str]:
        return {self.executions[number].text for number in self._by_text.get("", ())}

    @cached_property
    def effects(self) -> dict[int, list[FileEffect]]:
        """For each result of a command, by index, what it did to files; nothing for those that did nothing."""
        found: dict[int, list[FileEffect]] = {}
        for index, ended in self.ended.items():
            for effect in effects(ended, self._readings[index].text):
                found.setdefault(index, []).append(effect)
                if effect.how == "committed" and not self.is_here(index):  # on a branch that is left now
                    found[index].append(FileEffect("rewound", "~1"))
        return found

    @cached_property
    def last_reset(self) -> int:
        """The index of the last result of something that took commits back, -1 for none; an amended one stands."""
        taken = {"rewound", "reopened", "undone"}
        found = (n for n, done in self.effects.items() if done[-1].how != "committed" and taken & {e.how for e in done})
        return max(found, default=-1)

    @cached_property
    def last_change(self) -> int:
        """The index of the last result of something that changed what files say, -1 for none."""
        for index in range(len(self._readings) - 1, -1, -1):
            reading = self._readings[index]
            wrote = reading.answers is not None and reading.answers.kind == "write" and not write_failed(reading.text)
            if wrote or any(effect.how not in OF_COMMITS for effect in self.effects.get(index, ())):
                return index
        return -1


_ERROR = re.compile(r"t(\d{1,7})(?: to t(\d{1,7}))? (.*?)(?: \[([^\[\n]*)\])?\Z", re.DOTALL)
_JOINT = " ;; "
_SINCE = re.compile(r"; \S[^;]{0,300} (?:changed|was deleted) in t\d{1,7}\Z")
_AGAIN = "; ran again, how it ended is not known"
# Commands that take more room are not named, and then nothing is known to settle their errors.
_LONGEST_ORIGINS = 200
_ERROR_LENGTH = 200
# Settled by a call that is no command: calls of one name may do different things, so that nobody is told by which.
UNTOLD = "a call"
CAME_AND_WENT = ", with nothing changed in between"
# More open errors are not kept.
MOST_ERRORS = 24


@dataclass(frozen=True)
class OpenError:
    """An error that was seen: the turn it was seen in last, its line, and the commands that it may come from.

    `place` is its index in the list, -1 if an earlier segment tells of it; `again` says that one of these commands ran
    later and nobody can tell how it ended. `first` is the turn it was first seen in, `settled` the run that settled it.
    """

    turn: int
    line: str
    origins: tuple[str, ...]
    place: int = -1
    again: bool = False
    first: int = 0
    settled: str = ""

    @property
    def text(self) -> str:
        """As it stands in the ledger."""
        seen = f"t{self.first} to t{self.turn}" if 0 < self.first < self.turn else f"t{self.turn}"
        if self.settled:
            return f"{seen} {self.line}; settled by {self.settled}"
        by = _JOINT.join(self.origins) + _AGAIN * self.again
        return f"{seen} {self.line} [{by}]" if by else f"{seen} {self.line}"

    @classmethod
    def read(cls, text: str) -> OpenError | None:
        """Read it back."""
        found = _ERROR.match(_SINCE.sub("", text))  # what became of its file is told anew
        if found is None:
            return None
        by = found.group(4) or ""
        named = tuple(filter(None, by.removesuffix(_AGAIN).split(_JOINT)))
        first, last = int(found.group(1)), int(found.group(2) or found.group(1))
        return cls(last, found.group(3), named, again=by.endswith(_AGAIN), first=first)

    def after(self, executions: Sequence[Execution]) -> OpenError:
        """The same in the light of what ran later: settled if every command that it may come from has passed since."""
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
                by = execution.named if execution.is_command else UNTOLD
                return replace(self, settled=by)
        return replace(self, again=again)


def errors_seen(
    readings: Sequence[tuple[int, ParsedMessage]],
    history: History,
    earlier: Collection[OpenError] = (),
) -> list[OpenError]:
    """The errors in some messages, with what settled them. `readings` are (index, message) pairs of the list."""
    found = {fault.line: fault for fault in earlier if history.is_here(-1)}
    for index, reading in readings:
        if reading.kind != "result" or len(reading.text) > 60_000 or not (reading.errors and history.is_here(index)):
            continue
        sources = origins(reading, history.ended.get(index))
        for line in reading.errors if sources else ():
            short = line[:_ERROR_LENGTH]
            before = found.pop(short, None)
            if is_not_found(line):
                continue
            named = tuple(sources if len(_JOINT.join(sources)) <= _LONGEST_ORIGINS else ())
            first = before.first or before.turn if before is not None else reading.turn
            found[short] = OpenError(reading.turn, short, named, index, first=first)
    return [history.judged(fault) for fault in found.values()]


def open_errors(
    readings: Sequence[tuple[int, ParsedMessage]],
    history: History,
    earlier: Collection[OpenError] = (),
) -> list[OpenError]:
    """The errors that nothing later settled, the newest of them."""
    return [fault for fault in errors_seen(readings, history, earlier) if not fault.settled][-MOST_ERRORS:]
