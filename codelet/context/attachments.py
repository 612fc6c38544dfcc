"""The files that a prompt names as `@path`: small texts are added after the prompt, images are attached.

Files that the tool `read` opens without asking are attached. A path that the user typed is a request for it; the user
confirms a file that has secrets or is outside the workspace. A file that is too long is listed with its size, so that
the model can read what it needs. A word that is not the name of a file is left unchanged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from codelet import prompt
from codelet.context.inputs import Attached, Refused
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
_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_LONGEST_PATH = 4_096


class Person(Record):
    """The user at the terminal.

    `typed` returns whether the prompt's character at a position was typed; `confirm` asks whether to attach a file,
    given its path and the reason for asking.
    """

    typed: Callable[[int], bool]
    confirm: Callable[[str, str], Awaitable[bool]]


class Mentions(NamedTuple):
    """Attaches files. `person` is the user, if there is one to ask.

    `mask` removes secrets from texts, `model` is the name of the model for images, `pasted` are images without a file,
    by name.
    """

    context: ToolContext
    policy: Policy
    mask: Callable[[str], str]
    model: str
    person: Person | None
    pasted: Mapping[str, bytes]

    async def attached(self, text: str) -> Attached | None:
        """Return a prompt's attachments; None without any. Raises UsageError for an image that cannot be sent."""
        refused: list[Refused] = []
        texts: list[str] = []
        images: list[Picture] = []
        names: list[str] = []
        notes: list[str] = []
        for path, typed in self._paths(text).items():
            if path in self.pasted:
                data = self.pasted[path]
                with memory_file(data) as file:
                    names.append(self._add_image(file, data[: encoding.SAMPLE], path, len(data), images))
                continue
            verdict = self.policy.judge("read", [Touch("read", path)])
            may = verdict.action == "allow"
            if verdict.action == "ask" and self.person is not None and typed:
                # Typing the path answers a rule of the user's that asks.
                may = verdict.rule is not None or await self.person.confirm(path, verdict.reason)
            if not may:
                refused.append(Refused(path, verdict.reason, verdict.action == "deny"))
                can_ask = self.person is not None and not typed and verdict.action == "ask"
                hint = "; type its @ to be asked" if can_ask else ""
                notes.append(f"@{path} is not attached: {verdict.reason}{hint}")
                continue
            try:
                names.append(self._take(path, self.context.replace(place=verdict.place), texts, images))
            except ToolError as error:
                notes.append(f"@{path} is not attached: {error}")
        for number, each in enumerate(images, 1):
            sent = prompt.PICTURE_SENT.format(number=number, **each)
            texts.append(f"{'' if number > 1 else chr(10)}\n{sent}")
        if not texts and not notes:
            return None
        return Attached("".join(texts), tuple(images), tuple(names), tuple(notes), tuple(refused))

    def _paths(self, text: str) -> dict[str, bool]:
        """Return the paths of existing files, each once, in order, and whether the user typed them."""
        found: dict[str, bool] = {}
        for mention in _MENTION.finditer(text) if "@" in text else ():
            quoted, plain = mention.groups()
            path = quoted or plain
            while path and not quoted and not self._is_there(path) and path[-1] in _AFTER:
                path = path[:-1]
            if path and self._is_there(path):
                name, typed = os.path.expanduser(path), self.person is not None and self.person.typed(mention.start())
                found[name] = found.get(name, False) or typed
        return dict(list(found.items())[:_MOST])

    def _is_there(self, path: str) -> bool:
        if path in self.pasted:
            return True
        try:
            return (self.context.workspace / Path(path).expanduser()).is_file()
        except (OSError, ValueError, RuntimeError):
            return False

    def _take(self, path: str, context: ToolContext, texts: list[str], images: list[Picture]) -> str:
        """Add one file; return its name. Raises ToolError, and UsageError for an image."""
        place = files.resolve(context, path)
        name = files.shown(context, place)
        with files.open_regular(place, name) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(encoding.SAMPLE)
            if media_type(head) is not None:
                return self._add_image(file, head, name, size, images)
            if encoding.is_binary(head):
                raise ToolError(f"it is {encoding.binary_kind(head)}")
            if size > LARGEST_TEXT:
                texts.append(prompt.ATTACHED_LARGE.format(name=name, size=size))
                return f"the size of {name} ({size:,} bytes)"
            file.seek(0)
            data = file.read(LARGEST_TEXT)
            decoded = encoding.decode_text(data)
            body = encoding.readable(decoded[0]) if decoded else encoding.decode_part(data)
            texts.append(prompt.ATTACHED_FILE.format(name=name, text=self.mask(body)))
            return name

    def _add_image(self, file: BinaryIO, head: bytes, name: str, size: int, images: list[Picture]) -> str:
        """Add an image; return its name with its size. Raises UsageError."""
        if not self.context.sees():
            raise UsageError(f"{self.model} takes no images: {name} cannot be sent; choose a model with --model")
        try:
            images.append(image := read_picture(file, head, name, size))
        except ToolError as error:
            raise UsageError(str(error)) from None
        return f"{image['name']} ({image['width']} × {image['height']})"


def dropped_picture(pasted: str) -> str | None:
    """Return the mention of an image file that was dropped on the terminal; None for any other pasted text.

    Terminals paste its path plain, in quotes, with escaped spaces, or as a URL.
    """
    text = pasted.strip()
    if not text.lower().removesuffix('"').removesuffix("'").endswith(_IMAGE_ENDINGS) or len(text) > _LONGEST_PATH:
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
