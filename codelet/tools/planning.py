"""Plans the changes of `write` and `edit`, and makes them once they are approved."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codelet.call_record import FileFact, PathEffect
from codelet.errors import ToolError
from codelet.safety.opener import status_of
from codelet.safety.paths import why_unread
from codelet.tools import encoding, files
from codelet.tools.change import Change
from codelet.tools.files import LARGEST_EDITED
from codelet.tools.replace import replace
from codelet.tools.seen import EVERY, Fingerprint, ShownLines, count_lines, digest_of, named_since
from codelet.tools.tool import ToolContext

_UNSEEN = "{name} was not replaced: {shown} were shown to you. Read the rest and repeat the call, or use edit."
_CREATED = "created {name}: {lines} lines"
_REPLACED = "replaced {name}: {lines} lines"
_EDITED = "edited {name}: {count} replacement{s}"
_FORM_KEPT = " ({form} kept)"
_NOT_SHOWN = " ({unseen} had been shown)"


_STRAY = re.compile("[\ud800-\udfff]")
_MOST_LINES = 4000
_MOST_CHARACTERS = 200


def make_change(change: Change, context: ToolContext) -> FileFact:
    """Write the file and remember it as seen; return what was done. Raises ToolError; then the old file is whole."""
    data = encoding.encode_text(change.after, change.form)
    written = replace(change.path, data, change.name, change.expected)
    known = context.lines.pop(change.path, None)
    context.seen[change.path] = written
    context.contents[change.path] = (written, digest_of(data))
    if change.whole:
        context.saw(ShownLines(change.path, written, (EVERY,)))
    elif known is not None and known.fingerprint == change.expected and change.before is not None:
        context.saw(known.after(change.before, change.after, written))
    effect: PathEffect = "created" if change.expected is None else "changed"
    if change.before == change.after:
        effect = "written"
    return FileFact(effect, change.name, count_lines(change.after), len(data))


def plan_write(context: ToolContext, path: str, content: str) -> Change:
    """Return what `write` would do, without doing it. Raises ToolError."""
    encoding.must_be_text(content, "the content")
    resolved = files.resolve(context, path)
    name = files.shown(context, resolved)
    lines = count_lines(content)
    summary = _CREATED.format(name=name, lines=lines)
    new = Change(path=resolved, name=name, before=None, after=content, summary=summary, whole=True)
    try:
        status = status_of(resolved)
    except FileNotFoundError:
        return new
    except OSError as error:
        raise files.failure(error, name) from error
    expected = _last_seen(context, resolved, name, status)
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
    encoding.must_be_safe(content, before, form)
    after = _with_line_ends(content, _has_crlf(before))
    kept = [form.codec] if form.bom or form.codec != "utf-8" else []
    kept += ["CRLF line ends"] if after != content else []
    note = _FORM_KEPT.format(form=" and ".join(kept)) if kept else ""
    unseen = _unseen(known, before) if after != before else ""
    summary += note + _not_shown(unseen)
    return new.replace(before=before, after=after, form=form, expected=expected, summary=summary, unseen=unseen)


def _last_seen(context: ToolContext, path: Path, name: str, status: os.stat_result) -> Fingerprint | None:
    """The fingerprint that the file had when the model last saw it: its present one if it has the same bytes still.

    So a file that was only touched, or copied over itself, counts as read. Its bytes are looked at only if the size is
    the same.
    """
    expected, current = context.seen.get(path), files.fingerprint(status)
    known = context.contents.get(path)
    if expected in (None, current) or known is None or known[0] != expected or expected[0] != current[0]:
        return expected
    data, current = files.read_whole(path, name, LARGEST_EDITED)
    if digest_of(data) == known[1]:
        context.touched(path, current)
    return context.seen[path]


def known_content(change: Change) -> Change:
    """The change, if it replaces nothing that the model was not shown; raises ToolError else."""
    if change.unseen:
        raise ToolError(_UNSEEN.format(name=change.name, shown=change.unseen))
    return change


def _unseen(known: ShownLines, text: str) -> str:
    """Return a description of the shown part of the file's text; empty if that is all of it."""
    lines = count_lines(text)
    stray = [number for number, line in enumerate(text.split("\n"), 1) if _STRAY.search(line)]
    if known.spans != (EVERY,) and stray:
        rest = ShownLines(known.path, known.fingerprint, tuple((number, number) for number in stray))
        if rest.joined(known).covers(lines):
            return f"all but {len(_STRAY.findall(text)):,} bytes that are no text"
    if known.covers(lines):
        return ""
    return known.named(lines) if known.spans else f"none of its {lines:,} lines"


def _not_shown(unseen: str) -> str:
    return _NOT_SHOWN.format(unseen=unseen) if unseen else ""


