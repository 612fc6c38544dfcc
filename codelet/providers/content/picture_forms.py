"""Pictures beside a message's text, in the form of each wire, and what a model gets that takes none.

Sources: OpenAI's references for image input (`image_url` of Chat Completions, `input_image` of Responses, also in a
call's output), Anthropic's for vision (`image` blocks, also in a tool's result). Chat Completions has pictures in the
user's messages only: those of results stand in one behind them. A picture comes before its message's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codelet import prompt
from codelet.errors import ProviderError
from codelet.messages import Message, assistant, images_of, user, without_images

if TYPE_CHECKING:
    from codelet.providers.protocol import Request

_REFUSED = (400, 404, 413, 415, 422, 500, 501)
_REFUSALS = ("image", "vision", "multimodal", "modalit")


def chat_parts(message: Message) -> list[dict[str, Any]]:
    """The pictures as Chat Completions has them."""
    return [{"type": "image_url", "image_url": {"url": _address(each)}} for each in images_of(message)]


def responses_parts(message: Message) -> list[dict[str, Any]]:
    """The pictures as Responses has them."""
    return [{"type": "input_image", "detail": "auto", "image_url": _address(each)} for each in images_of(message)]


def anthropic_blocks(message: Message) -> list[dict[str, Any]]:
    """The pictures as Anthropic's Messages have them."""
    return [
        {"type": "image", "source": {"type": "base64", "media_type": each["media_type"], "data": each["data"]}}
        for each in images_of(message)
    ]


def unseen(message: Message) -> Message:
    """The message for a model that takes no pictures: its text says that they are not shown."""
    bare: Any = without_images(message, prompt.PICTURES_NOT_SHOWN)
    made: Message = bare
    return made


class ResultPictures:
    """Puts the pictures of results behind them, in messages of their own that are the same objects each time.

    `alternating`: a message of the user's may not follow a result, so that one of the assistant's stands between.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], tuple[Sequence[Message], list[Message]]] = {}

    def spread(self, messages: Sequence[Message], *, alternating: bool) -> list[Message]:
        """The messages, and behind each row of results what its pictures stand in."""
        sent: list[Message] = []
        row: list[Message] = []
        for message in messages:
            if row and message["role"] != "tool":
                sent += self._behind(row, alternating=alternating)
                row = []
            sent.append(message)
            if message["role"] == "tool" and "images" in message:
                row.append(message)
        return sent + (self._behind(row, alternating=alternating) if row else [])

    def _behind(self, row: Sequence[Message], *, alternating: bool) -> list[Message]:
        key = tuple(map(id, row))
        if key not in self._made:
            pictures = [each for message in row for each in images_of(message)]
            names = ", ".join(each["name"] for each in pictures)
            between = [assistant(prompt.PICTURES_FOLLOW)] if alternating else []
            self._made[key] = row, [*between, user(prompt.PICTURES_OF_RESULTS.format(names=names), pictures)]
        return self._made[key][1]


def refused(error: ProviderError, request: Request) -> bool:
    """Whether the server refuses the pictures of results, so that requests leave them out from now on.

    Those of a prompt are the user's: without them the request would not be what was asked, and the error says how to
    go on.
    """
    said, messages = str(error).lower(), request.messages
    if error.overflow or error.status not in _REFUSED or not any(words in said for words in _REFUSALS):
        return False
    if any("images" in message and message["role"] == "user" for message in messages):
        way = "name another --model" if request.unseen else "/rewind takes the picture out again, /model asks another"
        error.args = (f"{error}; {way}",)
        return False
    return any("images" in message for message in messages)


def note(model: str, error: ProviderError) -> str:
    """What the user is told of such a refusal."""
    return f"{model} takes no pictures ({error}): it is told only their names from now on"


def _address(picture: Any) -> str:
    return f"data:{picture['media_type']};base64,{picture['data']}"
