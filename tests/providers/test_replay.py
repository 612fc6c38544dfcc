"""The replay provider: what it plays, and what it says about bad recordings."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from codelet.errors import ProviderError, UsageError
from codelet.messages import user
from codelet.providers.content.replay import ReplayProvider, open_replay, read_recording
from codelet.providers.protocol import (
    Chunk,
    FinishChunk,
    ReasoningChunk,
    Request,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.usage import Usage
from tests.support.waiting import Neighbour

REQUEST = Request("be brief", [user("hello")])


def provider_of(*steps: dict[str, object], pace: float | None = 0) -> ReplayProvider:
    document = json.dumps({"version": 1, "model": "tester", "steps": list(steps)})
    return ReplayProvider(read_recording(document, "here.json"), "here.json", pace=pace)


async def played(provider: ReplayProvider) -> list[Chunk]:
    async with aclosing(provider.stream(REQUEST)) as stream:
        return [chunk async for chunk in stream]


async def test_a_step_comes_in_small_pieces_that_join_to_what_was_recorded():
    text = "  First, look at the file.\n\n\tThen  fix it.\n"
    arguments = {"path": "src/very/long/path/to/some/module.py", "unicode": "žluť\n"}
    provider = provider_of(
        {
            "reasoning": "I should read first.",
            "text": text,
            "tool_calls": [{"id": "a", "name": "read", "arguments": arguments}, {"id": "b", "name": "find"}],
            "usage": {"total_input": 100, "cache_read": 90, "output": 7},
        }
    )
    chunks = await played(provider)
    pieces = [chunk.text for chunk in chunks if isinstance(chunk, TextChunk)]
    assert "".join(pieces) == text
    assert len(pieces) > 5
    reasoning = "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningChunk))
    assert reasoning == "I should read first."
    calls = [chunk for chunk in chunks if isinstance(chunk, ToolCallChunk)]
    assert [(chunk.index, chunk.id, chunk.name) for chunk in calls if chunk.id] == [
        (0, "a", "read"),
        (1, "b", "find"),
    ]
    assert json.loads("".join(chunk.arguments for chunk in calls if chunk.index == 0)) == arguments
    assert json.loads("".join(chunk.arguments for chunk in calls if chunk.index == 1)) == {}
    assert chunks[-2:] == [
        UsageChunk(Usage(total_input=100, cache_read=90, cache_write=0, output=7, reasoning=0)),
        FinishChunk("tool_calls"),
    ]


async def test_chunks_keep_their_borders_and_argument_text_is_sent_as_it_is():
    provider = provider_of(
        {"chunks": ["ab", "", "c d e"], "tool_calls": [{"id": "a", "name": "read", "arguments": "{not json"}]}
    )
    chunks = await played(provider)
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextChunk)] == ["ab", "", "c d e"]
    assert ToolCallChunk(index=0, arguments="{not json") in chunks


async def test_steps_follow_one_another_and_the_end_is_an_error():
    provider = provider_of({"text": "one"}, {"text": "two", "finish": "length"})
    assert await played(provider) == [TextChunk("one"), FinishChunk("stop")]
    assert await played(provider) == [TextChunk("two"), FinishChunk("length")]
    with pytest.raises(ProviderError, match=r"here\.json.* 2 ") as caught:
        await played(provider)
    assert not caught.value.retryable


async def test_an_interrupted_step_is_played_again():
    provider = provider_of({"text": "one two three"}, pace=60_000)
    seen: list[Chunk] = []
    begun = asyncio.Event()

    async def read() -> None:
        async with aclosing(provider.stream(REQUEST)) as stream:
            async for chunk in stream:
                seen.append(chunk)
                begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [TextChunk("one ")]
    async with aclosing(provider.stream(REQUEST)) as stream:
        assert await anext(stream) == TextChunk("one ")


async def test_the_recorded_pace_is_kept_unless_it_is_overridden():
    step = {"chunks": ["a", "b", "c", "d"], "pace": 50}
    with Neighbour() as clock:
        await played(provider_of(step, pace=None))
    assert clock.waited >= 0.2 / 1.1  # its timers are not exact
    long = {"chunks": ["a"] * 1_000, "pace": 1}
    await played(provider_of(long, pace=0))  # at its own pace it would take a quarter of an hour


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("{", "r.json"),
        ("[" * 100_000, "r.json"),
        ("[]", "r.json: "),
        ('{"steps": []}', "version"),
        ('{"version": 2, "steps": []}', "r.json: version: "),
        ('{"version": 1}', "steps"),
        ('{"version": 1, "steps": [], "mode": 1}', "mode"),
        ('{"version": 1, "steps": [], "model": 1}', "r.json: model: "),
        ('{"version": 1, "steps": [{}, {"txt": ""}]}', r"r.json: steps\[1\]: .*txt"),
        ('{"version": 1, "steps": [{"text": "", "chunks": []}]}', r"r.json: steps\[0\]: "),
        ('{"version": 1, "steps": [{"chunks": ["", 1]}]}', r"steps\[0\]\.chunks\[1\]: "),
        ('{"version": 1, "steps": [{"finish": "end"}]}', r"steps\[0\]\.finish: "),
        ('{"version": 1, "steps": [{"pace": -1}]}', r"steps\[0\]\.pace: "),
        ('{"version": 1, "steps": [{"pace": true}]}', r"steps\[0\]\.pace: "),
        ('{"version": 1, "steps": [{"usage": {"output": "1"}}]}', r"steps\[0\]\.usage\.output: "),
        ('{"version": 1, "steps": [{"error": {"message": 1}}]}', r"steps\[0\]\.error\.message: "),
        ('{"version": 1, "steps": [{"tool_calls": [{"id": "a"}]}]}', r"steps\[0\]\.tool_calls\[0\]: .*name"),
        ('{"version": 1, "steps": [{"tool_calls": [{"id": "", "name": "x"}]}]}', r"tool_calls\[0\]\.id: "),
        (
            '{"version": 1, "steps": [{"tool_calls": [{"id": "a", "name": "x", "arguments": [1]}]}]}',
            r"steps\[0\]\.tool_calls\[0\]\.arguments: ",
        ),
    ],
)
def test_a_bad_recording_is_refused_with_its_place(document: str, place: str):
    with pytest.raises(UsageError, match=place) as refused:
        read_recording(document, "r.json")
    assert "\n" not in str(refused.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path):
    with pytest.raises(UsageError, match=r"^\S*gone\.json: "):
        open_replay(tmp_path / "gone.json")
    with pytest.raises(UsageError, match="no such recording"):
        open_replay(tmp_path)
    with pytest.raises(UsageError, match="no such recording"):
        open_replay("nul\0byte")
    latin = tmp_path / "latin.json"
    latin.write_bytes(b'{"version": 1, "model": "\xe9"}')
    with pytest.raises(UsageError, match=r"^\S*latin\.json: "):
        open_replay(latin)


async def test_a_file_is_played(tmp_path: Path):
    file = tmp_path / "r.json"
    file.write_text('{"version": 1, "model": "old-one", "steps": [{"text": "hi"}]}')
    provider = open_replay(str(file))
    assert provider.model == "old-one"
    assert str(file) in provider.name
    assert await played(provider) == [TextChunk("hi"), FinishChunk("stop")]


def test_the_import_brings_no_client_of_a_server():
    code = "import sys, codelet.providers.content.replay\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"litellm", "httpx", "h11", "pydantic", "rich", "prompt_toolkit", "tiktoken", "jsonschema"}
    assert not heavy & set(result.stdout.split())
