"""Images in the form of each wire, and their replacement for models that take none.

Sources: OpenAI's references for image input (`image_url` of Chat Completions, `input_image` of Responses, also in a
call's output), Anthropic's for vision (`image` blocks, also in a tool's result). Chat Completions takes images in user
messages only: those of results follow in one. An image precedes its message's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codelet import prompt
from codelet.errors import ProviderError
from codelet.messages import Message, images_of, newest_prompt, user, without_images

if TYPE_CHECKING:
    from codelet.providers.protocol import Request

_OF_ONE = ("process", "decode", "dimension", "pixel", "size", "large", "many", "exceed", "corrupt", "format", "media")
"""Words of a refusal of single images, not of images in general."""
_WAY_AT_THE_PROMPT = "/rewind removes the image, /model asks another model; the next prompt goes without it"
_WAY_IN_A_PIPE = (
    "a saved session continues without it at its next prompt, or after -p '/drop N'; or name another --model"
)


def without_refused(message: Message, *, sees: bool, refused: set[str]) -> Message:
    """The message without the images that a server refused, or for a model that `sees` none; its text says so."""
    rest = [each for each in images_of(message) if sees and each["data"] not in refused]
    if sees and len(rest) == len(images_of(message)):
        return message
    made: Any = without_images(message, prompt.PICTURES_REFUSED if sees else prompt.PICTURES_NOT_SHOWN)
    made.update({"images": rest} if rest else {})
    result: Message = made
    return result


class ResultPictures:
    """Puts images of results into messages after them, which stay the same objects. `refused` images are left out."""

    def __init__(self, refused: set[str]) -> None:
        self._refused = refused
        self._made: dict[tuple[int, ...], tuple[Sequence[Message], list[Message]]] = {}

    def spread(self, messages: Sequence[Message]) -> list[Message]:
        """The messages, and after each row of results one with its images."""
        sent: list[Message] = []
        row: list[Message] = []
        for number, message in enumerate(messages, 1):
            sent.append(message)
            if message["role"] == "tool" and "images" in message:
                row.append(message)
            if row and (number == len(messages) or messages[number]["role"] != "tool"):
                sent += self._after(row)
                row = []
        return sent

    def _after(self, row: Sequence[Message]) -> list[Message]:
        key = len(self._refused), *map(id, row)
        if key not in self._made:
            listed = (each for message in row for each in images_of(message))
            pictures = [each for each in listed if each["data"] not in self._refused]
            names = ", ".join(each["name"] for each in pictures)
            made = [user(prompt.PICTURES_OF_RESULTS.format(names=names), pictures)] if pictures else []
            self._made[key] = row, made
        return self._made[key][1]


def refused_pictures(model: str, error: ProviderError, request: Request, known: set[str]) -> tuple[bool, str] | None:
    """Return whether later requests have images after this refusal, and a note; adds the refused data to `known`.

    Images of the newest prompt are never left out: the request would not be the user's. Then the result is None, and
    the error says how to continue. All others are, so an earlier image never blocks a session.
    """
    text, messages = str(error).lower(), request.messages
    takes_none = not any(words in text for words in _OF_ONE)
    newest = [each for each in messages[max(0, newest_prompt(messages)) :] if each["role"] == "user"]
    asked = {each["data"] for message in newest for each in images_of(message)}
    others = {each["data"] for message in messages for each in images_of(message)} - asked - known
    if (asked and takes_none) or not others:
        way = _WAY_IN_A_PIPE if request.unseen else _WAY_AT_THE_PROMPT
        error.args = (f"{error}; {way}",)
        error.retryable = error.retryable and not takes_none  # llama.cpp uses status 500
        return None
    if takes_none:
        return False, f"{model} takes no images ({error}): from now on it gets only their names"
    known |= others
    return True, (
        f"{model} refused images ({error}): those of earlier messages and results are left out from now on; "
        "/drop N takes one out of the session"
    )
