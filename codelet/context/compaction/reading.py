"""A list of messages as pieces: texts, calls, and results, in order, with the entries of earlier segments.

The end of a call comes from its record. In a list from elsewhere it is read from the result, and only from forms that
programs print. Tools are recognised by the keys of their arguments, not by name.

Here are also the names, words, and noise in a line, texts cut between tokens, and diffs applied: by the forms of names
and diffs, without knowing a natural language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from codelet.call_record import CallRecord
from codelet.context.compaction.segments import parse_segment, turns_of
from codelet.messages import ForeignMessage, call_arguments, call_name, calls_of, images_of, kind_of, text_of
from codelet.prompt import PICTURES_DROPPED

_LABEL, _LONGEST_PATH, _SEARCHED = 90, 300, 20_000
_LONGEST_JSON, _MOST_READ = 2_000_000, 4_000_000
_IN_FOLDER = re.compile(r"^(?:cd\s+\S+\s*(?:&&|;|\n)\s*)+")
_PATH_KEY = re.compile(r"path|file(?!.*(?:text|content))|notebook", re.IGNORECASE)
_COMMAND_KEY = re.compile(r"command|cmd|script|shell", re.IGNORECASE)
_OLD_KEY = re.compile(r"old|search|find|target_?content|before", re.IGNORECASE)
_NEW_KEY = re.compile(r"new|replace|after", re.IGNORECASE)
_CODE_KEY = re.compile(r"(?:exit|return)_?(?:code|status)\Z", re.IGNORECASE)
# How agents and shells report an exit status, alone on a line.
_EXIT = re.compile(r"(?i)^\W{0,3}(?:\w+ )?exit(?:ed)?(?: with)?[ _](?:code|status)[: ]+(-?\d+)\W*$")
# What programs print at the start of a line, or as all of it. A file NotFoundError.ts in a listing is no error.
_ERROR = re.compile(
    r"\s*(?:[\w.]*(?:Error|Exception|Panic): \S|"
    r"(?:\S{1,120}[:(]\d+[,:)]\S*\s*)?(?:- )?(?:[Ee]rror|ERROR|fatal|panic)(?:\[\w+\]| TS\d+)?: \S|"
    r"FAILED \S|FAIL[: ]\S|--- FAIL|E   \S|npm ERR!)|"
    r".{0,120}(?:command not found|No such file or directory|Permission denied)\s*\Z"
)
_SHORTEST, _LONGEST_LINE, _PIECE, _MOST_PIECES = 9, 320, 240, 40
_NAME = re.compile(r"[A-Za-z0-9_$@~./#][A-Za-z0-9_$@~./:#+-]*[A-Za-z0-9_]")
_MARKED = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]|[A-Za-z0-9][_./:-]+[A-Za-z0-9]|[a-zA-Z]\d|\d[a-zA-Z]|^[~@$_#./]")
_WORD = re.compile(r"[^\W\d_]{5,}|(?<![\w.])\d[\d.,:]*\d(?!\w)")
# Scripts from Thai on write words without spaces, or in short blocks: pairs of letters serve as their words.
_DENSE = "\u0e00-\u1fff\u2c00-\u2fff\u3040-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_PAIR = re.compile(f"(?=([{_DENSE}]{{2}}))")
_NO_TOKEN = re.compile(f"[\\s\u3000-\u303f\uff00-\uffef{_DENSE}]")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/=_%-]{20,}")
_ALTERNATION = re.compile(r"\d[A-Za-z]|[A-Za-z](?=\d)")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_LINE_NUMBER = re.compile(r"^\s*\d+(?:→|\t|: ?(?=\s|\S)|\|)")
_LONGEST_TOKEN = 60
_LEFT_OUT = " […] "
_MAYBE = re.compile(r"^(?:\*\*\* Begin Patch|@@ |@@$|diff --git |\s*```diff|<{5,9} |-{5,9} SEARCH)", re.MULTILINE)
_BLOCK = re.compile(
    r"^(?:<{5,9} ?\w*|-{5,9} SEARCH)\n(.*?)^={5,9}\n(.*?)^(?:>{5,9} ?\w*|\+{5,9} REPLACE)$", re.MULTILINE | re.DOTALL
)
_FENCED = re.compile(r"^\s*```diff\n(.*?)^\s*```", re.MULTILINE | re.DOTALL)
_REMOVED, _ADDED = re.compile(r"^-(?!--)(.*)\n?", re.MULTILINE), re.compile(r"^\+(?!\+\+)", re.MULTILINE)
_HUNKS = re.compile(r"^((?:\*\*\* Begin Patch|@@ |@@$|diff --git ).*)", re.MULTILINE | re.DOTALL)


class DecodedCall(NamedTuple):
    """One call: its decoded arguments, the path and the command in them, its heading, its pairs of old and new text.

    `writes` is true if it has text for a file.
    """

    id: str
    values: Mapping[str, Any]
    path: str
    command: str
    label: str
    edits: Sequence[tuple[str, str]]
    writes: bool


class SessionPiece(NamedTuple):
    """A text, call, or result: `kind` is user, agent, call, or result, `at` the place of its message.

    `failed` and `code`, the exit status, belong to results; `label` is the heading of a call and its result. `number`
    is its place in the session.
    """

    number: int
    at: int
    turn: int
    kind: str
    text: str
    label: str = ""
    call: DecodedCall | None = None
    code: int | None = None
    failed: bool = False

    @property
    def path(self) -> str:
        """The file of a call; for a piece from a segment the subject in its heading."""
        return self.call.path if self.call is not None else self.label.partition(" ")[2]


class ReadSession:
    """The pieces of a normalised list; `turns` has the turn of each message.

    `handoff` and `state` come from earlier segments. `records` are by the call's id. Of pieces before number `recent`,
    older than the newest four million characters, only the user's words and the events are used, to limit the time.
    """

    def __init__(self, messages: Sequence[ForeignMessage], records: Mapping[str, CallRecord] | None = None) -> None:
        self.records, self.turns = records or {}, turns_of(messages)
        self.handoff: list[str] = []
        self.state: list[str] = []
        self.pieces: list[SessionPiece] = []
        open_calls: dict[str, DecodedCall] = {}
        for at, message in enumerate(messages):
            kind, turn = kind_of(message), self.turns[at]
            if kind == "prompt":
                self._add(at, turn, "user", _with_images(message, text_of(message)))
            elif kind == "segment":
                segment = parse_segment(text_of(message))
                self.handoff = segment.handoff or self.handoff
                self.state += segment.state
                for entry in segment.entries:
                    kind = {"": "agent", "user": "user"}.get(entry.label, "result")
                    label = entry.label if kind == "result" else ""
                    self._add(at, entry.turn, kind, "\n".join(entry.lines), label)
            elif kind == "assistant":
                calls = [call_of(call) for call in calls_of(message)]
                self._add(at, turn, "agent", text_of(message))
                for call in calls:
                    self._add(at, turn, "call", "", call.label, call)
                open_calls = {call.id: call for call in calls}
            elif kind == "tool":
                self._add_result(at, turn, message, open_calls.get(str(message.get("tool_call_id"))))
        self.recent, left = len(self.pieces), _MOST_READ
        while self.recent and left > 0:
            self.recent -= 1
            left -= len(self.pieces[self.recent].text)

    def _add(
        self, at: int, turn: int, kind: str, text: str, label: str = "", call: DecodedCall | None = None, **ended: Any
    ) -> None:
        self.pieces.append(SessionPiece(len(self.pieces), at, turn, kind, text, label, call, **ended))

    def _add_result(self, at: int, turn: int, message: ForeignMessage, call: DecodedCall | None) -> None:
        text, code, says_no = output_of(text_of(message))
        record = self.records.get(call.id) if call is not None else None
        if record is not None:
            code = record.ended.code if record.ended is not None else None
            failed = record.status == "failed" or code not in (None, 0)
        else:
            failed = bool(message.get("failed")) or says_no
            command = call.command.rstrip() if call is not None else ""
            if code == 0 and ("|" in command or ";" in command or command.endswith("&")):
                code = None  # it may be another program's
            if command and not failed:
                failed = bool(first_error(text)) if code is None else code != 0
        label = call.label if call else "result"
        self._add(at, turn, "result", _with_images(message, text), label, call, code=code, failed=failed)


def _with_images(message: ForeignMessage, text: str) -> str:
    """Return a text with the names of the message's images, as segments have no images."""
    names = ", ".join(image["name"] for image in images_of(message))
    return f"{text}\n{names}: {PICTURES_DROPPED}" if names else text


