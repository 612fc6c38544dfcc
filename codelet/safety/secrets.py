"""Masks for secrets in text that leaves the process.

Live secrets are the values of this process's secret variables: each of them and any long piece of one is masked, also
reversed or in base64, hexadecimal, JSON or a URL. Patterns are the forms of well-known services' tokens; they mask
exports, logs and pages, not the model's input: a file with such text must stay editable.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import cache, cached_property
from typing import Any

from codelet import events
from codelet.record import Record
from codelet.system.text.secret_shapes import SHORTEST_SECRET, live_secrets, secret_pattern

SHORTEST_PIECE = 12
"""Characters of a secret in a row that are masked."""

_HELD_CAP = 16_384


class _Form:
    """One spelling of a live secret, and its variable's name.

    Pieces of at least `shortest` characters are masked. Each such piece contains one of the `probes`, which are parts
    of the text with their positions. A public prefix counts for none: `sk-ant-api03-` alone reveals nothing.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.shortest = min(SHORTEST_PIECE, len(text))
        length = (self.shortest + 1) // 2
        prefix = re.match(r"(?:[A-Za-z0-9]{2,8}[-_]){1,4}", text)
        first = prefix.end() if prefix and len(text) - prefix.end() >= SHORTEST_PIECE else 0
        self.probes = [(at, text[at : at + length]) for at in range(first, len(text) - length + 1, length)]
        starts = range(max(first + length - self.shortest, 0), len(text) - self.shortest + 1)
        self.pieces = [text[at : at + self.shortest] for at in starts]


class Masker:
    """Masks the secrets of an environment, and of `extra` (name, value) pairs such as a key given as a setting."""

    def __init__(self, environment: Mapping[str, str], extra: Iterable[tuple[str, str]] = ()) -> None:
        self._secrets = [pair for pair in (*live_secrets(environment), *extra) if len(pair[1]) >= SHORTEST_SECRET]
        self.has_secrets = bool(self._secrets)

    @cached_property
    def _forms(self) -> list[_Form]:
        return [_Form(name, form) for name, value in self._secrets for form in spellings(value)]

    @cached_property
    def _probes(self) -> tuple[str, ...]:
        """The probes of all forms: a text without any of them stays unchanged."""
        return tuple({probe for form in self._forms for _, probe in form.probes})

    def mask(self, text: str, *, patterns: bool = False) -> str:
        """`text` with live secrets replaced by their name; with `patterns` also what looks like any token."""
        merged: list[tuple[int, int, str]] = []
        if len(text) >= SHORTEST_SECRET and any(map(text.__contains__, self._probes)):
            # All are found before one is masked, because the forms of a secret share pieces.
            for first, last, name in sorted((*span, form.name) for form in self._forms for span in _spans(text, form)):
                before = merged[-1] if merged else (0, -1, "")
                if first < before[1] or (first == before[1] and name == before[2]):
                    merged[-1] = (before[0], max(last, before[1]), before[2])
                else:
                    merged.append((first, last, name))
        for first, last, name in reversed(merged):
            text = f"{text[:first]}[masked {name}]{text[last:]}"
        return secret_pattern().sub(_masked_by_form, text) if patterns else text

    def pieces(self) -> list[list[str]]:
        """The shortest masked pieces of each spelling of a live secret: a text without them holds none."""
        return [form.pieces for form in self._forms]

    def settled(self, text: str) -> int:
        """The length of the start of `text` that later text cannot make a part of a secret."""
        forms = "\0".join(form.text for form in self._forms)
        shared, most = 0, min(len(text), _HELD_CAP)
        while shared < most:  # the longest end of the text that is a part of a form
            middle = (shared + most + 1) // 2
            shared, most = (middle, most) if text[-middle:] in forms else (shared, middle - 1)
        cut = len(text) - shared
        if cut < len(text):  # no span of a secret may be cut in two
            for first, last in sorted((span for form in self._forms for span in _spans(text, form)), reverse=True):
                cut = first if first < cut < last else cut
        return cut


class MaskStream:
    """The masker of text in chunks. It holds back what may continue as a secret, so that no cut hides one."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._pending = ""

    def feed(self, chunk: str) -> str:
        """Add a chunk. Returns the masked text that is complete."""
        text = self._pending + chunk
        cut = self._masker.settled(text)
        if len(text) - cut > _HELD_CAP:
            text = self._masker.mask(text)
            cut = len(text) - _HELD_CAP // 2
        self._pending = text[cut:]
        return self._masker.mask(text[:cut])

    def flush(self) -> str:
        """The masked rest, at the end of the text."""
        rest, self._pending = self._pending, ""
        return self._masker.mask(rest)


@cache
def own_masker() -> Masker:
    """The masker for the secrets in this process's environment at the first call."""
    return Masker(os.environ)


