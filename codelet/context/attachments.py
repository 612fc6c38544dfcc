"""The files that a prompt names as `@path`: small texts stand behind the words, pictures beside them.

What the policy lets be read unasked is attached; in a terminal the person who typed the path has asked for it. A file
that is too long is named with its size, and the model reads what it needs. A word that names no file is a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
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
from codelet.tools.pictures import media_type, read_picture
from codelet.tools.tool import ToolContext

LARGEST_TEXT = 32_768
_MOST = 20
_MENTION = re.compile(r"(?:^|(?<=[\s(\"'`]))@(?:\"([^\"\n]+)\"|([^\s\"'`]+))")
_AFTER = ".,;:!?)]}>"


class Refused(Record):
    """A file that was not attached: the policy's reason, and whether no flag would permit it."""

    path: str
    reason: str
    denied: bool


class Mentions:
    """Attaches what prompts name. `person` says that somebody sits there who typed them; `refused` tells of the rest.

    `mask` takes secrets out of texts, `model` is who is to see the pictures.
    """

    def __init__(
        self, context: ToolContext, policy: Policy, mask: Callable[[str], str], model: str, *, person: bool
    ) -> None:
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
            shown = prompt.PICTURE_SENT.format(number=number, **{key: each[key] for key in ("name", "width", "height")})
            texts.append(f"{'' if number > 1 else chr(10)}\n{shown}")
        if not texts and not notes:
            return None
        return Attached("".join(texts), tuple(pictures), tuple(names), tuple(notes))

    def _paths(self, text: str) -> Iterator[str]:
        """The paths of files that are there, each once, in order."""
        found: dict[str, None] = {}
        for quoted, plain in _MENTION.findall(text) if "@" in text else ():
            path = quoted or plain
            while path and not quoted and not self._is_file(path) and path[-1] in _AFTER:
                path = path[:-1]
            if path and self._is_file(path):
                found[os.path.expanduser(path)] = None
        return iter(list(found)[:_MOST])

    def _is_file(self, path: str) -> bool:
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
                return f"{name} ({shown['width']} × {shown['height']})"
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

    def _picture(self, file: BinaryIO, head: bytes, name: str, size: int) -> Picture:
        if not self._context.sees():
            raise UsageError(f"{self._model} takes no pictures: {name} cannot be sent; --model names another model")
        try:
            return read_picture(file, head, name, size)
        except ToolError as error:
            raise UsageError(str(error)) from None
