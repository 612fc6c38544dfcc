"""A cancel in every state of a request, over every wire: the server sees it at once, and no socket is left."""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from codelet.providers import open_provider
from codelet.providers.protocol import Provider
from tests.providers.chunks import IN_TEXT, WAYS, collect, joined, options
from tests.support.script import Call, HttpError, Reply, Step, Stop
from tests.support.server import ModelServer
from tests.support.waiting import Neighbour, happens

CALL = Call("c1", "read", {"x": "long"}, (2, 5))
CANCELS = 200
EACH = pytest.mark.parametrize(("model", "transport"), WAYS.values(), ids=WAYS)


def states(model: str) -> dict[str, Step]:
    """The place where the server stops answering, so that only a cancel ends the request."""

    def stalled(after: int | None) -> Reply:
        return Reply(["one ", "two"], calls=[CALL], fault=Stop("stall", after))

    text = IN_TEXT[model]
    return {
        "before the headers": stalled(None),
        "before the first event": stalled(0),
        "before the text": stalled(1),
        "in the text": stalled(text),
        "in a call": stalled(text + 3),
        "after the finish reason": Reply("whole", fault=Stop("stall", text + 1)),
        "while it waits to try again": HttpError(503, retry_after=60),
    }


def sockets() -> int:
    gc.collect()
    links = Path("/proc/self/fd").iterdir()
    found = 0
    for link in links:
        with suppress(OSError):
            found += os.readlink(link).startswith("socket:")
    return found


async def cancelled_in(provider: Provider, server: ModelServer, step: Step) -> None:
    """Ask, cancel once the server has come to its stop, and wait until it has seen that."""
    server.script = [*(Reply() for _ in server.requests), step]
    task = asyncio.create_task(collect(provider))
    await happens(lambda: len(server.requests) == len(server.script), "the request")
    here = server.requests[-1]
    if isinstance(step, HttpError):
        await happens(here.done.is_set, "the refusal")
    elif isinstance(step, Reply) and isinstance(step.fault, Stop) and step.fault.after is not None:
        await happens(here.started.is_set, "the headers")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if isinstance(step, Reply):
        await happens(here.gone.is_set, "the close")


@EACH
async def test_the_server_sees_a_cancel_at_once_in_every_state(model: str, transport: Any, model_server: ModelServer):
    model_server.script = [Reply("warm")]
    provider = open_provider(model, options(model_server.openai, attempts=3), transport)
    await collect(provider)
    steps = states(model)
    with Neighbour() as clock:
        for step in steps.values():
            await cancelled_in(provider, model_server, step)
    assert clock.passed < 0.5 * len(steps)
    model_server.script = [*(Reply() for _ in model_server.requests), Reply("next")]
    assert joined(await collect(provider))["text"] == "next"
    await provider.close()


async def test_two_hundred_cancels_leave_no_socket(model_server: ModelServer):
    providers = [
        (open_provider(model, options(model_server.openai), transport), model) for model, transport in WAYS.values()
    ]
    model_server.script = lambda request: Reply("warm")
    for provider, _ in providers:
        await collect(provider)
    before, open_before = sockets(), model_server.open_connections
    for number in range(CANCELS):
        provider, model = providers[number % len(providers)]
        steps = [step for name, step in states(model).items() if "again" not in name]
        await cancelled_in(provider, model_server, steps[number // len(providers) % len(steps)])
    await happens(lambda: model_server.open_connections <= open_before, "the server's side of them")
    await happens(lambda: sockets() <= before, "the sockets")
    for provider, _ in providers:
        await provider.close()
