"""Observations: events with their turn, for `[state]`; anchors, at which something was settled; the score of each turn.

Events come from the records of calls; in a list from elsewhere from the calls, if they leave no doubt. They are never
judgments. `state_lines` writes them, `observations_in` reads the lines of an earlier compaction.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from itertools import pairwise
from typing import NamedTuple

from codelet.call_record import CallRecord
from codelet.context.compaction.reading import (
    DecodedCall,
    ReadSession,
    SessionPiece,
    clip,
    first_error,
    inside,
    is_name,
    names_in,
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
CAPS = {"anchor": 40, "recency": 20, "relevance": 20, "files": 15, "reference": 10, "feedback": 5}
"""The most points of each part of a score, so that no part wins alone."""
_POINTS_EACH, _RECENT, _READ, _MOST_NAMES = 5, 3, 20_000, 60
_APPROVAL = 40
"""Characters of the longest approval, which is not a question."""
_QUESTION = ("?", "？", "؟", "\u037e")
_COMMAND, _SAID, _STEP, _SEARCHED = 80, 120, 100, 20_000
# What limits the output of a command.
_SHORTENS = re.compile(r"\s*2>&1|(?:\s*\|\s*(?:tail|head)\b[^|]*)+\Z")
_BEFORE_PIPE = re.compile(r"""(?:[^'"]|'[^']*'|"(?:\\.|[^"\\])*")*?(?= \| )""")
# Not with `-f`, which also ends well if there was nothing to remove.
_REMOVES = re.compile(r"\s*(?:rm|del|unlink|Remove-Item|git rm)(?:\s+-[^\sf]+)*((?:\s+[\w./\\][\w./\\-]*)+)\s*\Z")
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
_DONE = "step done:"
_REFUSED = re.compile(r"(?i)\b(?:error|failed|refused|denied|not found|cannot|no such)\b")


