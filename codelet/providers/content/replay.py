"""The replay provider: a scripted model that plays a recording, for demos, tests and bug reports.

A recording is a JSON document:

    {"version": 1, "model": "name", "steps": [
      {"reasoning": "…", "text": "…", "tool_calls": [{"id": "…", "name": "…", "arguments": {…}}],
       "usage": {"total_input": 0, "cache_read": 0, "cache_write": 0, "output": 0, "reasoning": 0},
       "finish": "stop", "pace": 15}]}

Every key of a step may be left out. `chunks`, a list of strings, stands for `text` where the borders between
the pieces matter. `arguments` is an object, or a string that is sent as it is. `pace` is the pause between
two pieces in milliseconds. The tools, the loop and the approvals around it are the real ones.

What `--record` writes has more in a step: `refusal`, what the model said in place of an answer; `error`, with which the
answer ended; and `request`, what was asked. With `--strict` a request has to be that one, see
`recorded_request.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from codelet.errors import ProviderError, UsageError
from codelet.providers.catalog import holds
from codelet.providers.protocol import (
    Chunk,
    Effort,
    FinishChunk,
    FinishReason,
    Provider,
    ReasoningChunk,
    RefusalChunk,
    Request,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.record import Record
from codelet.usage import Usage

RECORDING_VERSION = 1
_PIECE = re.compile(r"\s*\S+\s*|\s+")
_ARGUMENT_PIECE = 24
_STEP_KEYS = tuple("text chunks reasoning tool_calls usage finish pace refusal error request".split())
_USAGE_KEYS = Usage.fields
_ERROR_NUMBERS = ("status", "window", "prompt_size")


class RecordedCall(Record, kw_only=True):
    """A tool call of a recording; `arguments` is the text that goes over the wire."""

    id: str
    name: str
    arguments: str


class RecordedStep(Record):
    """One answer: reasoning, then the pieces of the text, then the calls, usage and finish marker.

    An answer with an `error` ends with that instead. `request` is what led to it, where that was kept.
    """

    reasoning: str
    pieces: tuple[str, ...]
    calls: tuple[RecordedCall, ...]
    usage: Usage | None
    finish: FinishReason
    pace: float
    refusal: str = ""
    error: Mapping[str, Any] | None = None
    request: dict[str, Any] | None = None


class Recording(Record, kw_only=True):
    """A script of answers. `source` names where it came from, for messages."""

    source: str
    model: str
    steps: tuple[RecordedStep, ...]


class ReplayProvider(Provider):
    """Plays a recording: the n-th complete answer is its n-th step, whatever the request says.

    A step that was interrupted is played again from its start. `pace`, in milliseconds, overrides the
    recording's own pauses. `strict`: a request that is another than the recorded one fails.
    """

    prefix_bound = False

    def __init__(self, recording: Recording, *, pace: float | None = None, strict: bool = False) -> None:
        self.model = recording.model
        self.name = f"recording {recording.source}"
        self.origin = f"replay:{recording.source}"
        self.local = False
        self.effort: Effort | None = None  # a recording answers as it once did
        self.prefix_bound = holds("bound", recording.model)
        self._recording = recording
        self._pace = pace
        self._strict = strict
        self._position = 0

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of the next step; raises ProviderError when the recording has ended."""
        steps = self._recording.steps
        if self._position >= len(steps):
            count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
            raise ProviderError(f"the recording {self._recording.source} has ended: it holds {count}")
        step = steps[self._position]
        if self._strict:
            self._compare(step, request)
        pause = (step.pace if self._pace is None else self._pace) / 1000
        for chunk in _content(step):
            yield chunk
            await asyncio.sleep(pause)
        if step.usage is not None:
            yield UsageChunk(step.usage)
        self._position += 1
        if step.error is not None:
            raise ProviderError(**step.error)
        yield FinishChunk(step.finish)

    def _compare(self, step: RecordedStep, request: Request) -> None:
        """Raise ProviderError that names the first difference from the recorded request."""
        from codelet.providers.content.recorded_request import difference, plain_request

        assert step.request is not None
        found = difference(step.request, plain_request(request))
        if found is not None:
            place = f"step {self._position + 1} of the recording {self._recording.source}"
            raise ProviderError(f"--strict: the request differs from that of {place}: {found}")


def open_replay(path: str | Path, *, strict: bool = False) -> ReplayProvider:
    """The provider of `--model replay:FILE`; raises UsageError that names the place in a bad file.

    `strict` wants the request of every step in it.
    """
    source = Path(path)
    try:
        if not source.is_file():
            raise UsageError(f"{source}: no such recording; --model replay:FILE needs a JSON file")
        text = source.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{source}: cannot read the recording: {error}") from error
    recording = read_recording(text, str(source))
    missing = [number for number, step in enumerate(recording.steps) if step.request is None]
    if strict and missing:
        raise UsageError(f"{source}: steps[{missing[0]}] has no request: --strict is for what --record wrote")
    return ReplayProvider(recording, strict=strict)


