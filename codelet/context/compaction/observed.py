"""Observations: events with their turn, for `[state]`; and anchors, the places at which something was settled.

Events come from the records of calls; in a list from elsewhere from the calls, if they leave no doubt. They are never
judgments. `state_lines` writes them, `observations_in` reads the lines of an earlier compaction.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from itertools import pairwise
from typing import NamedTuple

from codelet.call_record import CallRecord
from codelet.context.compaction.lexicon import clip
from codelet.context.compaction.reading import (
    DecodedCall,
    ReadSession,
    SessionPiece,
    first_error,
    hides_status,
    inside,
    is_error,
    strings,
)

ANCHORS = {
    "error fixed": (36, 95),
    "task done": (32, 92),
    "milestone": (30, 92),
    "checkpoint": (28, 91),
    "last edit": (20, 90),
}
"""The kinds of anchors, with their points, at most 40, and their certainty in percent."""
_APPROVAL = 40
"""Characters of the longest approval, which is not a question."""
_QUESTION = ("?", "？", "؟", "\u037e")
_COMMAND, _SAID, _STEP, _SEARCHED = 80, 120, 100, 20_000
# What limits the output of a command, and a long folder that it changes to.
_SHORTENS = re.compile(r"\s*2>&1|(?:\s*\|\s*(?:tail|head)\b[^|]*)+\Z")
_LONG_FOLDER = re.compile(r"\bcd\s+\S{12,300}/(?=[^\s/;&]+/?(?:[\s;&]|\Z))")
_BEFORE_PIPE = re.compile(r"""(?:[^'"]|'[^']*'|"(?:\\.|[^"\\])*")*?(?= \| )""")
# With `-f` it also ends well if there was nothing to remove.
_REMOVES = re.compile(r"\s*(?:rm|del|unlink|Remove-Item|git rm)((?:\s+-\w+)*)((?:\s+[\w./\\-]+)+)\s*\Z")
_MAY_REMOVE = re.compile(
    r"\b(?:rm|del|rmdir|unlink|mv|move|Remove-Item|Move-Item|sed\s+-i|perl\s+-\w*i|git\s+(?:rm|mv|checkout|restore|clean|stash|reset))\b"
)
_TAKES_ALL_BACK = re.compile(
    r"\bgit\s+(?:stash(?!\s+(?:list|show|pop|apply))|reset\s.*--hard|clean|(?:checkout|restore|switch)\s(?:.*\s)?(?:\.|-f|--force)(?:\s|\Z))"
)
# Counts as programs print them.
_COUNTS = re.compile(
    r"(?i)\b\d+ (?:\w+ )?(?:pass(?:ed|ing)?|fail(?:ed|ing|ures?)?|errors?|warnings?|problems?|tests?|examples?)\b|"
    r"\b(?:tests?|pass(?:ed)?|fail(?:ed|ures)?|errors?): ?\d+\b"
)
_FAILURES = re.compile(r"(?i)\b[1-9]\d* (?:\w+ )?(?:fail|error)|\b(?:fail(?:ed|ures)?|errors?): ?[1-9]")
_COMMITTED = re.compile(r"^\[[^\]\n]{1,100} ([0-9a-f]{7,40})\] (.{1,120})", re.MULTILINE)
_BOX = re.compile(r"^\s*(?:[-*+]\s+|\d+[.)]\s*)?\[(.)\]\s*(.+)$", re.MULTILINE)
_TICKS = "xXv✓✔"
_CHANGED = frozenset({"created", "changed", "written", "deleted"})
_FINISHED = frozenset({"completed", "complete", "done"})
_PATCHED = re.compile(r"^(?:\*\*\* (Add|Update|Delete) File: |\+\+\+ b/)(.+)$", re.MULTILINE)
_ROW = re.compile(r"t(\d{1,7}) (?:ran `(.*?)`(?:: (.*))?|(wrote|deleted|committed|step done:) (.*))\Z")
_STEP_DONE = "step done:"
_REFUSED = re.compile(r"(?i)\b(?:error|failed|refused|denied|not found|cannot|no such)\b")


