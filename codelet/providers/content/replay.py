"""The replay provider: a scripted model that plays a recording, for demos, tests and bug reports.

A recording is a JSON document:

    {"version": 1, "model": "name", "steps": [
      {"reasoning": "…", "text": "…", "tool_calls": [{"id": "…", "name": "…", "arguments": {…}}],
       "usage": {"total_input": 0, "cache_read": 0, "cache_write": 0, "output": 0, "reasoning": 0},
       "finish": "stop", "pace": 15}]}

Every key of a step can be left out. `chunks`, a list of strings, replaces `text` if the borders of its pieces matter.
`arguments` is an object, or a string that is sent unchanged. `pace` is the pause between two pieces in milliseconds.

`--record` writes more into a step: the model's `refusal`, and the `error` that ended the answer. Earlier versions also
wrote the `request`, which is not read.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from codelet.errors import ProviderError, UsageError
from codelet.providers import protocol
from codelet.providers.catalog import holds
from codelet.usage import Usage

_PIECE = re.compile(r"\s*\S+\s*|\s+")
_ARGUMENT_PIECE = 24

_Text = Annotated[str, Meta(min_length=1)]
_Count = Annotated[int, Meta(ge=0)]


class RecordedCall(Struct, forbid_unknown_fields=True):
    """A tool call of a recording."""

    id: _Text
    name: _Text
    arguments: str | dict[str, Any] = {}

    def sent(self) -> str:
        given = self.arguments
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


class RecordedUsage(Struct, forbid_unknown_fields=True):
    """The usage of a step, as in `Usage`."""

    total_input: _Count = 0
    cache_read: _Count = 0
    cache_write: _Count = 0
    output: _Count = 0
    reasoning: _Count = 0
    cache_write_hour: _Count = 0


class RecordedError(Struct, forbid_unknown_fields=True):
    """The error that ended an answer, as in `ProviderError`."""

    message: str
    overflow: bool = False
    status: _Count | None = None
    window: _Count | None = None
    prompt_size: _Count | None = None


class RecordedStep(Struct, forbid_unknown_fields=True):
    """One answer: reasoning, pieces of text, calls, usage, and finish marker or error."""

    reasoning: str = ""
    text: str | None = None
    chunks: list[str] | None = None
    tool_calls: list[RecordedCall] = []
    usage: RecordedUsage | None = None
    finish: protocol.FinishReason | None = None
    pace: _Count = 0
    refusal: str = ""
    error: RecordedError | None = None
    request: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.text is not None and self.chunks is not None:
            raise ValueError("has both text and chunks; only one can be played")

    def content(self) -> Iterator[protocol.Chunk]:
        """Yield the visible part of the answer, in order."""
        yield from map(protocol.ReasoningChunk, _PIECE.findall(self.reasoning))
        yield from map(protocol.TextChunk, _PIECE.findall(self.text or "") if self.chunks is None else self.chunks)
        if self.refusal:
            yield protocol.RefusalChunk(self.refusal)
        for index, call in enumerate(self.tool_calls):
            yield protocol.ToolCallChunk(index=index, id=call.id, name=call.name)
            sent = call.sent()
            for start in range(0, len(sent), _ARGUMENT_PIECE):
                yield protocol.ToolCallChunk(index=index, arguments=sent[start : start + _ARGUMENT_PIECE])


class Recording(Struct, forbid_unknown_fields=True):
    """A script of answers."""

    version: Literal[1]
    steps: list[RecordedStep]
    model: str = "recorded"


class ReplayProvider(protocol.Provider):
    """Plays a recording: the n-th complete answer is its n-th step, for any request.

    An interrupted step is played again from its start. `source` names the recording in messages; `pace`, in
    milliseconds, overrides the recorded pauses.
    """

    prefix_bound = False

    def __init__(self, recording: Recording, source: str, *, pace: float | None = None) -> None:
        self.model = recording.model
        self.name = f"recording {source}"
        self.origin = f"replay:{source}"
        self.local = False
        self.effort: protocol.Effort | None = None  # a recording answers as it once did
        self.prefix_bound = holds("bound", recording.model)
        self._recording = recording
        self._pace = pace
        self._position = 0

    async def stream(self, request: protocol.Request) -> AsyncGenerator[protocol.Chunk, None]:
        steps = self._recording.steps
        if self._position >= len(steps):
            count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
            raise ProviderError(f"the {self.name} has ended: it holds {count}")
        step = steps[self._position]
        pause = (step.pace if self._pace is None else self._pace) / 1000
        for chunk in step.content():
            yield chunk
            await asyncio.sleep(pause)
        if step.usage is not None:
            yield protocol.UsageChunk(Usage(**msgspec.structs.asdict(step.usage)).consistent)
        self._position += 1
        if step.error is not None:
            raise ProviderError(**msgspec.structs.asdict(step.error))
        yield protocol.FinishChunk(step.finish or ("tool_calls" if step.tool_calls else "stop"))


def open_replay(path: str | Path) -> ReplayProvider:
    """The provider for `--model replay:FILE`; raises UsageError that names the place in a bad file."""
    source = Path(path)
    try:
        if not source.is_file():
            raise UsageError(f"{source}: no such recording; --model replay:FILE needs a JSON file")
        text = source.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{source}: cannot read the recording: {error}") from error
    return ReplayProvider(read_recording(text, str(source)), str(source))


def read_recording(text: str, source: str) -> Recording:
    """The recording in a JSON text; raises UsageError that begins with `source` and the place."""
    try:
        return msgspec.convert(json.loads(text), Recording)
    except RecursionError as error:
        raise UsageError(f"{source}: not a recording: nested too deeply") from error
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        raise UsageError(f"{source}: {place[:-1]}: {problem}" if place else f"{source}: {problem}") from None
    except ValueError as error:
        raise UsageError(f"{source}: not a recording: {error}") from error
