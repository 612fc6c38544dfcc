"""A provider that answers from a script, counts its requests as a provider would, and keeps a prefix cache."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from operator import is_
from pathlib import Path
from typing import Any

from codelet import events
from codelet.context.allotment import Size
from codelet.context.tokens import estimate_message, estimate_text
from codelet.errors import CodeletError, ProviderError, ToolError
from codelet.loop.session import Session
from codelet.messages import Message
from codelet.providers.protocol import Chunk, Effort, FinishChunk, Request, TextChunk, ToolCallChunk, UsageChunk
from codelet.safety import Policy
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput, tool
from codelet.usage import Usage


@dataclass
class Sent:
    """One request: what was to stay, what was volatile, and its size in tokens."""

    stable: list[Message]
    tail: list[Message]
    tools: str
    size: int


@dataclass
class Answer:
    """One answer: text, calls as (tool, arguments), an error in their place, or a stream that hangs."""

    text: str = "ok"
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    error: Exception | None = None
    hangs: bool = False


Script = Callable[[Request], Answer | None]


@dataclass(eq=False)
class ScriptedProvider:
    """Plays `answers`, then says ok. `window` is what it takes; `script` may answer first.

    `percent` is what it reports of the size that we would estimate: another tokeniser's counts.
    """

    model: str = "scripted/small"
    name: str = "script"
    origin: str = "script"
    local: bool = False
    effort: Effort | None = None
    prefix_bound: bool = False
    drops_thinking: bool = False
    window: int = 10**9
    answers: deque[Answer] = field(default_factory=deque)
    script: Script | None = None
    sent: list[Sent] = field(default_factory=list)
    keep: int | None = None
    overflows: int = 0
    percent: int = 100
    _cached: int = 0
    _seen: list[Message] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _number: int = 0

    def drop_thinking(self) -> None:
        self.drops_thinking = True

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        fixed = estimate_text(request.system) + estimate_text(str(request.tools))
        same = self._measure(request.messages)
        size = fixed + sum(self._sizes)
        end = len(request.messages) - request.tail
        stable = list(request.messages[:end])
        if size > self.window:
            self.overflows += 1
            raise ProviderError("the prompt is too long", status=400, overflow=True)
        self.sent.append(Sent(stable, list(request.messages[end:]), json.dumps(request.tools), size))
        if self.keep is not None:
            del self.sent[: -self.keep]
        read = fixed + sum(self._sizes[: min(same, self._cached)]) if self._cached else 0
        self._cached = end
        answer = (self.script(request) if self.script else None) or (self.answers or deque([Answer()])).popleft()
        if answer.error is not None:
            raise answer.error
        await asyncio.sleep(0)
        yield TextChunk(answer.text)
        if answer.hangs:
            await asyncio.Event().wait()
        for index, (called, arguments) in enumerate(answer.calls):
            await asyncio.sleep(0)
            self._number += 1
            yield ToolCallChunk(index=index, id=f"call{self._number}", name=called, arguments=json.dumps(arguments))
        yield UsageChunk(
            Usage(
                total_input=size * self.percent // 100,
                cache_read=read * self.percent // 100,
                cache_write=0,
                output=estimate_text(answer.text) + 20 * len(answer.calls),
                reasoning=0,
            )
        )
        yield FinishChunk("tool_calls" if answer.calls else "stop")

    def forget(self) -> None:
        """The cache is gone."""
        self._cached = 0

    def _measure(self, messages: Sequence[Message]) -> int:
        """Measure the messages that are new; how many at the start are those of the request before."""
        same = list(map(is_, self._seen, messages))
        place = same.index(False) if False in same else len(same)
        self._sizes[place:] = map(estimate_message, messages[place:])
        self._seen = list(messages)
        return place

    async def warm(self) -> None:
        """Nothing to do."""

    async def ask(self) -> None:
        """No one can be asked."""

    async def close(self) -> None:
        """Nothing is open."""


async def look(context: ToolContext, progress: Progress, *, lines: int, about: str = "a") -> ToolOutput:
    """Give this many lines."""
    await asyncio.sleep(0)
    progress("looking")
    return ToolOutput(text(lines, about))


async def broken(context: ToolContext, progress: Progress, *, why: str = "") -> ToolOutput:
    """Fail."""
    await asyncio.sleep(0)
    raise ToolError(f"error: {why} is not there")


async def defect(context: ToolContext, progress: Progress) -> ToolOutput:
    """Raise what no tool should."""
    raise RuntimeError("a defect")


def text(lines: int, about: str = "a") -> str:
    """Lines as code has them, each with different names."""
    return "\n".join(f"value_{about}_{n} = compute_{n % 17}(src/{about}/mod_{n % 9}.py, key_{n})" for n in range(lines))


TOOLS: list[Tool] = [tool(look), tool(broken), tool(defect, touches=None)]


def session_of(provider: ScriptedProvider, workspace: Path, **options: Any) -> Session:
    """A session on the provider whose tools may all run."""
    options.setdefault("window", 16_000)
    options.setdefault("bare", True)
    return Session(provider, workspace=workspace, tools=TOOLS, policy=Policy(workspace, yes=True), **options)


async def turn(session: Session, prompt: str | None = "go") -> list[events.Event]:
    """All events of one turn, or of `resume` without a prompt."""
    return (await turn_until_error(session, prompt))[0]


async def turn_until_error(session: Session, prompt: str | None) -> tuple[list[events.Event], CodeletError | None]:
    seen: list[events.Event] = []
    try:
        async with aclosing(session.send(prompt) if prompt is not None else session.resume()) as stream:
            async for event in stream:
                seen.append(event)
    except CodeletError as error:
        return seen, error
    return seen, None


def compactions(seen: Sequence[events.Event], phase: str | None = None) -> list[events.Compaction]:
    found = [event for event in seen if isinstance(event, events.Compaction)]
    return [event for event in found if phase is None or event.phase == phase]


async def by_hand(session: Session, instruction: str = "", size: Size | None = None) -> list[events.Compaction]:
    """All events of a compaction by hand."""
    async with aclosing(session.compact(instruction, size)) as stream:
        return compactions([event async for event in stream])


async def fill(session: Session, provider: ScriptedProvider, turns: int, lines: int = 70) -> list[events.Event]:
    """Run `count` turns, each with a prompt, a call with `lines` lines, and an answer."""
    seen = []
    for number in range(turns):
        provider.answers.extend([Answer("looking", [("look", {"lines": lines, "about": f"part{number}"})]), Answer()])
        seen += await turn(
            session, f"prompt {number}: change src/part{number}/mod.py, never touch port {9000 + number}"
        )
    return seen


async def compact_five_times(session: Session) -> None:
    """Turns of words, and after every four a compaction that was asked for."""
    for number in range(5):
        for _ in range(4):
            await turn(session, f"turn {number}: " + "words to be compacted " * 200)
        await by_hand(session)
    assert session.compactor.count == 5