class Observation(NamedTuple):
    """One event: `kind` is wrote, deleted, ran, committed, or done; `number` is its piece, -1 for an earlier segment.

    `ending` is the exit status and the printed counts of a command, to quote; `good` is True if it ended well, False if
    it failed, None if unknown; `changes` if it is known to do more than read, or was listed before.
    """

    turn: int
    kind: str
    what: str
    ending: str = ""
    good: bool | None = None
    number: int = -1
    changes: bool = False


class TurnAnchor(NamedTuple):
    """Something settled in a turn; `number` is its piece."""

    turn: int
    kind: str
    text: str
    number: int = -1

    @property
    def weight(self) -> int:
        return ANCHORS[self.kind][0]


def counts_in(text: str) -> list[str]:
    """Return the counts in a text, such as `12 passed`, as programs print them."""
    return [found[0] for found in _COUNTS.finditer(text)]


def command_key(command: str) -> str:
    """Return a command without what its output is piped into, to compare two of them."""
    if " | " in command and (found := _BEFORE_PIPE.match(command)):
        command = found[0]
    return " ".join(command.replace("2>&1", "").split())


def observations_of(session: ReadSession) -> list[Observation]:
    """Return the events of a session in order, those of earlier compactions first."""
    found = observations_in(session.state)
    for number, piece in enumerate(session.pieces):
        if piece.kind != "result" or (call := piece.call) is None:
            continue
        for step, is_done in () if piece.failed else _steps(call):
            known = [fact for fact in found if fact.kind == "done" and fact.what.startswith(step)]
            if is_done and all(fact.what != step for fact in known):
                found.append(Observation(piece.turn, "done", step, number=number))
            for fact in () if is_done else known:
                found.remove(fact)  # it is open again
        record = session.records.get(call.id)
        if record is None or record.status not in ("refused", "not_started"):
            found += _of_command(number, piece, call, record, found) if call.command else ()
            for path, deleted in _changed_files(piece, call, record):
                found.append(Observation(piece.turn, "deleted" if deleted else "wrote", path, number=number))
    return found


def _steps(call: DecodedCall) -> Iterator[tuple[str, bool]]:
    """Yield the steps of a plan in a call, and whether each is marked as done."""
    for each in inside(call.values):
        if isinstance(each, dict) and isinstance(status := each.get("status"), str):
            texts = [text for key, text in each.items() if isinstance(text, str) and key not in ("status", "id")]
            yield clip(" ".join(max(texts, key=len, default="").split()), _STEP), status.lower() in _FINISHED
        elif isinstance(each, str) and not call.path and not call.command:
            for mark, step in _BOX.findall(each[:_SEARCHED]):
                yield clip(" ".join(step.split()), _STEP), mark in _TICKS


def _of_command(
    number: int, piece: SessionPiece, call: DecodedCall, record: CallRecord | None, before: Sequence[Observation]
) -> Iterator[Observation]:
    ending = _ending(piece, call, record)
    good = False if piece.failed else _ended_well(ending)
    yield Observation(piece.turn, "ran", call.command, ending, good, number, record is not None and record.changes)
    if piece.code == 0 and (removed := _REMOVES.match(call.command)):
        there = {fact.what for fact in before if fact.kind == "wrote"}
        for path in removed[2].split():
            if path in there or not re.search(r"-\w*f", removed[1]):  # `-f` also ends well without the file
                yield Observation(piece.turn, "deleted", path, number=number)
    for commit in _COMMITTED.finditer(piece.text[:_SEARCHED] if "commit" in call.command else ""):
        yield Observation(piece.turn, "committed", f"{commit[1]} {commit[2]}", number=number)


def _changed_files(piece: SessionPiece, call: DecodedCall, record: CallRecord | None) -> list[tuple[str, bool]]:
    """Return the files that a call wrote or deleted, and whether it deleted them."""
    if record is not None:
        return [(fact.path, fact.effect == "deleted") for fact in record.files if fact.effect in _CHANGED]
    if piece.failed or _REFUSED.search(piece.text[:2_000].strip().partition("\n")[0]):
        return []  # a write from elsewhere may report a failure in its text
    patches = [text for text in strings(call.values) if "*** Begin Patch" in text]
    changed = [(path.strip(), how == "Delete") for text in patches for how, path in _PATCHED.findall(text)]
    return [*changed, (call.path, False)] if call.writes else changed