def call_of(call: Mapping[str, object]) -> DecodedCall:
    """Return a call with its arguments decoded."""
    values = _decoded(call_arguments(call))
    texts = {key: text for key, text in values.items() if isinstance(text, str)}
    paths = (text for key, text in texts.items() if _PATH_KEY.search(key))
    path = next((text for text in paths if 0 < len(text) <= _LONGEST_PATH and "\n" not in text), "")
    command = next((text for k, v in values.items() if _COMMAND_KEY.search(k) and (text := _command(v))), "")
    if path and not re.search(r"\s", command):
        command = ""  # the name of a subcommand of the tool: `view`, `str_replace`
    subject = _IN_FOLDER.sub("", command, count=1) or path
    subject = subject or next((text for text in strings(values) if text.strip()), "")
    label = clip(" ".join(subject[: 4 * _LABEL].split()), _LABEL).replace("[…]", "…")
    heading = f"{call_name(call)} {label}".strip().replace("]", ")")
    edits = []
    for each in (each for each in inside(values) if isinstance(each, dict)):
        own = [(key, text) for key, text in each.items() if isinstance(text, str)]
        old = next((text for key, text in own if _OLD_KEY.match(key) and text), "")
        new = next((text for key, text in own if _NEW_KEY.match(key)), None)
        edits += [(old, new)] if old and new is not None else []
    content = any("content" in key.lower() or "text" in key.lower() for key in values)
    writes = bool(path and not command) and (bool(edits) or (content and any(not _PATH_KEY.search(k) for k in texts)))
    return DecodedCall(str(call["id"]), values, path, command, heading, edits, writes)


