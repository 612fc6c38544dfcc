"""The files that a prompt names as `@path`: small texts stand behind the words, pictures beside them.

What the policy lets be read unasked is attached; in a terminal the person who typed the path has asked for it. A file
that is too long is named with its size, and the model reads what it needs. A word that names no file is a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from codelet import prompt
from codelet.context.inputs import Attached
from codelet.errors import ToolError, UsageError
from codelet.messages import Picture
from codelet.record import Record
from codelet.safety import Policy
from codelet.safety.verdict import Touch
from codelet.tools import encoding, files
from codelet.tools.pictures import media_type, memory_file, read_picture
from codelet.tools.tool import ToolContext

LARGEST_TEXT = 32_768
_MOST = 20
_MENTION = re.compile(r"(?:^|(?<=[\s(\"'`]))@(?:\"([^\"\n]+)\"|([^\s\"'`]+))")
_AFTER = ".,;:!?)]}>"
_PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_LONGEST_PATH = 4_096


class Refused(Record):
    """A file that was not attached: the policy's reason, and whether no flag would permit it."""

    path: str
    reason: str
    denied: bool


class Mentions:
    """Attaches what prompts name. `person` says that somebody sits there who typed them; `refused` tells of the rest.

    `mask` takes secrets out of texts, `model` is who is to see the pictures. `pasted` are pictures by name that are no
    files.
    """

    def __init__(
        self,
        context: ToolContext,
        policy: Policy,
        mask: Callable[[str], str],
        model: str,
        *,
        person: bool,
        pasted: Mapping[str, bytes],
    ) -> None:
        self._pasted = pasted
        self._context = context
        self._policy = policy
        self._mask = mask
        self._model = model
        self._person = person
        self.refused: list[Refused] = []

    def attached(self, text: str) -> Attached | None:
        """What a prompt brings with it; None where it names no file. Raises UsageError for a picture that cannot be
        sent.
        """
        texts: list[str] = []
        pictures: list[Picture] = []
        names: list[str] = []
        notes: list[str] = []
        for path in self._paths(text):
            if path in self._pasted:
                pictures.append(shown := self._of_clipboard(path))
                names.append(f"{shown['name']} ({shown['width']} × {shown['height']})")
                continue
            verdict = self._policy.judge("read", [Touch("read", path)])
            if verdict.action == "deny" or (verdict.action == "ask" and not self._person):
                self.refused.append(Refused(path, verdict.reason, verdict.action == "deny"))
                notes.append(f"@{path} is not attached: {verdict.reason}")
                continue
            try:
                name = self._take(path, self._context.replace(place=verdict.place), texts, pictures)
                names.append(name)
            except ToolError as error:
                notes.append(f"@{path} is not attached: {error}")
        for number, each in enumerate(pictures, 1):
            fields = {key: each[key] for key in ("name", "width", "height")}
            sent = prompt.PICTURE_SENT.format(number=number, **fields)
            texts.append(f"{'' if number > 1 else chr(10)}\n{sent}")
        if not texts and not notes:
            return None
        return Attached("".join(texts), tuple(pictures), tuple(names), tuple(notes))

    def _paths(self, text: str) -> Iterator[str]:
        """The paths of files that are there, each once, in order."""
        found: dict[str, None] = {}
        for quoted, plain in _MENTION.findall(text) if "@" in text else ():
            path = quoted or plain
            while path and not quoted and not self._is_there(path) and path[-1] in _AFTER:
                path = path[:-1]
            if path and self._is_there(path):
                found[os.path.expanduser(path)] = None
        return iter(list(found)[:_MOST])

    def _is_there(self, path: str) -> bool:
        if path in self._pasted:
            return True
        try:
            return (self._context.workspace / Path(path).expanduser()).is_file()
        except (OSError, ValueError, RuntimeError):
            return False

    def _take(self, path: str, context: ToolContext, texts: list[str], pictures: list[Picture]) -> str:
        """Read one file, and say what it is. Raises ToolError, and UsageError for a picture."""
        place = files.resolve(context, path)
        name = files.shown(context, place)
        with files.open_regular(place, name) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(encoding.SAMPLE)
            if media_type(head) is not None:
                pictures.append(shown := self._picture(file, head, name, size))
                return f"{shown['name']} ({shown['width']} × {shown['height']})"
            if encoding.is_binary(head):
                raise ToolError(f"it is {encoding.binary_kind(head)}")
            if size > LARGEST_TEXT:
                texts.append(prompt.ATTACHED_LARGE.format(name=name, size=size))
                return f"the size of {name} ({size:,} bytes)"
            file.seek(0)
            data = file.read(LARGEST_TEXT)
            decoded = encoding.decode_text(data)
            body = encoding.readable(decoded[0]) if decoded else encoding.decode_part(data)
            texts.append(prompt.ATTACHED_FILE.format(name=name, text=self._mask(body)))
            return name

    def _of_clipboard(self, name: str) -> Picture:
        """A picture that was pasted. Raises UsageError where it cannot be sent."""
        data = self._pasted[name]
        with memory_file(data) as file:
            return self._picture(file, data[: encoding.SAMPLE], name, len(data))

    def _picture(self, file: BinaryIO, head: bytes, name: str, size: int) -> Picture:
        if not self._context.sees():
            raise UsageError(f"{self._model} takes no pictures: {name} cannot be sent; --model names another model")
        try:
            return read_picture(file, head, name, size)
        except ToolError as error:
            raise UsageError(str(error)) from None


def dropped_picture(pasted: str) -> str | None:
    """The mention of a picture whose path a terminal pastes when its file is dropped there; None for any other text.

    Terminals write such a path plain, in quotes, with blanks behind backslashes, or as an address.
    """
    text = pasted.strip()
    if not text.lower().removesuffix('"').removesuffix("'").endswith(_PICTURE_ENDINGS) or len(text) > _LONGEST_PATH:
        return None
    if text.startswith("file://"):
        from urllib.parse import unquote

        path = unquote(text.removeprefix("file://").removeprefix("localhost"))
    else:
        quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
        path = text[1:-1] if quoted else re.sub(r"\\(.)", r"\1", text)
    if not path.startswith("/") or '"' in path or not path.isprintable() or not os.path.isfile(path):
        return None
    return f'@"{path}" ' if re.search(r"[\s'`]", path) else f"@{path} "
