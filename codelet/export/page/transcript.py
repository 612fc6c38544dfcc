"""The conversation as the page shows it: what was said, what was called, what changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count

from codelet.context.compaction.segments import parse_segment
from codelet.export.document import ArchiveEntry
from codelet.messages import SEGMENT_OPENING, Arguments, Message, ToolCall, kind_of, reasoning_of, reminder_type
from codelet.record import Record
from codelet.system.text import one_line
from codelet.tools import title_of
from codelet.tools.change import unified

_LONGEST = 60_000
_CODE = re.compile(
    r"^ {0,3}(?P<fence>```+|~~~+)[^\n]*\n(?P<block>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$\n?|\Z)"
    r"|(?P<tick>`+)(?P<inline>[^`\n]+)(?P=tick)",
    re.MULTILINE | re.DOTALL,
)
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)
_FAILED = re.compile(r"(?i)error|\[?exit (?:code|status):? [1-9]")
_OTHERS_SUMMARY = "[Memory Summary]"
_MOST_ARCHIVED = 2_000


Pieces = list[tuple[str, str]]
"""Texts, each after its kind. Of an answer: `text`, `code` in a line, or `pre` for a block of code. Of a difference:
`add`, `del`, `at` for a line that says what follows, or nothing.
"""


class ShownCall(Record):
    """A call with its result, or with the differences that the result or the arguments tell."""

    name: str
    subject: str
    arguments: str
    changes: tuple[Pieces, ...]
    difference: Pieces | None
    result: str
    failed: bool


class ShownMessage(Record, kw_only=True):
    """One message. `folded` names one that opens with a click; `stood_for` is what a summary replaced. The user's own
    have a `number`, from 1.
    """

    role: str
    text: str
    number: int = 0
    folded: str = ""
    reasoning: str = ""
    pieces: tuple[tuple[str, str], ...] = ()
    calls: tuple[ShownCall, ...] = ()
    stood_for: tuple[ShownMessage, ...] = ()


def transcript(messages: Sequence[Message], archive: Sequence[ArchiveEntry] = ()) -> list[ShownMessage]:
    """Return all messages in order; a result is with its call, old turns in `archive` are with their summary."""
    entries = [_with_archived(entry, archive) if entry.folded == "summary" else entry for entry in _entries(messages)]
    return _numbered(entries, count(1))


def prompts_of(conversation: Sequence[ShownMessage]) -> Iterator[ShownMessage]:
    """Return the user's messages in order, with those of a summary in its position."""
    for entry in conversation:
        if entry.number:
            yield entry
        yield from prompts_of(entry.stood_for)


def _numbered(entries: Sequence[ShownMessage], numbers: Iterator[int]) -> list[ShownMessage]:
    return [
        entry.replace(stood_for=tuple(_numbered(entry.stood_for, numbers)))
        if entry.stood_for
        else entry.replace(number=next(numbers))
        if entry.role == "user" and not entry.folded
        else entry
        for entry in entries
    ]


def _with_archived(summary: ShownMessage, archive: Sequence[ArchiveEntry]) -> ShownMessage:
    """Return the summary with the newest of its turns."""
    turns = parse_segment(summary.text)
    taken: dict[str, Message] = {}
    for entry in archive:
        message = entry["message"]
        calls = " ".join(call["id"] for call in message.get("tool_calls") or ())
        name = f"{message['role']} {message.get('tool_call_id') or calls or entry['id']}"
        if turns.first <= entry["turn"] <= turns.last and not (message.get("content") or "").startswith(
            SEGMENT_OPENING
        ):
            taken.setdefault(name, message)  # one that was shortened first is there twice
    return summary.replace(stood_for=tuple(_entries([*taken.values()][-_MOST_ARCHIVED:])))


def _entries(messages: Sequence[Message]) -> list[ShownMessage]:
    results: dict[str, str] = {}
    shown: list[ShownMessage] = []
    for message in reversed(messages):  # ids may come twice: a call's result is the nearest one after it
        if message["role"] == "tool":
            results[message["tool_call_id"]] = message["content"] or ""
        else:
            shown.append(_entry(message, results))
    return shown[::-1]


def _entry(message: Message, results: dict[str, str]) -> ShownMessage:
    role, content = message["role"], message["content"] or ""
    text, folded = _cut(content), ""
    if role == "assistant":
        calls = tuple(_call(call, results.pop(call["id"], "")) for call in message.get("tool_calls", ()))
        reasoning = _cut(reasoning_of(message))
        return ShownMessage(role=role, text=text, reasoning=reasoning, pieces=tuple(_prose(text)), calls=calls)
    if (kind := kind_of(message)) == "reminder":
        folded = f"reminder {reminder_type(message)}"
    elif kind == "segment" or content.startswith(_OTHERS_SUMMARY):
        folded = "summary"
    elif role == "system":
        folded = "system"
    return ShownMessage(role=role, text=text, folded=folded)


def _prose(content: str) -> Pieces:
    """Text with its code set apart."""
    pieces: Pieces = []
    start = 0
    for found in _CODE.finditer(content):
        before = content[start : found.start()]
        if found["fence"]:
            pieces += [("text", before.rstrip("\n")), ("pre", found["block"])]
        else:
            pieces += [("text", before), ("code", found["inline"])]
        start = found.end()
    pieces.append(("text", content[start:]))
    return [(kind, text) for kind, text in pieces if text]


def _call(call: ToolCall, result: str) -> ShownCall:
    name, written = call["function"]["name"], call["function"]["arguments"]
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        value = None
    arguments: Arguments = value if isinstance(value, dict) else {}
    texts = (item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in arguments.values())
    listed = [f"{key}: {text}" for key, text in zip(arguments, texts, strict=True)]
    return ShownCall(
        name=one_line(name, 60),
        subject=one_line(title_of(name, arguments), 160),
        arguments=_cut("\n".join(listed) if arguments else written),
        changes=tuple(_lines(change, body=True) for change in _changes(arguments)),
        difference=_lines(result) if _HUNK.search(result[:4000]) else None,
        result=_cut(result),
        failed=_FAILED.match(result) is not None,
    )


def _changes(arguments: Arguments) -> Iterator[str]:
    """The differences that a call asked for: replacements in a file, or its whole text."""
    path = str(arguments.get("path") or "")
    edits = arguments.get("edits")
    if not path:
        return
    if isinstance(edits, list):
        for edit in edits:
            if isinstance(edit, dict) and isinstance(edit.get("old"), str) and isinstance(edit.get("new"), str):
                yield _body(unified(f"{edit['old']}\n", f"{edit['new']}\n", path))
    elif isinstance(arguments.get("content"), str):
        yield _body(unified("", arguments["content"], path))


def _body(difference: str) -> str:
    """Return a difference without headers: the call names the path, and the line numbers are unknown."""
    return difference.split("\n", 3)[-1]


def _lines(difference: str, *, body: bool = False) -> Pieces:
    """The lines of a unified difference; `body` says that it has no headers."""
    pieces: Pieces = []
    for line in _cut(difference).rstrip("\n").split("\n"):
        body = body or line.startswith("@@")
        kind = {"+": "add", "-": "del", "@": "at"}.get(line[:1], "") if body else "at"
        pieces.append((kind, line))
    return pieces


def _cut(content: str) -> str:
    if len(content) <= _LONGEST:
        return content
    half = _LONGEST // 2
    return f"{content[:half]}\n[… {len(content) - _LONGEST:,} characters left out …]\n{content[-half:]}"
