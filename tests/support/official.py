"""The vendors' own packages as judges: their types say which requests are valid, and which events a server may send."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tests.support.wires import Wire

Judged = Wire | Literal["mistral"]


@cache
def _judge(wire: Judged) -> TypeAdapter[Any]:
    kind: Any
    if wire == "messages":
        from anthropic.types import message_create_params

        kind = message_create_params.MessageCreateParamsStreaming
    elif wire == "mistral":
        from mistralai.client import models

        kind = models.ChatCompletionStreamRequestTypedDict
    elif wire == "responses":
        from openai.types.responses import response_create_params

        kind = response_create_params.ResponseCreateParamsStreaming
    else:
        from openai.types.chat import completion_create_params

        kind = completion_create_params.CompletionCreateParamsStreaming
    for name, module in list(sys.modules.items()):
        if name.startswith(("openai.types.", "anthropic.types.", "mistralai.client.models.")):
            for each in vars(module).values():
                if isinstance(each, type) and hasattr(each, "__total__"):  # a TypedDict, which takes any other field
                    each.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return TypeAdapter(kind)


@cache
def _events() -> TypeAdapter[Any]:
    from openai.types import responses

    return TypeAdapter(responses.ResponseStreamEvent)


def complaints(body: dict[str, Any], wire: Judged = "responses") -> list[str]:
    """What the official types say against the body of a request."""
    try:
        _exhaust(_judge(wire).validate_python(body, strict=True))
    except ValidationError as error:
        return [f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors()]
    return []


def understood(events: list[bytes]) -> Iterator[str]:
    """The types of a stream's events, each accepted by the official package."""
    for event in events:
        data = json.loads(event.split(b"data: ", 1)[1])
        yield _events().validate_python(data).type


def _exhaust(value: Any) -> None:
    """Lists are only judged when they are read."""
    if isinstance(value, dict):
        for inside in value.values():
            _exhaust(inside)
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for inside in value:
            _exhaust(inside)
