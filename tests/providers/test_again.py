"""Retries: a failure before anything was shown, on every wire, unless a retry cannot help."""

from __future__ import annotations

import json
from contextlib import ExitStack, aclosing
from typing import Any

import pytest

from codelet.providers import open_provider
from codelet.providers.failure import unreachable
from codelet.providers.protocol import Chunk, Deadlines, NoteChunk, ProviderOptions, Retries, RetryChunk
from tests.providers.chunks import IN_TEXT, MODELS, QUICK, TOOLS, WAYS, collect_until_error, joined, options, request
from tests.support.script import HttpError, Insert, Reply, Step, Stop, StreamError
from tests.support.server import ModelServer, closed_port

WHOLE = Reply(["all ", "of it"])
SHORT = Deadlines(connect=5.0, first_token=1.0, between_chunks=1.0)

every_wire = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
each_way = pytest.mark.parametrize(("model", "transport"), WAYS.values(), ids=WAYS.keys())
both_ways = pytest.mark.parametrize("transport", ["native", "litellm"])


def broken(fault: Stop | Insert | StreamError) -> Reply:
    return Reply(["all ", "of it"], fault=fault)


def error_event(error: dict[str, Any]) -> Reply:
    event = json.dumps({"type": "error", "error": error}).encode()
    return broken(Insert(b"event: error\ndata: " + event + b"\n\n", after=0))


PASSING: dict[str, Step] = {
    "closed before the answer": Stop("cut"),
    "cut after the headers": broken(Stop("cut", 0)),
    "cut after the first event": broken(Stop("cut", 1)),
    "reset after the headers": broken(Stop("reset", 0)),
    "half closed": broken(Stop("half_close", 1)),
    "stalls before the headers": Stop("stall"),
    "stalls after the headers": broken(Stop("stall", 0)),
    "stalls after the first event": broken(Stop("stall", 1)),
    "overloaded, by type": broken(StreamError("busy", "overloaded_error", after=0)),
    "server error, by type": broken(StreamError("busy", "server_error", after=0)),
    "rate limit, by type": broken(StreamError("busy", "rate_limit_exceeded", after=0)),
    "server error, by code": error_event({"message": "busy", "type": None, "code": "server_error"}),
    "a status as text": error_event({"message": "busy", "code": "429"}),
    "a status as number": error_event({"message": "busy", "code": 503}),
    "no type and no code": error_event({"message": "busy"}),
    "409": HttpError(409, "busy"),
    "425": HttpError(425, "busy"),
    "501": HttpError(501, "busy"),
    "520": HttpError(520, "busy"),
    "522": HttpError(522, body=b"<html>busy</html>", content_type="text/html"),
    "524": HttpError(524, "busy"),
    "the server says so": HttpError(400, "busy", headers={"x-should-retry": "true"}),
}


@each_way
@pytest.mark.parametrize("step", PASSING.values(), ids=PASSING.keys())
async def test_what_passes_is_tried_again(step: Step, model: str, transport: Any, model_server: ModelServer):
    model_server.script = [step, WHOLE]
    deadlines = SHORT if "stall" in repr(step) else QUICK
    provider = open_provider(model, options(model_server.openai, attempts=3, deadlines=deadlines), transport)
    chunks, error = await collect_until_error(provider)
    await provider.close()
    assert error is None
    said = joined(chunks)
    assert (said["text"], said["finish"], said["retries"]) == ("all of it", ["stop"], [(2, 3)])
    assert len(model_server.requests) == 2


FINAL: dict[str, Step] = {
    "a bad request": HttpError(400, "no"),
    "the server says so": HttpError(503, "no", headers={"x-should-retry": "false"}),
    "used up": HttpError(429, "You exceeded your current quota"),
    "used up, in the stream": broken(StreamError("You exceeded your current quota", "rate_limit_error", after=0)),
}