def _ending(piece: SessionPiece, call: DecodedCall, record: CallRecord | None) -> str:
    """Return a command's exit status, unless it may be another program's, and the last line of counts it printed."""
    status = ""
    if record is not None and record.ended is not None:
        pipeline = record.ended.pipeline or ()
        codes = pipeline if any(pipeline) else (record.ended.code,)
        status = f"exit {'|'.join(map(str, codes))}" if codes != (None,) else "stopped at its time limit"
    elif record is not None:
        if record.status != "failed":  # the result is not all of its output, or says that it started
            return "interrupted" if record.status == "interrupted" else "its end is not known"
    elif piece.code is not None and not (piece.code == 0 and hides_status(call.command)):
        status = f"exit {piece.code}"
    lines = piece.text[-_SEARCHED:].split("\n")
    counts = next((line.strip() for line in reversed(lines) if len(line) < 200 and _COUNTS.search(line)), "")
    counts = counts or (first_error(piece.text) if piece.failed else "")
    return ", ".join(filter(None, (status, clip(counts, _SAID))))


def _ended_well(ending: str) -> bool | None:
    """Return True for exit status 0, or without a status for counts without a failure; None if an ending shows neither.

    A pipeline of which only an earlier part failed is neither.
    """
    if codes := re.match(r"exit ([-\d|]+)", ending):
        return not codes[1].strip("0|") or (None if codes[1].endswith("|0") else False)
    if is_error(ending) or _FAILURES.search(ending):
        return False
    return True if _COUNTS.search(ending) else None


def observations_in(lines: Iterable[str]) -> list[Observation]:
    """Return the events in the lines of an earlier compaction."""
    found: list[Observation] = []
    for row in filter(None, map(_ROW.match, lines)):
        if (command := row[2]) is not None:
            ending = row[3] or ""
            good = _ended_well(ending.partition(" (before, at t")[0])
            found.append(Observation(int(row[1]), "ran", command, ending, good, changes=True))
        else:
            found.append(Observation(int(row[1]), "done" if row[4] == _STEP_DONE else row[4], row[5]))
    return found


def state_lines(facts: Sequence[Observation], old: Collection[int], room: int) -> tuple[list[str], list[int]]:
    """Write the events of old pieces in at most `room` characters; also return failures of commands not run again.

    Each command has its last run, with its last failure before. Files that a command may have moved or removed since
    are left out.
    """
    files: dict[str, Observation] = {}
    runs: dict[str, list[Observation]] = {}
    others: list[Observation] = []
    for fact in facts:
        here = fact.number < 0 or fact.number in old
        if fact.kind == "ran":
            runs.setdefault(command_key(fact.what), []).append(fact)
            for path in _may_be_gone(fact.what, files):
                if files[path].number != fact.number:
                    del files[path]
        elif fact.kind in ("wrote", "deleted"):
            inside_it = (f"{fact.what}/", f"{fact.what}\\")
            for path in [path for path in files if path.startswith(inside_it)] if fact.kind == "deleted" else ():
                del files[path]
            files.pop(fact.what, None)
            files.update({fact.what: fact} if here else {})
        elif here:
            others.append(fact)
    ended = [each for each in runs.values() if each[-1].number < 0 or each[-1].number in old]
    ended.sort(key=lambda ran: (ran[-1].number, ran[-1].turn), reverse=True)
    failures = [ran[-1].number for ran in ended if ran[-1].good is False and ran[-1].number >= 0]
    # First what failed, then what failed before, then what printed counts.
    ended.sort(key=lambda ran: (ran[-1].good is not False, all(fact.good is not False for fact in ran)))
    rows: list[tuple[int, int, str]] = []
    told = [(ran[-1], _run_row(ran)) for ran in ended]
    told += [
        (fact, f"t{fact.turn} {_STEP_DONE if fact.kind == 'done' else fact.kind} {fact.what}")
        for fact in (*reversed(others), *reversed(files.values()))
    ]
    for fact, row in told:
        if row and len(row) + 1 <= room * 2 // 3:
            room -= len(row) + 1
            rows.append((fact.number, fact.turn, row))
    return [row for _, _, row in sorted(rows)], failures