def mask(text: str, *, patterns: bool = False) -> str:
    """`text` without the secrets in this process's environment at the first call."""
    return own_masker().mask(text, patterns=patterns)


def spellings(value: str) -> set[str]:
    """The forms in which a command could print the value."""
    import base64
    import json
    from urllib.parse import quote

    data = value.encode("utf-8", "surrogateescape")
    forms = {value, value[::-1], data.hex(), data.hex().upper(), quote(value, safe="")}
    for plain in (False, True):  # a call's arguments are JSON in JSON: twice is usual
        once = json.dumps(value, ensure_ascii=plain)[1:-1]
        forms |= {once, json.dumps(once, ensure_ascii=plain)[1:-1]}
    for shift in range(3):
        # The text before the value shifts its base64; the first and last letters depend on the neighbours.
        encoded = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        forms.add(encoded[(0, 2, 3)[shift] : -1])
        forms.add(encoded[(0, 2, 3)[shift] : -1].replace("+", "-").replace("/", "_"))
    return {form for form in forms if len(form) >= SHORTEST_SECRET}


def _spans(text: str, form: _Form) -> list[tuple[int, int]]:
    """The spans in `text` of the form, or of pieces that are long enough."""
    found: list[tuple[int, int]] = []
    for start, probe in form.probes:
        at = text.find(probe)
        while at >= 0:
            first, last, left, right = at, at + len(probe), start, start + len(probe)
            while first and left and text[first - 1] == form.text[left - 1]:
                first, left = first - 1, left - 1
            while last < len(text) and right < len(form.text) and text[last] == form.text[right]:
                last, right = last + 1, right + 1
            if last - first >= form.shortest:
                found.append((first, last))
            at = text.find(probe, at + 1)
    return found


def _masked_by_form(found: re.Match[str]) -> str:
    kind = "private key" if found["key"] else "token"
    return f"{found['address'] or found['header'] or ''}[masked {kind}]"


async def masked(turn: AsyncGenerator[events.Event, None], masker: Masker) -> AsyncGenerator[events.Event, None]:
    """The turn's events without secrets; see MaskedPieces."""
    pieces = MaskedPieces(masker)
    async with aclosing(turn):
        async for event in turn:
            for settled in pieces.take(event):
                yield settled
    for settled in pieces.flush():
        yield settled


