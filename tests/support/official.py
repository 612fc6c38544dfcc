"""OpenAI's own package as a judge: its types say which requests are valid, and which events a server may send."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError


@cache
def _judges() -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    from openai.types import responses
    from openai.types.responses import response_create_params

    for name, module in list(sys.modules.items()):
        if name.startswith("openai.types."):
            for kind in vars(module).values():
                if isinstance(kind, type) and hasattr(kind, "__total__"):  # a TypedDict, which takes any other field
                    kind.__pydantic_config__ = ConfigDict(extra="forbid")
    return (
        TypeAdapter(response_create_params.ResponseCreateParamsStreaming),
        TypeAdapter(responses.ResponseStreamEvent),
    )


def complaints(body: dict[str, Any]) -> list[str]:
    """What the official types say against the body of a Responses request."""
    try:
        _exhaust(_judges()[0].validate_python(body, strict=True))
    except ValidationError as error:
        return [f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors()]
    return []


def understood(events: list[bytes]) -> Iterator[str]:
    """The types of a stream's events, each accepted by the official package."""
    for event in events:
        data = json.loads(event.split(b"data: ", 1)[1])
        yield _judges()[1].validate_python(data).type


def _exhaust(value: Any) -> None:
    """Lists are only judged when they are read."""
    if isinstance(value, dict):
        for inside in value.values():
            _exhaust(inside)
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for inside in value:
            _exhaust(inside)
