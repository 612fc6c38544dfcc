"""The files that a prompt names as `@path`: small texts stand behind the words, pictures beside them.

What the policy lets the tool `read` open without asking is attached. A person who typed the path has asked for it, and
confirms a file that holds secrets or is outside the workspace. A file that is too long is named with its size, and the
model reads what it needs. A word that names no file is a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from codelet import prompt
from codelet.context.inputs import Attached
from codelet.errors import ToolError, UsageError
from codelet.messages import Picture
from codelet.record import Record
from codelet.safety import Policy
from codelet.safety.verdict import Touch, Verdict
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


class Person(Record):
    """The user at the terminal: whether they typed the character of the prompt at a position, and their answer to
    whether a file is attached, given its path and why that is asked.
    """

    typed: Callable[[int], bool]
    confirm: Callable[[str, str], Awaitable[bool]]


class Mentions:
    """Attaches what prompts name. `person` can be asked, if there is one; `refused` has what was not attached.

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
        person: Person | None,
        pasted: Mapping[str, bytes],
    ) -> None:
        self._pasted = pasted
        self._context = context
        self._policy = policy
        self._mask = mask
        self._model = model
        self._person = person
        self.refused: list[Refused] = []

    async def attached(self, text: str) -> Attached | None:
        """Return what a prompt brings with it; None if it names no file. Raises UsageError for a picture that cannot
        be sent.
        """
        texts: list[str] = []
        pictures: list[Picture] = []
        names: list[str] = []
        notes: list[str] = []
        for path, typed in self._paths(text).items():
            if path in self._pasted:
                pictures.append(shown := self._of_clipboard(path))
                names.append(f"{shown['name']} ({shown['width']} × {shown['height']})")
                continue
            verdict = self._policy.judge("read", [Touch("read", path)])
            if not await self._may_attach(path, verdict, typed=typed):
                self.refused.append(Refused(path, verdict.reason, verdict.action == "deny"))
                can_ask = self._person is not None and not typed and verdict.action == "ask"
                hint = "; type its @ to be asked" if can_ask else ""
                notes.append(f"@{path} is not attached: {verdict.reason}{hint}")
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

    async def _may_attach(self, path: str, verdict: Verdict, *, typed: bool) -> bool:
        """Return whether the policy or the person permits it. A rule of theirs that asks is answered by typing the
        path.
        """
        if verdict.action != "ask" or self._person is None or not typed:
            return verdict.action == "allow"
        return verdict.rule is not None or await self._person.confirm(path, verdict.reason)

    def _paths(self, text: str) -> dict[str, bool]:
        """The paths of files that are there, each once, in order, and whether the person typed them."""
        found: dict[str, bool] = {}
        for mention in _MENTION.finditer(text) if "@" in text else ():
            quoted, plain = mention.groups()
            path = quoted or plain
            while path and not quoted and not self._is_there(path) and path[-1] in _AFTER:
                path = path[:-1]
            if path and self._is_there(path):
                name, typed = os.path.expanduser(path), self._person is not None and self._person.typed(mention.start())
                found[name] = found.get(name, False) or typed
        return dict(list(found.items())[:_MOST])

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
        """A picture that was pasted. Raises UsageError if it cannot be sent."""
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

    Terminals write such a path plain, in quotes, with spaces behind backslashes, or as an address.
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