class Observation(NamedTuple):
    """One event: `number` is its piece, -1 for an earlier segment.

    `kind` is `wrote`, `deleted`, `ran`, `committed`, or `step done:`.
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
    """Return the events of a session, those of earlier compactions first, completed steps last."""
    found = observations_in(session.state)
    steps = {fact.what: fact for fact in found if fact.kind == _DONE}
    for piece in session.pieces:
        if piece.kind != "result" or (call := piece.call) is None:
            continue
        record = session.records.get(call.id)
        if record is not None and record.status in ("refused", "not_started"):
            continue
        for step, is_done in () if piece.failed else _steps(call):
            if is_done:
                steps.setdefault(step, Observation(piece.turn, _DONE, step, number=piece.number))
            else:
                steps.pop(step, None)  # it is open again
        found += _events(piece, call, record)
    return [*(fact for fact in found if fact.kind != _DONE), *steps.values()]


def _steps(call: DecodedCall) -> Iterator[tuple[str, bool]]:
    """Yield the steps of a plan in a call, and whether each is marked as done."""
    for each in inside(call.values):
        if isinstance(each, dict) and isinstance(status := each.get("status"), str):
            texts = [text for key, text in each.items() if isinstance(text, str) and key not in ("status", "id")]
            yield clip(" ".join(max(texts, key=len, default="").split()), _STEP), status.lower() in _FINISHED
        elif isinstance(each, str) and not call.path and not call.command:
            for mark, step in _BOX.findall(each[:_SEARCHED]):
                yield clip(" ".join(step.split()), _STEP), mark in _TICKS


def _events(piece: SessionPiece, call: DecodedCall, record: CallRecord | None) -> Iterator[Observation]:
    """Yield what a call did: its command, then the files that it wrote or deleted."""
    turn, number = piece.turn, piece.number
    if call.command:
        ending = _ending(piece, record)
        good = False if piece.failed else _ended_well(ending)
        yield Observation(turn, "ran", call.command, ending, good, number, record is not None and record.changes)
        if piece.code == 0 and (removed := _REMOVES.match(call.command)):
            yield from (Observation(turn, "deleted", path, number=number) for path in removed[1].split())
        for commit in _COMMITTED.findall(piece.text[:_SEARCHED] if "commit" in call.command else ""):
            yield Observation(turn, "committed", " ".join(commit), number=number)
    changed: list[tuple[str, str]] = []
    if record is not None:
        changed = [(fact.effect, fact.path) for fact in record.files if fact.effect in _CHANGED]
    elif not piece.failed and not _REFUSED.search(piece.text[:2_000].strip().partition("\n")[0]):
        # A write from elsewhere may report a failure in its text.
        patches = [text for text in strings(call.values) if "*** Begin Patch" in text]
        changed = [found for text in patches for found in _PATCHED.findall(text)]
        changed += [("written", call.path)] if call.writes else []
    for effect, path in changed:
        kind = "deleted" if effect in ("deleted", "Delete") else "wrote"
        yield Observation(turn, kind, path.strip(), number=number)


def _ending(piece: SessionPiece, record: CallRecord | None) -> str:
    """Return a command's exit status, unless it may be another program's, and the last line of counts it printed."""
    status = ""
    if record is not None and record.ended is not None:
        pipeline = record.ended.pipeline or ()
        codes = pipeline if any(pipeline) else (record.ended.code,)
        status = f"exit {'|'.join(map(str, codes))}" if codes != (None,) else "stopped at its time limit"
    elif record is not None:
        if record.status != "failed":  # the result is not all of its output, or says that it started
            return "interrupted" if record.status == "interrupted" else "its end is not known"
    elif piece.code is not None:
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
    if first_error(ending) or _FAILURES.search(ending):
        return False
    return True if _COUNTS.search(ending) else None


def observations_in(lines: Iterable[str]) -> list[Observation]:
    """Return the events in the lines of an earlier compaction."""
    found: list[Observation] = []
    for turn, command, ending, kind, what in (row.groups("") for row in map(_ROW.match, lines) if row):
        good = _ended_well(ending.partition(" (before, at t")[0])
        found.append(Observation(int(turn), kind or "ran", what or command, ending, good, changes=True))
    return found


def state_lines(facts: Sequence[Observation], old: Collection[int], room: int) -> list[str]:
    """Write the events of old pieces in at most `room` characters: what failed first, then what failed before.

    Each command has its last run, with its last failure before. Files that a command may have moved or removed since
    are left out.
    """
    files: dict[str, Observation] = {}
    runs: dict[str, list[Observation]] = {}
    others: list[Observation] = []
    for fact in facts:
        for path in gone_after(fact, files):
            del files[path]
        if fact.kind == "ran":
            runs.setdefault(command_key(fact.what), []).append(fact)
        elif fact.kind in ("wrote", "deleted"):
            files.pop(fact.what, None)
            files[fact.what] = fact
        else:
            others.append(fact)
    newest_first = sorted(runs.values(), key=lambda ran: (ran[-1].number, ran[-1].turn), reverse=True)
    newest_first.sort(key=lambda ran: (ran[-1].good is not False, all(fact.good is not False for fact in ran)))
    rows = [(ran[-1], _run_row(ran)) for ran in newest_first]
    rows += [(fact, f"t{fact.turn} {fact.kind} {fact.what}") for fact in (*reversed(others), *reversed(files.values()))]
    fitting: list[tuple[int, int, str]] = []
    for fact, row in rows:
        if row and (fact.number < 0 or fact.number in old) and len(row) + 1 <= room * 2 // 3:
            room -= len(row) + 1
            fitting.append((fact.number, fact.turn, row))
    return [row for _, _, row in sorted(fitting)]


def _run_row(ran: Sequence[Observation]) -> str:
    """Return the row of a command's runs, "" if they only read and never failed."""
    last, before = ran[-1], ""
    failure = next((fact for fact in reversed(ran) if fact.good is False), None)
    if failure is None and not (last.ending and (len(ran) > 1 or last.changes or _COUNTS.search(last.ending))):
        return ""
    if failure is not None and last.good is not False:
        before = f" (before, at t{failure.turn}: {failure.ending})"
    first, _, more = last.what[:2_000].strip().partition("\n")
    command = clip(" ".join(_SHORTENS.sub("", first).split()), _COMMAND) + (" …" if more else "")
    return f"t{last.turn} ran `{command}`: {last.ending or 'its exit status is not known'}{before}"


