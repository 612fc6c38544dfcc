"""A key that gets into a session at many places leaves it at none: no event, export, page, audit or note shows it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from codelet import events
from codelet.context import Piped
from codelet.context.reminders import Source
from codelet.errors import CodeletError, ProviderError, ToolError
from codelet.export.encode import to_json
from codelet.export.page import page
from codelet.export.recorder import Recorder
from codelet.export.redaction import Mask
from codelet.extensions.base import Command, ExportPart, Extension, Guard, GuardedCall
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.providers.protocol import (
    Chunk,
    FinishChunk,
    NoteChunk,
    ReasoningChunk,
    Request,
    RetryChunk,
    TextChunk,
    ToolCallChunk,
)
from codelet.safety import Policy
from codelet.safety.audit import AuditLog
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Answer, Question, Verdict
from codelet.tools.tool import Arguments, Preview, Progress, Tool, ToolContext, ToolOutput, tool
from tests.context.scripted import ScriptedProvider

KEY = "sk-proj-Zk4x9Qw7eR7tY2uIoP5aS8dF1gH3"
SHORTEST = 12
PLACES = (
    *("prompt", "arguments", "output", "progress", "display", "error", "guard", "verdict", "reminder", "export"),
    *("command", "text", "reasoning", "piped", "retry", "note", "failure", "called name", "title", "preview"),
    *("guard's error", "command's error", "reminder's error", "late guard's error", "record's error"),
)


class Leaking(Extension, Source, Guard):
    """Says the key wherever it may say anything, at the place that is tried."""

    name = "leaking"

    def __init__(self, place: str) -> None:
        self.place = place
        made = tool(self.leak)
        self.tools = (
            Tool("leak", made.description, made.parameters, made.run, made.touches, self.title, preview=self.preview),
        )
        self.reminders = self.guards = (self,)
        self.commands = (Command("leak", "Leak", self.say),)
        self.parts = (ExportPart("leaking", self.save, list),)

    def at(self, place: str) -> str:
        return f"it is {KEY} here" if place == self.place else "nothing"

    async def leak(self, context: ToolContext, progress: Progress, *, what: str) -> ToolOutput:
        """Leak."""
        for piece in pieces(self.at("progress")):
            progress(piece)
        if self.place == "error":
            raise ToolError(self.at("error"))
        return ToolOutput(self.at("output"), self.at("display"))

    def title(self, arguments: Arguments) -> str:
        return self.at("title")

    def preview(self, context: ToolContext, arguments: Arguments) -> Preview:
        return Preview(self.at("preview"))

    def fail(self, place: str) -> None:
        if place == self.place:
            raise RuntimeError(self.at(place))

    async def text(self) -> str:
        self.fail("reminder's error")
        return self.at("reminder")

    async def before(self, call: GuardedCall) -> Verdict:
        self.fail("guard's error")
        return Verdict("ask", "execute", self.at("verdict"))

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        self.fail("late guard's error")
        return output.replace(text=f"{output.text}\n{self.at('guard')}")

    def record(self, kind: str, call: GuardedCall, **facts: object) -> None:
        self.fail("record's error")

    async def say(self, session: Session, argument: str) -> str:
        self.fail("command's error")
        return self.at("command")

    def save(self) -> str:
        return self.at("export")


def pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


class Split(ScriptedProvider):
    """Reasons, answers and calls once, in pieces of five characters."""

    def __init__(self, extension: Leaking) -> None:
        super().__init__()
        self.said = extension

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        yield RetryChunk(attempt=2, attempts=5, wait=0.0, reason=self.said.at("retry"))
        for piece in pieces(self.said.at("reasoning")):
            yield ReasoningChunk(piece)
        for piece in pieces(self.said.at("text")):
            yield TextChunk(piece)
        if request.messages[-1 - request.tail]["role"] == "tool":
            yield FinishChunk("stop")
            return
        yield NoteChunk(self.said.at("note"))
        if self.said.place == "failure":
            raise ProviderError(self.said.at("failure"))
        arguments = json.dumps({"what": self.said.at("arguments")})
        yield ToolCallChunk(index=0, id="call", name=KEY if self.said.place == "called name" else "leak")
        for piece in pieces(arguments):
            yield ToolCallChunk(index=0, arguments=piece)
        yield FinishChunk("tool_calls")


@pytest.mark.parametrize("allows", [True, False])
@pytest.mark.parametrize("place", PLACES)
async def test_it_is_nowhere(place: str, allows: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    questions: list[Question] = []

    async def ask(question: Question) -> Answer:
        questions.append(question)
        return Answer(allows)

    leaking = Leaking(place)
    audit = AuditLog(tmp_path / "audit.jsonl")
    masker = Masker({"OPENAI_API_KEY": KEY})
    session = Session(
        Split(leaking),
        workspace=tmp_path,
        ask=ask,
        policy=Policy(tmp_path),
        safeguards=Safeguards(masker=masker, audit=audit),
        extensions=[leaking],
    )
    seen: list[events.Event] = []
    piped = Piped(leaking.at("piped"), len(leaking.at("piped")), 1) if place == "piped" else None
    try:
        async with aclosing(session.send(leaking.at("prompt"), piped)) as stream:
            async for event in stream:
                seen.append(event)
        ended = ""
    except CodeletError as error:
        ended = str(error)
    try:
        said = await session.run_command("leak")
    except CodeletError as error:
        said = str(error)
    snapshot = Recorder().snapshot(session)
    await session.close()
    mask = Mask(lambda text: masker.mask(text, patterns=True))
    told = "".join(event.delta for event in seen if isinstance(event, events.Text | events.Reasoning))
    progress = "".join(event.delta for event in seen if isinstance(event, events.ToolProgress))
    sinks = {
        "events": repr(seen),
        "streams": f"{told}\n{progress}",
        "questions": repr(questions),
        "denied": repr(
            (
                session.toolbox.approvals.refused,
                session.toolbox.approvals.denied,
                list(session.toolbox.approvals.history),
            )
        ),
        "command": said,
        "end": ended,
        "export": to_json(snapshot, mask=mask).decode(),
        "page": page(snapshot, mask=mask),
        "audit": (tmp_path / "audit.jsonl").read_text(),
        "log": caplog.text,
        "reminders": repr([m for m in session.conversation.sent() if "system-reminder" in str(m["content"])]),
        "results": repr([m for m in session.messages if m["role"] == "tool"]),
    }
    parts = [KEY[start : start + SHORTEST] for start in range(8, len(KEY) - SHORTEST + 1)]
    for sink, text in sinks.items():
        assert not [part for part in parts if part in text], f"{place} shows in {sink}"
    shown = [sink for sink, text in sinks.items() if "[masked" in text]
    ran = allows or place not in ("output", "progress", "display", "error")
    assert bool(shown) == ran, "it was there"