def _decoded(arguments: str) -> Mapping[str, Any]:
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return {"input": arguments}
    return values if isinstance(values, dict) else {"input": values}


def _command(value: object) -> str:
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        shell = len(value) == 3 and value[1].startswith("-") and value[1].endswith("c")  # ["bash", "-lc", "make"]
        return str(value[2]) if shell else " ".join(value)
    return value if isinstance(value, str) else ""


def inside(value: object) -> Iterator[object]:
    """Yield a decoded value and all values in it, in order."""
    stack = [value]
    while stack:
        each = stack.pop()
        yield each
        stack.extend(reversed(each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()))


def strings(value: object) -> Iterator[str]:
    """Yield the texts and numbers in a decoded value, in order."""
    for each in inside(value):
        if isinstance(each, str | int | float) and not isinstance(each, bool):
            yield str(each)


def whole_text(message: ForeignMessage) -> str:
    """Return a message's text, and the headings and decoded arguments of its calls."""
    calls = [text for call in map(call_of, calls_of(message)) for text in (call.label, *strings(call.values))]
    return "\n".join([text_of(message), *calls])


def output_of(text: str) -> tuple[str, int | None, bool]:
    """Return a result's output, its exit status if it has one, and whether it is a JSON object that reports failure.

    The output of a JSON object with an exit status is its texts.
    """
    values = _decoded(text) if text.startswith("{") and len(text) <= _LONGEST_JSON else {}
    flat = [(key.lower(), value) for each in inside(values) if isinstance(each, dict) for key, value in each.items()]
    success = [value for key, value in flat if key in ("success", "ok") and isinstance(value, bool)]
    says_no = False in success or (not success and any(key == "error" and value for key, value in flat))
    for key, value in flat:
        if _CODE_KEY.match(key) and type(value) is int:
            return "\n".join(each for _, each in flat if isinstance(each, str) and each.strip()), value, says_no
    lines = text.strip().split("\n")
    endings = (_EXIT.match(line) for line in lines[:4] + lines[-3:] if len(line) < 60)
    return text, next((int(found[1]) for found in endings if found), None), says_no


def first_error(text: str) -> str:
    """Return the first line that begins as programs print errors, else ""."""
    return next((line.strip() for line in text[:_SEARCHED].split("\n") if _ERROR.match(line)), "")


@cache
def is_name(token: str) -> bool:
    """Return whether a token has the form of a name in code or a path."""
    if not 4 <= len(token) <= 120 or token[0].isdigit() or not _MARKED.search(token):
        return False
    return len(token) < 20 or not _is_random(token)


@cache
def names_of(line: str) -> dict[str, bool]:
    """Return the words of a line worth counting, and whether each has the form of a name."""
    found = {token: True for token in _NAME.findall(line) if is_name(token)}
    words = _WORD.findall(line)
    if not line.isascii():
        words = [*(word for word in words if not _PAIR.match(word)), *_PAIR.findall(line)]
    for word in words:
        found.setdefault(word, False)
    return found