def read_recording(text: str, source: str) -> Recording:
    """The recording in the JSON text `text`; raises UsageError that begins with `source` and the place."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source}: not a recording: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{source}: not a recording: nested too deeply") from error
    place = _Place(source)
    record = place.object(document, ("version", "model", "steps"))
    if record.get("version") != RECORDING_VERSION:
        raise place.at("version").error(f"must be {RECORDING_VERSION}")
    model = place.at("model").text(record.get("model", "recorded"))
    place = place.at("steps")
    steps = _with_requests(
        [_read_step(step, place.item(i)) for i, step in enumerate(place.list(record.get("steps")))], place
    )
    return Recording(source=source, model=model, steps=tuple(steps))


def _content(step: RecordedStep) -> Iterator[Chunk]:
    for piece in _PIECE.findall(step.reasoning):
        yield ReasoningChunk(piece)
    for piece in step.pieces:
        yield TextChunk(piece)
    if step.refusal:
        yield RefusalChunk(step.refusal)
    for index, call in enumerate(step.calls):
        yield ToolCallChunk(index=index, id=call.id, name=call.name)
        for start in range(0, len(call.arguments), _ARGUMENT_PIECE):
            yield ToolCallChunk(index=index, arguments=call.arguments[start : start + _ARGUMENT_PIECE])


class _Place(Record):
    """A place in a recording: takes a value of the expected kind or says where it is wrong."""

    source: str
    path: str = ""

    def at(self, name: str) -> _Place:
        return _Place(self.source, f"{self.path}.{name}" if self.path else name)

    def item(self, index: int) -> _Place:
        return _Place(self.source, f"{self.path}[{index}]")

    def error(self, message: str) -> UsageError:
        where = f"{self.source}: {self.path}" if self.path else self.source
        return UsageError(f"{where}: {message}")

    def object(self, value: Any, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error("must be an object")
        unknown = [key for key in value if key not in keys]
        if unknown:
            raise self.error(f"unknown key {unknown[0]!r}; known are {', '.join(keys)}")
        return value

    def list(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.error("must be a list")
        return value

    def text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self.error("must be a string")
        return value

    def count(self, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error("must be a whole number, 0 or more")
        return value


def _read_step(value: Any, place: _Place) -> RecordedStep:
    step = place.object(value, _STEP_KEYS)
    if "text" in step and "chunks" in step:
        raise place.error("has both text and chunks; only one can be played")
    if "chunks" in step:
        chunks = place.at("chunks")
        pieces = [chunks.item(i).text(piece) for i, piece in enumerate(chunks.list(step["chunks"]))]
    else:
        pieces = _PIECE.findall(place.at("text").text(step.get("text", "")))
    usage = None
    if "usage" in step:
        counted = place.at("usage")
        counts = counted.object(step["usage"], _USAGE_KEYS).items()
        usage = Usage(**{key: counted.at(key).count(count) for key, count in counts}).consistent
    listed = place.at("tool_calls")
    calls = [_read_call(call, listed.item(i)) for i, call in enumerate(listed.list(step.get("tool_calls", [])))]
    finish = step.get("finish", "tool_calls" if calls else "stop")
    if finish not in get_args(FinishReason):
        raise place.at("finish").error(f"must be one of {', '.join(get_args(FinishReason))}")
    return RecordedStep(
        reasoning=place.at("reasoning").text(step.get("reasoning", "")),
        pieces=tuple(pieces),
        calls=tuple(calls),
        usage=usage,
        finish=cast(FinishReason, finish),
        pace=place.at("pace").count(step.get("pace", 0)),
        refusal=place.at("refusal").text(step.get("refusal", "")),
        error=_read_error(step["error"], place.at("error")) if "error" in step else None,
        request=step.get("request"),
    )


def _read_error(value: Any, place: _Place) -> dict[str, Any]:
    error = place.object(value, ("message", "overflow", *_ERROR_NUMBERS))
    numbers = {name: error[name] for name in _ERROR_NUMBERS if error.get(name) is not None}
    for name, number in numbers.items():
        place.at(name).count(number)
    message = place.at("message").text(error.get("message"))
    return {"message": message, "overflow": error.get("overflow") is True, **numbers}


def _with_requests(steps: Sequence[RecordedStep], place: _Place) -> list[RecordedStep]:
    """The steps with their requests whole: in the file each leaves out what is as in the one before."""
    from codelet.providers.content.recorded_request import whole

    before: dict[str, Any] | None = None
    made: list[RecordedStep] = []
    for number, step in enumerate(steps):
        if step.request is None:
            made.append(step)
        else:
            try:
                before = whole(step.request, before)
            except (AttributeError, KeyError, TypeError):
                raise place.item(number).at("request").error("is not of the form that --record writes") from None
            made.append(step.replace(request=before))
    return made


def _read_call(value: Any, place: _Place) -> RecordedCall:
    call = place.object(value, ("id", "name", "arguments"))
    for key in ("id", "name"):
        if not place.at(key).text(call.get(key)):
            raise place.at(key).error("must not be empty")
    arguments = call.get("arguments", {})
    if not isinstance(arguments, str):
        keys = tuple(arguments) if isinstance(arguments, dict) else ()
        arguments = json.dumps(place.at("arguments").object(arguments, keys), ensure_ascii=False)
    return RecordedCall(id=call["id"], name=call["name"], arguments=arguments)