def plan_edit(context: ToolContext, path: str, edits: Sequence[Mapping[str, Any]]) -> Change:
    """Return what `edit` would do, without doing it. Raises ToolError."""
    if not edits:
        raise ToolError("edits is empty: give at least one {old, new}")
    resolved = files.resolve(context, path)
    name = files.shown(context, resolved)
    try:
        status = status_of(resolved)
        if not status.st_size and _is_new_text(edits):
            return plan_write(context, path, edits[0]["new"])
    except FileNotFoundError as error:
        if _is_new_text(edits):
            return plan_write(context, path, edits[0]["new"])
        raise ToolError(f"{name} does not exist: to create it use write; find looks for files by name") from error
    except OSError as error:
        raise files.failure(error, name) from error
    _last_seen(context, resolved, name, status)
    data, current = files.read_whole(resolved, name, LARGEST_EDITED)
    was_read = _may_edit(context, resolved, name, current)
    decoded = encoding.decode_text(data)
    if decoded is None:
        raise ToolError(f"{name} is {encoding.binary_kind(data)}, not text: use bash")
    before, form = decoded
    after, places = before, 0
    for number, replacement in enumerate(edits, 1):
        try:
            encoding.must_be_safe(replacement["new"], replacement["old"], form)
            after, count = _replace(after, replacement)
            if count > 1 and not was_read:
                raise ToolError(f"old occurs {count} times, and {name} was not read: read it first")
        except ToolError as error:
            which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            raise ToolError(f"{which}{error}; {name} was not changed") from error
        places += count
    summary = _EDITED.format(name=name, count=places, s="s" if places > 1 else "")
    return Change(path=resolved, name=name, before=before, after=after, form=form, expected=current, summary=summary)


def _is_new_text(edits: Sequence[Mapping[str, object]]) -> bool:
    """Return whether the edits are one that replaces nothing: several models make a new file so."""
    return len(edits) == 1 and not edits[0]["old"]


def _may_edit(context: ToolContext, path: Path, name: str, current: Fingerprint) -> bool:
    """Return whether the present file was read. Raises ToolError if not even a part of it was shown.

    A search or a command may have shown the text to replace. If `old` occurs exactly once, that is proof enough that
    the model knows it, if the file has not changed since. Files with the names of secrets must be read: that asks.
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
    if old not in plain and not old.isascii():
        old, new = _normalized_as(plain, old, new)
    starts = [found.start() for found in re.finditer(re.escape(old), plain)]
    if not starts:
        raise ToolError(f"old was not found{_closest(plain, old)}")
    if len(starts) > 1 and not everywhere:
        lines = ", ".join(str(plain.count("\n", 0, start) + 1) for start in starts[:10])
        more = ", …" if len(starts) > 10 else ""
        raise ToolError(
            f"old occurs {len(starts)} times, at lines {lines}{more}: add lines around it, or set all to true"
        )
    # Positions in `plain` become positions in `text` by the number of CRs that were taken out before them.
    crlf = _has_crlf(text)
    crs = [match.start() - count for count, match in enumerate(re.finditer("\r\n", text))]
    parts, done = [], 0
    for start in starts:
        low = start + bisect_left(crs, start)
        high = start + len(old) + bisect_left(crs, start + len(old))
        replaced = text[low:high]
        parts += [text[done:low], _with_line_ends(new, _has_crlf(replaced) if "\n" in replaced else crlf)]
        done = high
    return "".join([*parts, text[done:]]), len(starts)


def _with_line_ends(text: str, crlf: bool) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text


def _has_crlf(text: str) -> bool:
    """Return whether most lines of the text end with CRLF."""
    return 2 * text.count("\r\n") > text.count("\n")


def _normalized_as(text: str, old: str, new: str) -> tuple[str, str]:
    """Return `old` and `new` in the Unicode normalization that `old` has in the text; unchanged if it is not there.

    Names and texts from macOS have letters and their accents as two characters, models write them as one.
    """
    for form in ("NFD", "NFC"):
        if (normalized := unicodedata.normalize(form, old)) in text:
            return normalized, unicodedata.normalize(form, new)
    return old, new


def _closest(text: str, old: str) -> str:
    """A clause that tells the model why `old` is not in the text, or which line is closest; may be empty."""
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    if all(re.match(r"\s*\d+\t", line) for line in wanted):
        return ": leave out the line numbers that read shows"
    stripped, sought = [line.strip() for line in lines], [line.strip() for line in wanted]
    if any(sought):
        for at, line in enumerate(stripped):
            if line == sought[0] and stripped[at : at + len(sought)] == sought:
                return f": at line {at + 1} it has other white space there; copy it exactly as read shows it"
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
