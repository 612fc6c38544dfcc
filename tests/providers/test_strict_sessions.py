"""Long sessions at servers that refuse all that their vendors refuse: not one request of them is refused.

Parallel calls, pictures, an interrupt, a compaction and a rewind at each vendor; then one session that is taken from
vendor to vendor and back.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path

import pytest

from codelet import events
from codelet.context.allotment import Size
from codelet.loop.session import Session
from codelet.providers import open_provider
from codelet.providers.protocol import Provider
from codelet.safety import Policy
from tests.providers.chunks import options
from tests.support.official import Judged, complaints
from tests.support.pictures import png
from tests.support.script import Call, HttpError, Reply
from tests.support.server import ModelServer, Recorded
from tests.support.vendors import DIALECTS, GREP, READ, Dialect

PICTURE = Call("", "read", {"path": "shot.png"})


def steps() -> Iterator[Reply]:
    """Steps without end: one call or several at once, with and without a text, each with a file not read before."""
    for number in itertools.count(0, 4):
        fresh = [Call("", "read", {"path": f"many{(number + each) % 40}.txt"}) for each in range(4)]
        yield Reply("Looking.", calls=[READ, GREP, fresh[0]])
        yield Reply(calls=[PICTURE, fresh[1]])
        yield Reply("And there.", calls=[fresh[2]])
        yield Reply(calls=[fresh[3], READ, PICTURE, GREP])


STRICT = [
    *("anthropic", "anthropic, before 5.5", "openai responses", "gemini", "deepseek", "moonshot", "mistral"),
    *("xai, Responses", "openrouter", "openrouter, Claude", "zai", "groq", "minimax", "openai", "dashscope"),
]
OFFICIAL: dict[str, Judged] = {
    "openai": "chat",
    "openai responses": "responses",
    "anthropic": "messages",
    "anthropic, before 5.5": "messages",
    "mistral": "mistral",
}
"""Those whose own packages say which requests are valid."""


class Strict:
    """A vendor's server: `turn(n)` lets it answer with n steps of calls and then with a text."""

    def __init__(self, dialect: Dialect, server: ModelServer) -> None:
        self.dialect = dialect
        self.server = server
        self.replies: list[Reply | HttpError] = []
        self.refusals: list[str] = []
        self._steps = steps()
        answer: Callable[[Recorded], Reply | HttpError] = dialect.script(self.replies)

        def kept(request: Recorded) -> Reply | HttpError:
            reply = answer(request)
            if isinstance(reply, HttpError):
                self.refusals.append(reply.message)
            return reply

        server.script = kept

    def turn(self, steps: int, last: str = "Line 2.") -> None:
        self.replies += [*itertools.islice(self._steps, steps), Reply(last)]

    def opened(self) -> Provider:
        return open_provider(self.dialect.model, options(self.server.openai))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("hay\nneedle\nhay\n", encoding="utf-8")
    for number in range(40):
        (tmp_path / f"many{number}.txt").write_text(f"hay {number}, and more of it\n" * 60, encoding="utf-8")
    (tmp_path / "shot.png").write_bytes(png())
    return tmp_path


async def turn(session: Session, prompt: str) -> list[events.Event]:
    async with aclosing(session.send(prompt)) as stream:
        return [event async for event in stream]


async def stopped(session: Session, prompt: str, results: int) -> None:
    """A turn that the user stops once so many results are there."""

    async def until() -> None:
        seen = 0
        async with aclosing(session.send(prompt)) as stream:
            async for event in stream:
                seen += isinstance(event, events.ToolResult)
                if seen == results:
                    task.cancel()

    task = asyncio.create_task(until())
    with suppress(asyncio.CancelledError):
        await task


def ended(seen: Sequence[events.Event]) -> bool:
    return isinstance(seen[-1], events.TurnEnd) and not any(isinstance(event, events.Retry) for event in seen)


@pytest.mark.long
@pytest.mark.parametrize("name", STRICT)
async def test_nothing_of_a_long_session_is_refused(name: str, model_server: ModelServer, workspace: Path):
    vendor = Strict(DIALECTS[name], model_server)
    session = Session(vendor.opened(), workspace=workspace, policy=Policy(workspace))
    vendor.turn(8)
    assert ended(await turn(session, "look for the needle"))
    vendor.turn(5)
    await stopped(session, "and in the other file", 5)
    del vendor.replies[len(model_server.requests) :]
    vendor.turn(6)
    assert ended(await turn(session, "go on"))
    vendor.replies.append(Reply("A summary: the needle is in line 2."))
    async with aclosing(session.compact(size=Size(percent=60))) as stream:
        done = [event async for event in stream if isinstance(event, events.Compaction)]
    assert done and done[-1].phase == "done"
    del vendor.replies[len(model_server.requests) :]
    vendor.turn(6)
    assert ended(await turn(session, "and now?"))
    assert session.rewind() == "and now?"
    vendor.turn(6)
    assert ended(await turn(session, "once more, please"))
    await session.close()
    assert vendor.refusals == []
    assert len(model_server.requests) >= 30
    if name in OFFICIAL:
        assert [found for request in model_server.requests for found in complaints(request.json, OFFICIAL[name])] == []


@pytest.mark.long
async def test_a_session_goes_to_nine_vendors_and_back(workspace: Path):
    order = [
        *("openai responses", "anthropic", "gemini", "deepseek", "moonshot", "mistral", "xai, Responses"),
        *("openrouter, Claude", "zai", "anthropic, before 5.5"),
    ]
    with ExitStack() as servers:
        vendors = {name: Strict(DIALECTS[name], servers.enter_context(ModelServer([]))) for name in order}
        providers = {name: vendor.opened() for name, vendor in vendors.items()}
        session = Session(providers[order[0]], workspace=workspace, policy=Policy(workspace))
        for number, name in enumerate([*order, *reversed(order[:-1])]):
            session.models.switch(providers[name])
            vendors[name].turn(2)
            assert ended(await turn(session, f"look, time {number}")), (name, vendors[name].refusals)
        await session.close()
        for provider in providers.values():
            await provider.close()
        assert {name: vendor.refusals for name, vendor in vendors.items()} == {key: [] for key in order}
        asked = sum(len(vendor.server.requests) for vendor in vendors.values())
        assert asked == 3 * (2 * len(order) - 1)