def gone_after(fact: Observation, paths: Collection[str]) -> list[str]:
    """Return the files that an event may have removed, moved, or restored, by name, folder, or pattern."""
    if fact.kind == "deleted":
        return [path for path in paths if path == fact.what or path.startswith((f"{fact.what}/", f"{fact.what}\\"))]
    if fact.kind != "ran" or not _MAY_REMOVE.search(fact.what):
        return []
    if _TAKES_ALL_BACK.search(fact.what):
        return list(paths)
    steps = " ".join(filter(_MAY_REMOVE.search, re.split(r"[;&|\n]", fact.what)))
    words = {word.strip("'\"").removeprefix("./").rstrip("/") for word in steps.split()}
    patterns = [word for word in words if "*" in word or "?" in word or "[" in word]
    gone = []
    for path in paths:
        *folders, name = re.split(r"[/\\]", path)
        inside_it = words.intersection("/".join(folders[:count]) for count in range(1, len(folders) + 1))
        if name in fact.what or inside_it or any(fnmatch(path, each) or fnmatch(name, each) for each in patterns):
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
        elif fact.kind in ("committed", _DONE):
            kind = "milestone" if fact.kind == "committed" else "task done"
            settled.append((fact.turn, kind, fact.what, fact.number))
    edited = {fact.what: fact for fact in facts if fact.kind == "wrote"}
    settled += [(fact.turn, "last edit", path, fact.number) for path, fact in edited.items()]
    for before, piece in pairwise(session.pieces):
        text = piece.text.strip()
        if piece.kind == "user" and before.kind == "agent" and 0 < len(text) < _APPROVAL and text[-1] not in _QUESTION:
            settled.append((before.turn, "checkpoint", text, before.number))
    found = {each[:2]: TurnAnchor(*each[:2], clip(" ".join(each[2].split()), _SAID), each[3]) for each in settled}
    return sorted(found.values(), key=lambda anchor: (anchor.turn, -anchor.weight, anchor.kind))


class Score(NamedTuple):
    """A turn's score, by parts. `feedback` comes from the user's pins and drops, from -5 to 5."""

    turn: int
    anchor: int = 0
    recency: int = 0
    relevance: int = 0
    files: int = 0
    reference: int = 0
    feedback: int = 0

    @property
    def total(self) -> int:
        """The sum of the parts, at least 0."""
        return max(0, sum(self[1:]))

    @property
    def lift(self) -> float:
        """The factor for the turn's words and lines: a pin or a drop moves it by half, the other parts a little.

        Larger factors for anchors or scores did not keep more of what was asked later.
        """
        return 1 + (self.total - self.feedback) / 1_000 + self.feedback / 10


def scores(
    session: ReadSession, anchors: Sequence[TurnAnchor], votes: Mapping[int, int], instruction: str = ""
) -> dict[int, Score]:
    """Score every turn. `votes` are the user's pins and drops; an instruction counts as part of the newest prompt."""
    texts, files = dict[int, list[str]](), defaultdict[int, set[str]](set)
    for piece in session.pieces:
        texts.setdefault(piece.turn, []).append(piece.text if piece.number >= session.recent else "")
        if piece.call is not None and piece.call.path:
            files[piece.turn].add(piece.call.path)
    order = sorted(texts)
    prompt = next((piece.text for piece in reversed(session.pieces) if piece.kind == "user"), "")
    found = names_in(f"{instruction}\n{prompt}"[:_READ])
    asked = sorted(filter(is_name, found))[:_MOST_NAMES]
    recent_files = set[str]().union(*(files[turn] for turn in order[-_RECENT:]))
    weights = {anchor.turn: anchor.weight for anchor in sorted(anchors, key=lambda anchor: anchor.weight)}
    first_named: dict[str, int] = {}
    result: dict[int, Score] = {}
    for place, turn in enumerate(order, 1):
        text = "\n".join(texts[turn])
        named = [name for name in asked if name in text]
        for name in named:
            first_named.setdefault(name, turn)
        parts = {
            "anchor": weights.get(turn, 0),
            "recency": CAPS["recency"] * place // len(order),
            "relevance": _POINTS_EACH * len(named),
            "files": _POINTS_EACH * len(files[turn] & recent_files),
            "reference": CAPS["reference"] * any(first_named[name] == turn != order[-1] for name in named),
            "feedback": votes.get(turn, 0),
        }
        capped = {name: max(-CAPS[name], min(CAPS[name], points)) for name, points in parts.items()}
        result[turn] = Score(turn, **capped)
    return result