def _run_row(ran: Sequence[Observation]) -> str:
    """Return the row of a command's runs, "" if they only read and never failed."""
    last = ran[-1]
    failure = next((fact for fact in reversed(ran) if fact.good is False), None)
    says_more = last.ending and (len(ran) > 1 or last.changes or _COUNTS.search(last.ending))
    if failure is None and not says_more:
        return ""
    before = ""
    if failure is not None and last.good is not False:
        other = "" if _shown(failure) == _shown(last) else f" as `{_shown(failure)}`"
        before = f" (before, at t{failure.turn}{other}: {failure.ending})"
    return f"t{last.turn} ran `{_shown(last)}`: {last.ending or 'its exit status is not known'}{before}"


def _shown(run: Observation) -> str:
    """Return a command in one line: the first step of a script, without what limits the output."""
    first, _, more = run.what[:2_000].strip().partition("\n")
    first = _LONG_FOLDER.sub("cd …/", _SHORTENS.sub("", first))
    return clip(" ".join(first.split()), _COMMAND) + (" …" if more else "")


def removals(facts: Sequence[Observation], paths: Collection[str]) -> dict[int, list[str]]:
    """Return, by the piece of a command or deletion, the files that may be gone or changed."""
    found: dict[int, list[str]] = {}
    for fact in facts:
        if fact.number >= 0 and fact.kind in ("ran", "deleted"):
            gone = [fact.what] if fact.kind == "deleted" else _may_be_gone(fact.what, paths)
            found.setdefault(fact.number, []).extend(gone)
    return found


def _may_be_gone(command: str, paths: Collection[str]) -> list[str]:
    """Return the files that a command may have removed, moved, or restored, by name, folder, or pattern."""
    if not _MAY_REMOVE.search(command):
        return []
    if _TAKES_ALL_BACK.search(command):
        return list(paths)
    named = re.findall(r"\b(?:rm|mv|rmdir|move|checkout|restore|clean)\s([^;&|\n]*)", command)
    words = {word.strip("'\"").removeprefix("./").rstrip("/") for each in named for word in each.split()}
    gone = []
    for path in paths:
        parts = re.split(r"[/\\]", path)
        folders = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if parts[-1] in command or folders & words or any(fnmatch(path, w) or fnmatch(parts[-1], w) for w in words):
            gone.append(path)
    return gone


def anchors_of(session: ReadSession, facts: Sequence[Observation]) -> list[TurnAnchor]:
    """Return the anchors in order: at most one of a kind in a turn."""
    settled: list[tuple[int, str, str, int]] = []
    failing: set[str] = set()
    for fact in facts:
        if fact.kind == "ran":
            key = command_key(fact.what)
            if fact.good and key in failing:
                settled.append((fact.turn, "error fixed", f"{key}: {fact.ending}", fact.number))
            if fact.good is not None:
                (failing.discard if fact.good else failing.add)(key)
        elif fact.kind in ("committed", "done"):
            kind = "milestone" if fact.kind == "committed" else "task done"
            settled.append((fact.turn, kind, fact.what, fact.number))
    edited = {fact.what: fact for fact in facts if fact.kind == "wrote"}
    settled += [(fact.turn, "last edit", path, fact.number) for path, fact in edited.items()]
    for number, (before, piece) in enumerate(pairwise(session.pieces)):
        text = piece.text.strip()
        if piece.kind == "user" and before.kind == "agent" and 0 < len(text) < _APPROVAL and text[-1] not in _QUESTION:
            settled.append((before.turn, "checkpoint", text, number))
    found = {each[:2]: TurnAnchor(*each[:2], clip(" ".join(each[2].split()), _SAID), each[3]) for each in settled}
    return sorted(found.values(), key=lambda anchor: (anchor.turn, -anchor.weight, anchor.kind))
