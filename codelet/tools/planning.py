"""What `write` and `edit` would change, worked out without changing it, and the change made once it may be."""

from __future__ import annotations

import re
import stat
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codelet.errors import ToolError
from codelet.safety.opener import status_of
from codelet.safety.paths import why_unread
from codelet.tools import encoding, files
from codelet.tools.change import Change
from codelet.tools.replace import replace
from codelet.tools.seen import EVERY, Fingerprint, ShownLines, count_lines, named_since
from codelet.tools.tool import ToolContext

_UNSEEN = "{name} was not replaced: {shown} were shown to you. Read the rest and repeat the call, or use edit."
_CREATED = "created {name}: {lines} lines"
_REPLACED = "replaced {name}: {lines} lines"
_EDITED = "edited {name}: {count} replacement{s}"
_FORM_KEPT = " ({form} kept)"
_NOT_SHOWN = " ({unseen} had been shown)"


LARGEST_EDITED = 10 << 20
"""Bytes; larger files are neither edited nor compared."""

_MOST_LINES = 4000
_MOST_CHARACTERS = 200


def make_change(change: Change, context: ToolContext) -> None:
    """Write the file and remember it as seen. Raises ToolError; then the old file is whole."""
    data = encoding.encode_text(change.after, change.form)
    written = replace(change.path, data, change.name, change.expected)
    known = context.lines.pop(change.path, None)
    context.seen[change.path] = written
    if change.whole:
        context.saw(ShownLines(change.path, written, (EVERY,)))
    elif known is not None and known.fingerprint == change.expected and change.before is not None:
        context.saw(known.after(change.before, change.after, written))


def plan_write(context: ToolContext, path: str, content: str) -> Change:
    """What `write` would do, without doing it. Raises ToolError."""
    encoding.must_be_text(content, "the content")
    resolved = files.resolve(context, path)
    name = files.shown(context, resolved)
    lines = count_lines(content)
    summary = _CREATED.format(name=name, lines=lines)
    new = Change(path=resolved, name=name, before=None, after=content, summary=summary, whole=True)
    expected = context.seen.get(resolved)
    try:
        status = status_of(resolved)
    except FileNotFoundError:
        return new
    except OSError as error:
        raise files.failure(error, name) from error
    if stat.S_ISREG(status.st_mode) and not status.st_size:
        expected = files.fingerprint(status)  # there is nothing to lose
    files.must_be_current(resolved, name, expected)
    assert expected is not None
    summary = _REPLACED.format(name=name, lines=lines)
    known = context.lines.get(resolved)
    known = known if known is not None and known.fingerprint == expected else ShownLines(resolved, expected, ())
    old = None
    if status.st_size <= LARGEST_EDITED:
        data, current = files.read_whole(resolved, name, LARGEST_EDITED)
        if current != expected:
            raise ToolError(f"{name} changed since it was read: read it again, then repeat the call")
        old = encoding.decode_text(data)
    if old is None:
        unseen = "" if known.spans == (EVERY,) else f"nothing of its {status.st_size:,} bytes"
        summary += _not_shown(unseen)
        return new.replace(expected=expected, summary=summary, unseen=unseen)
    before, form = old
    after = _with_line_ends_of(content, before)
    kept = [form.codec] if form.bom or form.codec != "utf-8" else []
    kept += ["CRLF line ends"] if after != content else []
    note = _FORM_KEPT.format(form=" and ".join(kept)) if kept else ""
    unseen = _unseen(known, before) if after != before else ""
    summary += note + _not_shown(unseen)
    return new.replace(before=before, after=after, form=form, expected=expected, summary=summary, unseen=unseen)


def known_content(change: Change) -> Change:
    """The change, if it replaces nothing that the model was not shown; raises ToolError else."""
    if change.unseen:
        raise ToolError(_UNSEEN.format(name=change.name, shown=change.unseen))
    return change


def _unseen(known: ShownLines, text: str) -> str:
    """What was shown of the file's text, in words; empty where that is all of it."""
    lines = count_lines(text)
    if known.covers(lines):
        strays = 0 if known.spans == (EVERY,) else len(re.findall("[\ud800-\udfff]", text))
        return f"all but {strays:,} bytes that are no text" if strays else ""
    return known.named(lines) if known.spans else f"none of its {lines:,} lines"


def _not_shown(unseen: str) -> str:
    return _NOT_SHOWN.format(unseen=unseen) if unseen else ""