def names_in(text: str) -> set[str]:
    """Return the names and words of all lines of a text."""
    return set().union(*map(names_of, text.split("\n")))


@cache
def named_pieces(line: str) -> list[tuple[str, dict[str, bool]]]:
    """Return the pieces of a line that are worth keeping, with their names."""
    found = [(piece, names_of(piece)) for piece in pieces(line) if len(piece) >= _SHORTEST and not is_noise(piece)]
    return [(piece, names) for piece, names in found if names]


def forget_names() -> None:
    """Empty the caches, which would keep every line of a compacted list."""
    named_pieces.cache_clear()
    is_name.cache_clear()
    names_of.cache_clear()


def _is_random(token: str) -> bool:
    """Return whether letters and digits change places as often as in base64, hashes, and signatures."""
    return len(_ALTERNATION.findall(token)) * 9 >= len(token)


def is_noise(line: str) -> bool:
    """Return whether a line is mostly base64, markup, or one run without spaces."""
    if len(line) < 20 and "<" not in line:
        return False
    spent = sum(len(run) for run in _LONG_RUN.findall(line) if _is_random(run))
    spent += sum(map(len, _TAG.findall(line))) if "<" in line else 0
    if spent * 3 > len(line):
        return True
    few_spaces = len(line) > 60 and line.isascii() and line.count(" ") * 30 < len(line)
    return few_spaces and not any("/" in part or "." in part for part in line.split())


def pieces(line: str) -> list[str]:
    """Return a line without its line number; a long one in pieces cut between tokens, at most the first forty."""
    line = line.strip()
    if line[:1].isdigit():
        line = _LINE_NUMBER.sub("", line, count=1).strip()
    if len(line) <= _LONGEST_LINE:
        return [line]
    found, line = list[str](), line[: _MOST_PIECES * _PIECE]
    while line:
        end = between_tokens(line, min(_PIECE, len(line)), 1, _LONGEST_LINE)
        found.append(line[:end].strip())
        line = line[end:]
    return [piece for piece in found if len(piece) <= _LONGEST_LINE]


def between_tokens(text: str, place: int, step: int, most: int = _LONGEST_TOKEN) -> int:
    """Return the nearest place from `place` on, in one direction, that cuts no token; `place` if that is too far."""
    start = place
    while 0 < place < len(text) and not _NO_TOKEN.match(text[place - 1]) and not _NO_TOKEN.match(text[place]):
        place += step
        if abs(place - start) > most:
            return start
    return place if 0 < place < len(text) else start


def clip(text: str, most: int) -> str:
    """Return at most `most` characters: two thirds from the beginning, the rest from the end, no token cut."""
    if len(text) <= most:
        return text
    if most < 60:
        return text[: between_tokens(text, max(0, most), -1)].rstrip()
    head = between_tokens(text, most * 2 // 3, -1)
    tail = between_tokens(text, len(text) - (most - most * 2 // 3 - len(_LEFT_OUT)), 1)
    return f"{text[:head].rstrip()}{_LEFT_OUT}{text[tail:].lstrip()}"


def common_cap(lengths: Sequence[int], room: int) -> int:
    """Return the largest cap under which texts of these lengths fit the room together."""
    left = room
    for place, length in enumerate(sorted(lengths)):
        if length * (len(lengths) - place) > left:
            return max(0, left // (len(lengths) - place))
        left -= length
    return 1 << 40


def as_changed(text: str) -> tuple[str, set[str]]:
    """Return a text with its diffs and edits carried out, and the pieces of the lines that they removed."""
    if not _MAYBE.search(text):
        return text, set()
    removed: set[str] = set()

    def new_side(found: re.Match[str]) -> str:
        removed.update(pieces_in(found[1]) - pieces_in(found[2]))
        return found[2]

    def patched(found: re.Match[str]) -> str:
        kept = _ADDED.sub("", _REMOVED.sub("", found[1]))
        removed.update(pieces_in("\n".join(_REMOVED.findall(found[1]))) - pieces_in(kept))
        return kept

    return _HUNKS.sub(patched, _FENCED.sub(patched, _BLOCK.sub(new_side, text))), removed


def pieces_in(text: str) -> set[str]:
    """Return the pieces of all lines of a text."""
    return {piece for line in text.split("\n") for piece in pieces(line)}
