"""The rows of a question: what is asked, in full, and why; on a small screen, the dangerous parts."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

from rich.cells import chop_cells
from rich.text import Text

from codelet.frontends.terminal.show.console import truncate, wrap, wrap_indented
from codelet.frontends.terminal.show.diff_rows import HUNK, diff_rows, is_diff
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.style import MARGIN, QUIET, WARN
from codelet.frontends.terminal.status_row import short_path
from codelet.safety.verdict import Question
from codelet.system.text import clean, visible, visible_command
from codelet.system.text.lookalikes import confusables

_NO_LIMIT = 1_000_000
_MOST_WARNINGS, _MOST_WARNING_ROWS = 3, 3
_LONGEST_WORD = 44
_LONGEST_RULE = 200
_WORD_HEAD, _WORD_TAIL = 24, 16
_MOST_REASON_ROWS = 4
_MOST_ROWS = 20
_UNKNOWN = " is not known to be read-only"
_COUNTED = re.compile(r" \(and \d+ more\)")
"""How a reason counts the parts that have others. They are listed, or are the same part again."""
_SIGNS = ("+", "-", " ")
"""The first characters of a diff's lines."""
_VERBS = (("read", "read"), ("list", "list"), ("write", "change"))
_OWN_TOOLS = ("bash", "edit", "write", "read", "find", "grep", "plan", "fetch")
_CHANGES = ("edit", "write")
"""Tools named after what they do to a file."""
_CUT_OFF = re.compile(r"\n(\[… \d+ more characters\])\n?\Z")
"""The end of a truncated diff. It cannot be a line of a file: those begin with a sign."""

Means = Literal["yes", "always", "mode", "no", "stop"]


@dataclass(frozen=True)
class AnswerChoice:
    """One answer: key, words, meaning. `option` is the model's own answer text."""

    key: str
    words: str
    means: Means
    option: str = ""