class MaskedPieces:
    """The maskers of one turn's streams: its text, its reasoning, the output of each running call."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._open: dict[tuple[type[events.Event], str], MaskStream] = {}

    def take(self, event: events.Event) -> list[events.Event]:
        """Return the masked events that are complete; a piece of another kind ends the streams before it."""
        if not self._masker.has_secrets:
            return [event]
        match event:
            case events.Text() | events.Reasoning():
                key = (type(event), "")
                others = [] if self._open.keys() == {key} else self.flush(but=key)
                return [*others, *self._fed(event, key)]
            case events.ToolProgress():
                return self._fed(event, (events.ToolProgress, event.id))
            case events.UsageReport() | events.StepStart():
                return [*self.flush(), event]
        return [*self.flush(), without_secrets(event, self._masker)]

    def flush(self, but: tuple[type[events.Event], str] | None = None) -> list[events.Event]:
        """End all streams but one. Returns the rest of their text."""
        pieces = [(key, self._open.pop(key).flush()) for key in [*self._open] if key != but]
        return [
            kind(name, rest) if kind is events.ToolProgress else kind(rest) for (kind, name), rest in pieces if rest
        ]

    def _fed(
        self, event: events.Text | events.Reasoning | events.ToolProgress, key: tuple[type[events.Event], str]
    ) -> list[events.Event]:
        settled = self._open.setdefault(key, MaskStream(self._masker)).feed(event.delta)
        return [event.replace(delta=settled)] if settled else []


def without_secrets(value: object, masker: Masker) -> Any:
    """The value with every text in it masked: in lists, tuples, objects and records."""
    match value:
        case str():
            return masker.mask(value)
        case list():
            return [without_secrets(item, masker) for item in value]
        case tuple():
            return tuple(without_secrets(item, masker) for item in value)
        case dict():
            return {without_secrets(key, masker): without_secrets(item, masker) for key, item in value.items()}
        case Record():
            hidden = {name: without_secrets(getattr(value, name), masker) for name in value.fields}
            changed = {name: each for name, each in hidden.items() if each != getattr(value, name)}
            return value.replace(**changed) if changed else value
    return value


_GRAM = 4
"""Letters that are compared as one number, at every fourth position of a text."""
_RUN = 20
"""The shortest run of letters in which long tokens are searched."""
_ESCAPED = r"\\[bfnrt]|\\u00[0-9a-f]{2}"
_WORD = r"A-Za-z0-9_\x80-\xff"
"""Any byte of a letter that is not ASCII counts as one."""


class SecretPrefilter:
    """A fast test whether an encoded message may hold a secret and needs the exact search.

    That takes 0.1 s per MB, and more with each key of the environment; the export of a long session would wait for it.
    The prefilter may return a false True, but never a false False. `pieces` holds the shortest pieces of each spelling
    of each secret.
    """

    def __init__(self, pieces: Iterable[Sequence[str]] = ()) -> None:
        import json

        self._always = False
        self._by_gram: dict[int, set[tuple[bytes, int]]] = {}
        for piece in {piece for spelling in pieces for piece in spelling}:
            try:
                text = json.dumps(piece, ensure_ascii=False)[1:-1].encode()
            except UnicodeEncodeError:  # no text: its form in JSON differs from its form here
                self._always = True
                continue
            for first in range(_GRAM):  # a text with the piece has one of these numbers, and the next one after it
                self._by_gram.setdefault(_gram(text, first), set()).add((text, _gram(text, first + _GRAM)))
        self._grams = frozenset(self._by_gram) | {following for some in self._by_gram.values() for _, following in some}

    def __call__(self, data: bytes) -> bool:
        """Return whether UTF-8 JSON (any number of messages) is worth an exact search."""
        short, long, letters = _shapes()
        if self._always or any(_matches(data, start, pattern) for start, pattern in short):
            return True
        if self._grams:
            met = self._grams.intersection(memoryview(data)[: len(data) - len(data) % _GRAM].cast("I")) | {0}
            found = (each for gram in met & self._by_gram.keys() for each in self._by_gram[gram])
            if any(following in met and text in data for text, following in found):
                return True
        return long.search(b"\n" + b"\n".join(_runs(data.translate(letters), data))) is not None


def _gram(text: bytes, at: int) -> int:
    """The number of four letters, 0 past the end."""
    letters = text[at : at + _GRAM]
    return int.from_bytes(letters, sys.byteorder) if len(letters) == _GRAM else 0


def _matches(data: bytes, start: bytes, pattern: re.Pattern[bytes]) -> bool:
    """Return whether the pattern matches at its start, which is found ten times as fast as the pattern."""
    at = data.find(start)
    while at >= 0:
        if pattern.match(data, at):
            return True
        at = data.find(start, at + 1)
    return False


@cache
def _shapes() -> tuple[list[tuple[bytes, re.Pattern[bytes]]], re.Pattern[bytes], bytes]:
    """The known shapes: short ones, each with its start and a pattern that matches there; one pattern for long tokens
    at the start of a run, perhaps after the end of an escape or a byte that is no ASCII; and the table that marks runs
    with "a". No pattern requires a digit.
    """
    from codelet.system.text.secret_shapes import ADDRESS_PASSWORD, ADDRESS_USER, PRIVATE_KEY_START, TOKENS

    # The rarest letter of "authorization". Case-insensitively, an i with a dot above and one without match too.
    blanks = rf"(?:\s|[\x80-\xff]|{_ESCAPED})*"
    short = [(letter, f"(?<=[oO][rR][iI])(?i:zation){blanks}:{blanks}[bBtT]") for letter in "zZ"]
    short += [(letter.encode().decode("latin-1"), "") for letter in "\u0130\u0131"]
    short += [(PRIVATE_KEY_START.strip(), ""), ("://", f"{ADDRESS_USER}{ADDRESS_PASSWORD}@")]
    long: list[str] = []
    for shape in TOKENS:
        whole = f"{shape.start}{shape.between}{shape.letters}{{{shape.count}}}{shape.tail}"
        whole = whole.replace(r"[\w-]", f"[{_WORD}-]").replace(r"\w", f"[{_WORD}]")
        if shape.shortest >= _RUN and not shape.tail:
            long.append(whole)
        else:
            short += [(start, whole) for start in shape.starts]
    tokens = rf"[\n\x80-\xff](?:[bfnrt]|u00[0-9a-f]{{2}})?(?:{'|'.join(long)})"
    patterns = [(start.encode("latin-1"), re.compile(pattern.encode("latin-1"))) for start, pattern in short]
    letters = bytes(ord("a") if re.match(f"[{_WORD}-]", chr(code)) else ord(" ") for code in range(256))
    return patterns, re.compile(tokens.encode("latin-1")), letters


def _runs(marked: bytes, data: bytes) -> Iterator[bytes]:
    """The long runs of letters."""
    at = marked.find(b"a" * _RUN)
    while at >= 0:
        end = marked.find(b" ", at)
        yield data[at : end if end >= 0 else None]
        at = marked.find(b"a" * _RUN, end) if end >= 0 else -1