def plan_edit(context: ToolContext, path: str, edits: Sequence[Mapping[str, Any]]) -> Change:
    """What `edit` would do, without doing it. Raises ToolError."""
    if not edits:
        raise ToolError("edits is empty: give at least one {old, new}")
    resolved = files.resolve(context, path)
    name = files.shown(context, resolved)
    try:
        if not status_of(resolved).st_size and _is_new_text(edits):
            return plan_write(context, path, edits[0]["new"])
    except FileNotFoundError as error:
        if _is_new_text(edits):
            return plan_write(context, path, edits[0]["new"])
        raise ToolError(f"{name} does not exist: to create it use write; find looks for files by name") from error
    except OSError as error:
        raise files.failure(error, name) from error
    data, current = files.read_whole(resolved, name, LARGEST_EDITED)
    was_read = _may_edit(context, resolved, name, current)
    decoded = encoding.decode_text(data)
    if decoded is None:
        raise ToolError(f"{name} is {encoding.binary_kind(data)}, not text: use bash")
    before, form = decoded
    after, places = before, 0
    for number, replacement in enumerate(edits, 1):
        try:
            after, count = _replace(after, replacement)
            if count > 1 and not was_read:
                raise ToolError(f"old occurs {count} times, and {name} was not read: read it first")
        except ToolError as error:
            which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            raise ToolError(f"{which}{error}; {name} was not changed") from error
        places += count
    summary = _EDITED.format(name=name, count=places, s="s" if places > 1 else "")
    return Change(path=resolved, name=name, before=before, after=after, form=form, expected=current, summary=summary)


def _is_new_text(edits: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the edits are one that replaces nothing: several models make a new file so."""
    return len(edits) == 1 and not edits[0]["old"]


def _may_edit(context: ToolContext, path: Path, name: str, current: Fingerprint) -> bool:
    """Whether the file was read as it stands. Raises ToolError where it was not even shown in part.

    A search or a command may have shown what is to be replaced. That `old` occurs exactly once is then proof enough
    that the model knows it, if the file has not changed since. Files with the names of secrets must be read: that asks.
    """
    expected = context.seen.get(path)
    if current == expected:
        return True
    status = files.must_be_current(path, name, current)
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    if not why_unread(name) and named_since(context.outputs, name, changed):
        return False
    if expected is None:
        raise ToolError(f"{name} was not read: read it first, then repeat the call")
    raise ToolError(f"{name} changed since it was read: read it again, then repeat the call")


def _replace(text: str, replacement: Mapping[str, Any]) -> tuple[str, int]:
    """The text with one replacement made, and in how many places. What is outside of them keeps every byte.

    Line ends are compared as if all were LF, because that is what the model saw.
    """
    old, new = replacement["old"], replacement["new"].replace("\r\n", "\n")
    everywhere = replacement.get("all", False)
    if not old:
        raise ToolError("old is empty: give the text to replace; it may be empty for a new file only")
    if old == new:
        raise ToolError("old and new are the same")
    encoding.must_be_text(new, "new")
    plain = text.replace("\r\n", "\n")
    if old not in plain:
        old = old.replace("\r\n", "\n")
    starts = _occurrences(plain, old)
    if not starts:
        raise ToolError(f"old was not found{_closest(plain, old)}")
    if len(starts) > 1 and not everywhere:
        lines = ", ".join(str(plain.count("\n", 0, start) + 1) for start in starts[:10])
        more = ", …" if len(starts) > 10 else ""
        raise ToolError(
            f"old occurs {len(starts)} times, at lines {lines}{more}: add lines around it, or set all to true"
        )
    # Positions in `plain` become positions in `text` by the number of CRs that were taken out before them.
    crs = [match.start() - count for count, match in enumerate(re.finditer("\r\n", text))]
    parts, done = [], 0
    for start in starts:
        low = start + bisect_left(crs, start)
        high = start + len(old) + bisect_left(crs, start + len(old))
        replaced = text[low:high]
        parts += [text[done:low], _with_line_ends_of(new, replaced if "\n" in replaced else text)]
        done = high
    return "".join([*parts, text[done:]]), len(starts)


def _occurrences(text: str, old: str) -> list[int]:
    starts = []
    at = text.find(old)
    while at >= 0:
        starts.append(at)
        at = text.find(old, at + len(old))
    return starts


def _with_line_ends_of(text: str, example: str) -> str:
    """The text with CRLF line ends if most lines of the example have them."""
    ends = example.count("\r\n")
    if not ends or 2 * ends <= example.count("\n"):
        return text
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _closest(text: str, old: str) -> str:
    """A clause that tells the model why `old` is not in the text, or which line is closest; may be empty."""
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    if all(re.match(r"\s*\d+\t", line) for line in wanted):
        return ": leave out the line numbers that read shows"
    stripped, sought = [line.strip() for line in lines], [line.strip() for line in wanted]
    if any(sought):
        for at, line in enumerate(stripped):
            if line == sought[0] and stripped[at : at + len(sought)] == sought:
                return f": at line {at + 1} it stands with other white space; copy it exactly as read shows it"
    return _most_alike(lines, max(wanted, key=len))


def _most_alike(lines: list[str], line: str) -> str:
    import difflib

    sought = line.strip()[:_MOST_CHARACTERS]
    numbers: dict[str, int] = {}
    for number, candidate in enumerate(lines, 1):
        numbers.setdefault(candidate.strip()[:_MOST_CHARACTERS], number)
        if len(numbers) > _MOST_LINES:
            break
    found = difflib.get_close_matches(sought, numbers, 1, 0.6) if sought else []
    if not found:
        return ": read the file again and copy the text exactly"
    return f"; the closest line is {numbers[found[0]]}: {encoding.readable(found[0])}"