def head_rows(question: Question, renderer: Renderer, note: str = "", number: int = 1) -> list[Text]:
    """The question in one line. `note` adds its length; `number` counts the questions of this step."""
    head = Text.assemble(("? ", f"bold {WARN}"), (title_words(question), "bold"))
    if _is_change(question) and _has_crlf_only(question.shown):
        head.append(" (CRLF)")
    if (of := number + question.following) > 1:
        head.append(f"  ({number} of {of})", QUIET)
    most = renderer.width + renderer.width // 2
    if note and head.cell_len > most:
        head = Text.assemble(head[: most // 2], "⟨…⟩", head[-most // 3 :])
    return wrap(Text.assemble(head, (f" {note}" if note else "", WARN)), renderer.width)


def body_rows(question: Question, renderer: Renderer) -> list[Text]:
    """The whole command or diff: long lines are wrapped, never cut."""
    width = renderer.width
    if _is_change(question):
        diff = question.shown.replace("\r\n", "\n") if _has_crlf_only(question.shown) else question.shown
        lines = (line[:1] + visible(line[1:]) if line[:1] in _SIGNS else visible(line) for line in diff.split("\n"))
        rows = diff_rows("\n".join(lines), _NO_LIMIT, limit=_NO_LIMIT)
        if cut_off := _CUT_OFF.search(question.shown):
            rows.append(Text(" " * MARGIN + cut_off[1], WARN))
        return [part for row in rows for part in _hanging(row, width, " " * (MARGIN + 7))]
    if _told_by_head(question):
        return []
    indent = " " * (MARGIN + 2)
    if any(touch.kind == "run" for touch in question.touches):
        whole = visible_command(question.shown.removesuffix("\n"))
    else:
        whole = visible(_subject(question))
    rows = []
    for line in whole.split("\n"):
        pieces = wrap(Text(line), width - len(indent) - 2)
        rows += [Text.assemble(indent, "  " if number else "", piece) for number, piece in enumerate(pieces)]
    return rows


def where_rows(question: Question, renderer: Renderer) -> list[Text]:
    """The target of a link that is written, and whether a command runs outside the sandbox."""
    where, place, touches = question.where, question.verdict.place, question.touches
    named = [os.path.normpath(f"{where}/{touch.what}") for touch in touches if touch.kind == "write"]
    is_change = named and place is not None and all(touch.kind != "run" for touch in touches)
    parts = ["outside the sandbox"] if any(touch.unconfined for touch in touches) else []
    if is_change and str(place) not in named and where and os.path.realpath(where) == where:
        parts.insert(0, _on_line(short_path(Path(str(place)))))
    return wrap_indented(Text(f"where: {', '.join(parts)}", QUIET), renderer.width, "  ") if parts else []


def reason_rows(question: Question, renderer: Renderer, room: int | None = None) -> list[Text]:
    """The reasons for asking: each part that may change something.

    `room` is the most rows, if the question's text is not in sight; the rows then show the parts themselves.
    """
    width = renderer.width
    warnings = confusables(question.shown)
    if question.verdict.person_may:
        warnings.insert(0, "this can permanently overwrite what others pushed")
    if _looks_unchanged(question.shown):
        warnings.insert(0, "a change is invisible: spaces, line endings or look-alike letters")
    if len(warnings) > _MOST_WARNINGS:
        warnings = [*warnings[:_MOST_WARNINGS], f"{len(warnings) - _MOST_WARNINGS} more words look like other words"]
    rows = []
    for warning in warnings:  # a word may be as long as it likes: it must not push the parts off the screen
        words = clean(" ".join(map(_elided, warning.split())))
        rows += wrap_indented(Text(f"✗ {words}", WARN), width, "  ")[:_MOST_WARNING_ROWS]
    parts = _parts(question)
    named, others = [part for part in parts if part[0]], "; ".join(reason for text, reason in parts if not text)
    if len(parts) <= 1:
        words = _on_line(reason_of(question))
        rows += _at_most(wrap_indented(Text(f"why: {words}", QUIET), width, "  ") if words else [])
        return [*rows, *(_part_row(*part, width) for part in named if room is not None)]
    note = question.verdict.reason.partition(" more)")[2]
    count = f"{plural(len(named), 'part')} may change something" if named else others
    rows += wrap_indented(Text(f"why: {count}{_on_line(note)}", QUIET), width, "  ")
    most = max(1, (_MOST_ROWS if room is None else room) - len(rows) - _MOST_REASON_ROWS)
    shown = named if len(named) <= most + _MOST_REASON_ROWS else named[:most]
    rows += [_part_row(text, reason, width) for text, reason in shown]
    if rest := named[len(shown) :]:
        names = ", ".join(dict.fromkeys(_elided(text.split(" ", 1)[0]) for text, reason in rest))
        rows += _at_most(wrap_indented(Text(f"and {len(rest)} more: {names}", WARN), width, "    "))
    if named and others:
        rows += _at_most(wrap_indented(Text(f"({others})", WARN), width, "    "))
    return rows


@lru_cache(maxsize=8)  # asked at every key
def _looks_unchanged(shown: str) -> bool:
    """Return whether a removed and an added line look the same on a terminal."""
    if not is_diff(shown):
        return False
    from unicodedata import normalize

    sides: dict[str, dict[str, set[tuple[str, bool]]]] = {"-": {}, "+": {}}
    lines = shown.split("\n")
    for line, following in pairwise([*lines, ""]):
        if line[:1] in sides and not line.startswith(("--- ", "+++ ")):
            looks = normalize("NFC", visible(line[1:]).expandtabs(4).rstrip()).replace("\ufe0f", "")
            sides[line[0]].setdefault(looks, set()).add((line[1:], following.startswith("\\")))
    return any(looks and sides["+"].get(looks, kept) != kept for looks, kept in sides["-"].items())


def reason_of(question: Question) -> str:
    """The verdict's reason, with "it" for the place in the head; "" if a file is simply changed."""
    reason = _COUNTED.sub("", question.verdict.reason).removeprefix("critical: ")
    places = {touch.what for touch in question.touches}
    if reason.endswith(_UNKNOWN):
        return f"{reason.removesuffix(_UNKNOWN)} may change something"
    place = places.pop() if len(places) == 1 else ""
    if place and reason == f"{question.tool} changes {place}":
        return ""
    is_named = place and reason.startswith(f"{place} ") and all(touch.kind != "run" for touch in question.touches)
    return f"it{reason.removeprefix(place)}" if is_named else reason


def _at_most(rows: list[Text]) -> list[Text]:
    if len(rows) <= _MOST_REASON_ROWS:
        return rows
    return [*rows[: _MOST_REASON_ROWS - 1], Text("    …", rows[0].style)]


def _parts(question: Question) -> list[tuple[str, str]]:
    """The parts that may change something, each once, cleaned for one line."""
    found: dict[tuple[str, str], None] = {}
    for text, reason in question.verdict.parts:
        words = " ".join(_elided(word) for word in visible(text).split())
        found[words, _on_line(reason)] = None
    return list(found)


def _part_row(text: str, reason: str, width: int) -> Text:
    """One part on one line, with its reason if neither the row above nor its text gives it."""
    if not text:
        return truncate(Text(f"    ({reason})", WARN), width)
    is_told = reason in (text.partition(" ")[0] + _UNKNOWN, f"it writes to {text.lstrip('>& ')}")
    words = "" if is_told else f"  ({reason})"
    return truncate(Text.assemble("    ", (text, WARN), (words, QUIET)), width)


def _on_line(text: str) -> str:
    """Like `visible`, with codes for line ends: a name must not start a row that looks like another question."""
    return visible(text).replace("\n", "\\x0a").replace("\t", "\\x09")


def _elided(word: str) -> str:
    """Shorten a long word to its start and end, so that the next one stays on the line."""
    return word if len(word) <= _LONGEST_WORD else f"{word[:_WORD_HEAD]}⟨…⟩{word[-_WORD_TAIL:]}"


def _hanging(row: Text, width: int, indent: str) -> list[Text]:
    """Break the row at the width; further pieces are indented below its text."""
    rows: list[Text] = []
    while row.plain or not rows:
        room = max(width - len(indent), 1) if rows else width
        size = len(chop_cells(row.plain, room)[0])
        rows.append(Text.assemble(indent, row[:size]) if rows else row[:size])
        row = row[size:]
    return rows


def title_words(question: Question) -> str:
    """The question. It names a tool that is not codelet's own."""
    if question.options is not None:
        return _on_line(question.asks)
    words = []
    for kind, verb in _VERBS:
        if places := [_on_line(touch.what) for touch in question.touches if touch.kind == kind]:
            is_named = kind == "write" and question.tool in _CHANGES
            words.append(f"{question.tool if is_named else verb} {', '.join(places)}")
    if question.asks:
        words = [_on_line(question.asks)]
    elif any(touch.kind == "run" for touch in question.touches):
        words = ["run this command"]
    if question.tool in _OWN_TOOLS and words:
        title = " and ".join(words)
        return f"{title[:1].upper()}{title[1:]}?"
    return f"Let {clean(question.tool)} {' and '.join(words) or 'run'}?"


def _is_change(question: Question) -> bool:
    """Return whether a diff is shown. A command may begin like one: `diff --git a b; …`."""
    return all(touch.kind != "run" for touch in question.touches) and is_diff(question.shown)


@lru_cache(maxsize=8)  # asked at every key
def _has_crlf_only(diff: str) -> bool:
    """Return whether every line of a diff ends with CRLF, except one without a line end."""
    lines = HUNK.split(diff, maxsplit=1)[-1].split("\n")[1 : -3 if _CUT_OFF.search(diff) else None]
    ends = [
        line.endswith("\r")
        for line, following in pairwise([*lines, ""])
        if line[:1] in _SIGNS and not following.startswith("\\")
    ]
    return bool(ends) and all(ends)


def _told_by_head(question: Question) -> bool:
    """Return whether the head says everything: only a path, or lines of a file, would be read."""
    if question.options is not None:
        return True
    if question.asks or [touch.kind for touch in question.touches] not in (["read"], ["list"]):
        return False
    place, subject = question.touches[0].what, _subject(question)
    return "\n" not in subject and (subject == place or subject.startswith(f"{place}:"))


def _subject(question: Question) -> str:
    """The subject of a call without a diff; with what it would write."""
    subject, arguments = question.shown.removeprefix(f"{question.tool} "), question.arguments
    written = {name: arguments[name] for name in ("content", "edits") if name in arguments}
    if not written or all(touch.kind != "write" for touch in question.touches):
        return subject
    return f"{subject}\n{json.dumps(written, indent=2, ensure_ascii=False, default=str)}"


def offered_rule(question: Question) -> str | None:
    """The rule that "always" would add; None if it would push the question off the screen."""
    rule = question.verdict.suggestion
    return rule if rule is not None and len(rule) <= _LONGEST_RULE else None


def _example(question: Question, rule: str) -> str:
    """Words about what else the rule allows, if it has a wildcard."""
    inner = rule.partition("(")[2].removesuffix(")")
    if inner.endswith("/**"):
        return f", any file in {inner.removesuffix('/**')}"
    if "*" not in inner:
        return ""
    other = (each for each in question.covered if len(each) > len(inner) and each != question.shown.strip())
    return f", such as {next(other, inner.replace('**', 'any/file').replace('*', 'anything'))}"


def choices_for(question: Question) -> list[AnswerChoice]:
    """The possible answers; the first is marked."""
    verdict = question.verdict
    if question.options is not None:
        choices = [AnswerChoice("", each, "yes", option=each) for each in question.options]
        own = AnswerChoice("w", "Write another answer" if choices else "Write the answer", "no")
        return [*choices, own, AnswerChoice("esc", "Stop the turn", "stop")]
    choices = [AnswerChoice("y", "Yes", "yes")]
    again = "Yes, and don't ask again this session for"
    if (rule := offered_rule(question)) is not None:
        choices.append(AnswerChoice("a", f"{again} {rule}{_example(question, rule)}", "always"))
    elif verdict.exactly is not None:
        choices.append(AnswerChoice("a", f"{again} exactly this command", "always"))
    if verdict.lifted_by is not None:
        choices.append(AnswerChoice("shift-tab", "Yes, and accept all edits from now on", "mode"))
    return [*choices, AnswerChoice("n", "No, and say why", "no"), AnswerChoice("esc", "No, and stop the turn", "stop")]