@each_way
@pytest.mark.parametrize("step", FINAL.values(), ids=FINAL.keys())
async def test_what_stays_is_told_at_once(step: Step, model: str, transport: Any, model_server: ModelServer):
    model_server.script = [step, WHOLE]
    provider = open_provider(model, options(model_server.openai, attempts=3), transport)
    chunks, error = await collect_until_error(provider)
    await provider.close()
    assert (chunks, len(model_server.requests)) == ([], 1)
    assert error is not None


@every_wire
async def test_an_error_event_that_names_the_request_as_its_cause_is_final(model: str, model_server: ModelServer):
    model_server.script = [broken(StreamError("no such field", "invalid_request_error", after=0)), WHOLE]
    provider = open_provider(model, options(model_server.openai, attempts=3))
    chunks, error = await collect_until_error(provider)
    await provider.close()
    assert (chunks, len(model_server.requests)) == ([], 1)
    assert "no such field" in str(error)


@each_way
@pytest.mark.parametrize("how", ["cut", "clean_end"])
async def test_nothing_is_tried_again_once_a_word_was_shown(
    how: Any, model: str, transport: Any, model_server: ModelServer
):
    model_server.script = [broken(Stop(how, IN_TEXT[model])), WHOLE]
    provider = open_provider(model, options(model_server.openai, attempts=3), transport)
    chunks, error = await collect_until_error(provider)
    await provider.close()
    assert joined(chunks)["text"] == "all "
    assert error is not None
    assert len(model_server.requests) == 1


@each_way
@pytest.mark.parametrize("how", ["cut", "reset", "clean_end", "error"])
async def test_an_answer_that_nobody_has_seen_is_asked_for_again(
    how: Any, model: str, transport: Any, model_server: ModelServer
):
    at = IN_TEXT[model]
    model_server.script = [broken(StreamError(after=at) if how == "error" else Stop(how, at)), WHOLE]
    provider = open_provider(model, options(model_server.openai, attempts=3), transport)
    chunks, error = await collect_until_error(provider, request(tools=TOOLS).replace(unseen=True))
    await provider.close()
    assert error is None
    said = joined(chunks)
    assert (said["text"], said["finish"], said["retries"]) == ("all all of it", ["stop"], [(2, 3)])
    assert len(model_server.requests) == 2


@both_ways
async def test_a_server_that_comes_up_meanwhile_is_found(transport: Any):
    port = closed_port()
    wanted = ProviderOptions(f"http://127.0.0.1:{port}/v1", "test-key", QUICK, Retries(attempts=5, first_wait=0.1))
    provider = open_provider("openai/scripted", wanted, transport)
    chunks: list[Chunk] = []
    with ExitStack() as started:
        async with aclosing(provider.stream(request())) as stream:
            async for chunk in stream:
                if isinstance(chunk, NoteChunk):  # of litellm's import, if it takes long
                    continue
                if isinstance(chunk, RetryChunk) and not chunks:
                    started.enter_context(ModelServer([WHOLE], port=port))
                chunks.append(chunk)
        await provider.close()
    assert isinstance(chunks[0], RetryChunk)
    assert joined(chunks)["text"] == "all of it"


@pytest.mark.parametrize("base", ["http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"])
async def test_who_cannot_be_reached_is_asked_the_full_number_of_times(base: str):
    wanted = ProviderOptions(base.format(port=closed_port()), "test-key", SHORT, Retries(attempts=4, first_wait=0.01))
    provider = open_provider("openai/scripted", wanted)
    chunks, error = await collect_until_error(provider)
    await provider.close()
    assert joined(chunks)["retries"] == [(2, 4), (3, 4), (4, 4)]
    assert "cannot reach" in str(error)


def test_who_is_off_rather_than_away_is_waited_for_less():
    assert unreachable("x", local=True).patience == 10
    assert unreachable("x", local=False, refused=True).patience == 10
    assert unreachable("x", local=False).patience == 30


def test_all_waits_of_a_request_are_bounded():
    retries = Retries()
    assert (retries.total_wait, retries.asked_wait) == (30, 120)
