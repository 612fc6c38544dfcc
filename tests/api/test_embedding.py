"""What programs that embed codelet need: types of arguments, tracebacks, one-line results, clean-up, shared limits."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any, Literal, TypedDict

import pytest

from codelet import SharedLimits, ToolError, UsageError, events, open_session, run, tool
from codelet.errors import ProviderError
from tests.support.script import Call, Delivery, HttpError, Reply, Tokens
from tests.support.server import ModelServer

KEY = "k-5b1e7c0d94a8f2b63e"


class Point(TypedDict):
    x: int
    labels: dict[str, str]


@tool
async def loose(
    one: int | str,
    more: dict[str, Any],
    numbers: dict[str, int] | None = None,
    listed: list[Any] | None = None,
    bare: list | None = None,  # type: ignore[type-arg]
    level: Literal[1, 2] = 1,
    mixed: Literal["a", 1] = "a",
    anything: Any = None,
    points: list[Point] | None = None,
) -> str:
    """Take values of many types.

    one: A number, or its name.
    """
    return json.dumps([one, more, numbers, listed, bare, level, mixed, anything, points])


FITS: list[dict[str, Any]] = [
    {"one": 1, "more": {}},
    {"one": "x", "more": {"a": [1, {"b": None}]}, "numbers": {"a": 1}, "listed": [1, "a", None], "bare": [{}]},
    {"one": 1, "more": {}, "level": 2, "mixed": 1, "anything": {"a": 1}, "points": [{"x": 1, "labels": {"a": "b"}}]},
    {"one": 1, "more": {}, "numbers": None, "level": None},
]
DOES_NOT: list[dict[str, Any]] = [
    {"one": 1.5, "more": {}},
    {"one": 1},
    {"one": 1, "more": []},
    {"one": 1, "more": {}, "numbers": {"a": "x"}},
    {"one": 1, "more": {}, "level": 3},
    {"one": 1, "more": {}, "mixed": "b"},
    {"one": 1, "more": {}, "unknown": 1},
    {"one": 1, "more": {}, "points": [{"labels": {}}]},
]


@pytest.mark.parametrize("given", FITS)
async def test_a_tool_takes_values_of_many_types(given: dict[str, Any]) -> None:
    checked = loose.checked(given)
    assert {**checked} == {name: value for name, value in given.items() if value is not None}
    assert (await loose.run(None, print, **checked)).text.startswith("[")


@pytest.mark.parametrize("given", DOES_NOT)
def test_what_does_not_fit_is_told_to_the_model(given: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="loose: "):
        loose.checked(given)


def test_the_schema_says_the_types() -> None:
    properties = loose.parameters["properties"]
    assert properties["one"] == {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "description": "A number, or its name.",
    }
    assert properties["more"] == {"type": "object", "additionalProperties": {}}
    assert properties["level"] == {"type": "integer", "enum": [1, 2]}
    assert properties["mixed"] == {"enum": ["a", 1]}
    assert (properties["bare"], properties["anything"]) == ({"type": "array"}, {})
    assert loose.parameters["required"] == ["one", "more"]


@tool
async def broken(number: str) -> str:
    """Look a number up."""
    return {"1": "one"}[number + KEY]


async def test_an_exception_of_a_tool_is_logged_with_its_traceback(
    options: dict[str, Any],
    model_server: ModelServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    model_server.script = [Reply(calls=[Call("c1", "broken", {"number": "2"})]), Reply("ok")]
    with caplog.at_level(logging.ERROR, "codelet"):
        result = await run("go", **options | {"api_key": KEY}, extra_tools=[broken])
    assert result.exit == 0
    [record] = caplog.records
    assert record.name == "codelet" and "broken" in record.getMessage()
    assert "Traceback" in record.getMessage() and "return {" in record.getMessage() and KEY not in record.getMessage()
    told = str(model_server.requests[1].messages[-1])
    assert "KeyError" in told and "Traceback" not in told and KEY not in told
    assert capfd.readouterr() == ("", ""), "nothing is printed unless the program asks for it"


async def test_a_result_is_one_line(options: dict[str, Any], model_server: ModelServer) -> None:
    model_server.script = [Reply("A long answer.\nWith lines. " * 50)]
    shown = repr(await run("go", **options))
    assert "\n" not in shown and len(shown) < 160 and "A long answer." in shown and "exit=0" in shown


async def test_tools_are_closed_whatever_happens(options: dict[str, Any], model_server: ModelServer) -> None:
    closed: list[str] = []

    async def close(name: str) -> None:
        await asyncio.sleep(0)
        closed.append(name)
        if name == "second":
            raise RuntimeError("no end")

    def made(name: str) -> Any:
        async def work(text: str) -> str:
            return text

        work.__name__ = name
        return tool(close=lambda: close(name))(work)

    model_server.script = [Reply("ok")]
    with pytest.raises(Exception, match=r"extra_tools.*no end"):
        async with open_session(**options, extra_tools=[made("first"), made("second")]) as session:
            assert [event async for event in session.send("go")]
    assert closed == ["second", "first"]
    with pytest.raises(UsageError):
        async with open_session(**options, extra_tools=[made("third")], resume="/no/such/export"):
            pass
    assert closed == ["second", "first"], "it was never opened"


async def test_events_are_json(options: dict[str, Any], model_server: ModelServer) -> None:
    model_server.script = [Reply("ok", calls=[Call("c1", "read", {"path": "app.py"})]), Reply("done")]
    async with open_session(**options) as session:
        told = [event.as_dict() async for event in session.send("go")]
    assert json.loads(json.dumps(told)) == told
    assert {"turn_start", "tool_call", "tool_result", "turn_end"} <= {each["type"] for each in told}
    assert isinstance(told[-1]["usage"]["output"], int) and isinstance(events.Text("a"), events.Event)


async def test_runs_one_after_the_other_share_a_limit(options: dict[str, Any], model_server: ModelServer) -> None:
    limits = SharedLimits(max_tokens=100)
    model_server.script = [Reply("ok", usage=Tokens(output=45)) for _ in range(5)]
    results = [await run("go", **options, shared=limits) for _ in range(5)]
    assert [each.exit for each in results] == [0, 0, 4, 4, 4]
    assert (limits.used.output, len(model_server.requests)) == (90, 2)
    assert [each.usage for each in results[2:]] == [None] * 3 and "shared" in str(results[2].error)


def priced(options: dict[str, Any], server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Options for a model with a price: a server on this machine costs nothing unless its address is a vendor's."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic)
    return options | {"model": "anthropic/claude-sonnet-5-5", "api_base": None, "tools": []}


async def test_runs_at_once_never_pass_a_shared_limit(
    options: dict[str, Any], model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = SharedLimits(max_tokens=1_000)
    model_server.script = lambda request: Reply(
        "ok", usage=Tokens(total_input=1_000, output=request.json["max_tokens"] // 3)
    )
    results = await asyncio.gather(
        *(run("go", **priced(options, model_server, monkeypatch), shared=limits) for _ in range(40))
    )
    assert {each.exit for each in results} == {0, 4}
    spent = sum(each.usage.output for each in results if each.usage is not None)
    assert spent == limits.used.output <= 1_000
    assert max(request.json["max_tokens"] for request in model_server.requests) <= 1_000


async def test_one_that_finds_too_little_left_waits_for_those_in_hand(
    options: dict[str, Any], model_server: ModelServer
) -> None:
    limits = SharedLimits(max_tokens=10_000)  # each may use all of it, as its model has no limit that is known
    model_server.script = [Reply("ok", usage=Tokens(output=10)) for _ in range(20)]
    results = await asyncio.gather(*(run("go", **options, shared=limits) for _ in range(20)))
    assert {each.exit for each in results} == {0} and limits.used.output == 200


async def test_one_whose_answer_those_in_hand_would_cut_waits_for_them(
    options: dict[str, Any], model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = priced(options, model_server, monkeypatch)
    answer = Reply("ok", usage=Tokens(total_input=1_000, output=100), delivery=Delivery(pause=0.1))
    model_server.script = [answer] * 3
    await run("go", **many)
    alone = model_server.requests[0].json["max_tokens"]
    async with (
        open_session(**many, shared=(limits := SharedLimits(max_tokens=alone + alone // 2))) as first,
        open_session(**many, shared=limits) as second,
    ):
        await asyncio.gather(*(told(each.send("go")) for each in (first, second)))
    assert [request.json["max_tokens"] for request in model_server.requests] == [alone] * 3


async def told(turn: AsyncIterator[events.Event]) -> list[events.Event]:
    return [event async for event in turn]


async def test_a_run_that_fails_keeps_nothing(options: dict[str, Any], model_server: ModelServer) -> None:
    limits = SharedLimits(max_tokens=10_000)
    model_server.script = [HttpError(400), Reply("ok")]
    async with open_session(**options, shared=limits) as session:
        with pytest.raises(ProviderError):
            assert [event async for event in session.send("go")]
        assert (await run("go", **options, shared=limits)).exit == 0, "though that session is still open"


async def test_a_shared_limit_needs_a_price(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="price"):
        await run(
            "go", **options | {"model": "openai/nobody-knows-it", "api_base": None}, shared=SharedLimits(max_cost=1)
        )
