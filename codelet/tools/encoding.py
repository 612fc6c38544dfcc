"""Text from a file's bytes, and back without the loss of a byte."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from codelet.errors import ToolError
from codelet.record import Record

SAMPLE = 8192
"""Bytes at the start of a file that decide whether it is text."""

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\f\r\x1b")) + b"\x7f"
_HIGH = bytes(range(128, 256))
_KINDS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3", "an SQLite database"),
)


_FOREIGN = "binary data, or text that is not UTF-8 (iconv in bash converts it)"
_RUN = re.compile(r"[^\0-\x7f]+")
_UNHELD = (
    "the file is written in {codec}, which has no {character!r} (U+{code:04X}): "
    "leave that character out, or convert the file to UTF-8 first"
)
_GUESSED = (
    "the file is not UTF-8, and {codec} is only a guess: new text may have ASCII characters and what old has, but not "
    "{character!r} (U+{code:04X}). Leave that character out, or convert the file to UTF-8 first (iconv in bash)"
)


class Format(Record):
    """The encoding of a file's text. `errors` is Python's way to handle bytes that do not fit.

    `guessed` says that neither the bytes nor a mark name the codec: it turns each byte into some character and back.
    """

    codec: str = "utf-8"
    errors: str = "strict"
    bom: bytes = b""
    guessed: bool = False


def _undefined_byte(error: UnicodeError) -> tuple[str | bytes, int]:
    """Take the five bytes that Windows-1252 does not define as the characters of the same number, as Latin-1 does."""
    if isinstance(error, UnicodeDecodeError):
        return error.object[error.start : error.end].decode("latin-1"), error.end
    if isinstance(error, UnicodeEncodeError) and 0x80 <= ord(error.object[error.start]) <= 0x9F:
        return bytes([ord(error.object[error.start])]), error.start + 1
    raise error


_UNDEFINED = "codelet-undefined-byte"
codecs.register_error(_UNDEFINED, _undefined_byte)
_LEGACY = Format("cp1252", _UNDEFINED, guessed=True)
"""The codec that can show any bytes: Windows-1252 as browsers read it, that is Latin-1 except for the bytes 0x80 to
0x9f.
"""


def binary_kind(data: bytes) -> str:
    """Return a description of a binary file, by its first bytes."""
    known = next((kind for start, kind in _KINDS if data.startswith(start)), "binary data")
    return known if known != "binary data" or _has_controls(data[:SAMPLE]) else _FOREIGN


def with_bom(data: bytes) -> Format | None:
    """The format that a byte order mark at the start names."""
    for bom, codec in _BOMS:
        if data.startswith(bom):
            return Format(codec, "surrogateescape" if codec == "utf-8" else "surrogatepass", bom)
    return None


def is_binary(data: bytes) -> bool:
    """Return whether the start of a file looks like no text: a NUL, control characters, mostly invalid UTF-8."""
    sample = data[:SAMPLE]
    if with_bom(sample):
        return False
    return _has_controls(sample) or 2 * _invalid(sample) > len(sample)


def _has_controls(sample: bytes) -> bool:
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return b"\0" in sample or controls > 1 + len(sample) // 20


def decode_text(data: bytes) -> tuple[str, Format] | None:
    """The text, and the format that turns it into the same bytes again; None for binary data.

    UTF-8, what a byte order mark says, UTF-8 with a few stray bytes, else Windows-1252 as a guess.
    """
    if is_binary(data):
        return None
    marked = with_bom(data)
    tries = [marked] if marked else [Format(), _guess(data)]
    for form in tries:
        try:
            text = data[len(form.bom) :].decode(form.codec, form.errors)
        except UnicodeDecodeError:
            continue
        if not marked or encode_text(text, form) == data:
            return text, form
    return None


def encode_text(text: str, form: Format) -> bytes:
    """The bytes of a text in a format. Raises ToolError for a character that it cannot hold."""
    try:
        return form.bom + text.encode(form.codec, form.errors)
    except UnicodeEncodeError as error:
        character = text[error.start]
        raise ToolError(_UNHELD.format(codec=form.codec, character=character, code=ord(character))) from error


def must_be_safe(new: str, old: str, form: Format) -> None:
    """Raise ToolError for new text whose bytes would depend on a guess.

    ASCII has the same bytes in all encodings that are written, and text of `old` gets the bytes that it has.
    """
    if not form.guessed or new.isascii():
        return
    known = set(_RUN.findall(old))
    for run in _RUN.findall(new):
        if run not in known:
            raise ToolError(_GUESSED.format(codec=form.codec, character=run[0], code=ord(run[0])))


def must_be_text(text: str, what: str) -> None:
    """Raises ToolError for half of a surrogate pair, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{what} contains half of a surrogate pair at character {error.start}") from error


def readable(text: str) -> str:
    """The text with a replacement character for each byte that was no character."""
    return text if text.isascii() else re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def decode_part(data: bytes) -> str:
    """A part of a file for reading only, with any content."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return part_decoder(_guess(data))(data)


def part_decoder(form: Format) -> Callable[[bytes], str]:
    """Return what decodes parts of a file in that format, for reading only."""
    return lambda data: data.decode(form.codec, form.errors if form.guessed else "replace")


def _invalid(data: bytes) -> int:
    """Return how many bytes are not UTF-8; a character cut off at the end counts, too."""
    return len(data.decode("utf-8", "surrogateescape")) - len(data.decode("utf-8", "ignore"))


def _guess(data: bytes) -> Format:
    """For what is not UTF-8 throughout: mostly UTF-8 with stray bytes, or some other encoding."""
    whole = len(data.decode("utf-8", "ignore")) - len(data.translate(None, _HIGH))
    return Format("utf-8", "surrogateescape") if whole > 2 * _invalid(data) else _LEGACY
