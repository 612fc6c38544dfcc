"""litellm's process: it ends when it is not needed, when it hangs, and whatever ends codelet."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import ProviderError
from codelet.providers.by_litellm.provider import LiteLLMProcess, LiteLLMProvider
from tests.providers.chunks import collect, joined, options
from tests.support.program import descendants, environment, lives, run, start
from tests.support.script import Reply, Stop, Tokens
from tests.support.server import ModelServer
from tests.support.waiting import PATIENCE, Neighbour, until

HANGS = "import time\ntime.sleep(600)\n"
DEAF = """
import time

class BadRequestError(Exception): ...

def get_llm_provider(name):
    return name, "openai", None, None

def get_supported_openai_params(model, provider):
    return ["tools"]

async def acompletion(**arguments):
    print("printed by litellm")
    time.sleep(600)
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose litellm comes before the real one."""
    folder = tmp_path / "library"
    (folder / "litellm").mkdir(parents=True)
    about = folder / "litellm-1.0.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: litellm\nVersion: 1.0.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    yield folder


def children() -> set[int]:
    """The processes below this one that run litellm."""
    return {each for each in descendants(os.getpid()) if b"by_litellm" in command_of(each)}


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def gone(pids: set[int]) -> None:
    await asyncio.to_thread(until, lambda: not any(map(lives, pids)), "the end of litellm's process")


async def test_an_import_that_hangs_is_ended(library: Path):
    (library / "litellm" / "__init__.py").write_text(HANGS, encoding="utf-8")
    before, process = children(), LiteLLMProcess(import_seconds=1.0)
    with pytest.raises(ProviderError, match="not imported within 1 s"):
        await process.ready
    await gone(children() - before)


async def test_a_process_that_does_not_hear_a_cancel_is_ended(library: Path):
    (library / "litellm" / "__init__.py").write_text(DEAF, encoding="utf-8")
    before, process = children(), LiteLLMProcess()
    call = {"name": "a/b", "arguments": {}, "marks": [], "about": {}, "limits": [9, 9], "counts": True}
    async with process.request(call):
        mine = children() - before
        assert mine
        with Neighbour() as clock:
            pass
    assert clock.passed < 1.0, "who leaves a request does not wait for litellm"
    await gone(mine)
    assert process.is_over
    provider = LiteLLMProvider("openai/scripted", options("http://127.0.0.1:1"))
    await provider.warm()
    await LiteLLMProcess.shared().ready
    assert children() - before - mine, "the next use starts another"
    await provider.close()


async def test_it_ends_a_while_after_the_last_use(library: Path):
    (library / "litellm" / "__init__.py").write_text(DEAF, encoding="utf-8")
    before, process = children(), LiteLLMProcess(idle_seconds=0.3)
    first, other = (LiteLLMProvider("openai/scripted", options("http://127.0.0.1:1")) for _ in range(2))
    await first.warm()
    await other.warm()
    await process.ready
    mine = children() - before
    assert mine
    await first.close()
    await first.close()
    await asyncio.sleep(0.8)  # clock: longer than it may be idle
    assert all(map(lives, mine)), "one still needs it"
    await other.close()
    await gone(mine)


async def test_a_killed_process_is_a_failure_that_passes(model_server: ModelServer):
    stalled = Reply(["one ", "two"], fault=Stop("stall", 2))
    model_server.script = [Reply("warm"), stalled, Reply("next")]
    bridge = LiteLLMProvider("openai/scripted", options(model_server.openai))
    await collect(bridge)
    task = asyncio.create_task(collect(bridge))
    await asyncio.to_thread(model_server.wait_for, 2)
    for each in children():
        os.kill(each, signal.SIGKILL)
    with pytest.raises(ProviderError, match="litellm's process ended") as caught:
        await task
    assert caught.value.retryable
    assert joined(await collect(bridge))["text"] == "next"
    await bridge.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_of_it_is_left_when_codelet_is_ended(how: int, model_server: ModelServer, repo: Path, home: Path):
    model_server.script = [Reply(["one ", "two"], fault=Stop("stall", after=2))]
    more = ["--transport", "litellm", "--model", "openai/scripted", "--api-base", model_server.openai]
    child = start("-p", "look", *more, cwd=repo, home=home, env={"OPENAI_API_KEY": "test-key"})
    assert model_server.wait_for(1).started.wait(PATIENCE)
    below = descendants(child.pid)
    assert any(b"by_litellm" in command_of(each) for each in below)
    child.send_signal(how)
    child.communicate(timeout=PATIENCE)
    until(lambda: not any(map(lives, below)), "the end of all processes")
    assert model_server.requests[0].gone.wait(PATIENCE)


def test_nothing_of_it_is_left_after_an_answer(model_server: ModelServer, repo: Path, home: Path):
    model_server.script = [Reply("done")]
    more = ["--transport", "litellm", "--model", "openai/scripted", "--api-base", model_server.openai]
    before = children()
    assert run("-p", "look", *more, cwd=repo, home=home, env={"OPENAI_API_KEY": "test-key"}).exit == 0
    assert children() == before


SERVES = """
import os, sys
import litellm

async def witness(*_):
    print("counted, priced and logged", file=sys.stderr, flush=True)

litellm.success_callback = [witness]
from codelet.providers.by_litellm.child import main
main()
"""


@pytest.mark.parametrize("usage", [Tokens(), None])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_litellm_does_nothing_more_once_the_answer_is_there(
    provider: str, usage: Tokens | None, model_server: ModelServer, tmp_path: Path
):
    """Its work after the end shows in its success callbacks; they come after it."""
    model_server.script = [Reply("hello", usage=usage)]
    arguments: dict[str, Any] = {
        "messages": [{"role": "user", "content": "hi"}],
        "api_base": model_server.base if provider == "anthropic" else model_server.openai,
        "api_key": "k",
        "max_tokens": 10,
    }
    name = "anthropic/claude-sonnet-4-5" if provider == "anthropic" else "openai/scripted"
    call = {"name": name, "arguments": arguments, "marks": [], "about": {}, "limits": [9, 9], "counts": True}
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
    with subprocess.Popen(
        [sys.executable, "-c", SERVES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path, offline),
        text=True,
    ) as child:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        child.stdin.write(json.dumps({"id": 1, "call": call, "environment": environment(tmp_path, offline)}) + "\n")
        child.stdin.flush()
        said = [json.loads(child.stdout.readline())]
        while "ended" not in said[-1]:
            said.append(json.loads(child.stdout.readline()))
        second = {"id": 2, "call": {**call, "arguments": {**arguments, "api_base": "x"}}, "environment": {}}
        child.stdin.write(json.dumps(second) + "\n")
        child.stdin.flush()
        while said[-1].get("id") != 2 or "ended" not in said[-1]:  # the loop had its turns
            said.append(json.loads(child.stdout.readline()))
        child.stdin.close()
        told = child.stderr.read()
    deltas = [choice["delta"] for each in said for choice in each.get("event", {}).get("choices", ())]
    texts = [delta["content"] for delta in deltas if "content" in delta]
    assert "".join(texts) == "hello"
    assert "counted, priced and logged" not in told


ASKS_ONCE = """
import asyncio, sys
from codelet.providers.by_litellm.child import import_litellm
litellm = import_litellm()
import httpx
before = set(sys.modules)

async def main():
    asked = {"messages": [{"role": "user", "content": "hi"}], "api_key": "k", "_skip_mcp_handler": True}
    async for _ in await litellm.acompletion(model="openai/scripted", api_base=sys.argv[1], stream=True, **asked):
        pass

asyncio.run(main())
print(len(set(sys.modules) - before))
"""


def test_what_the_first_request_needs_is_imported_before_it(model_server: ModelServer, tmp_path: Path):
    model_server.script = [Reply("hello")]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
    done = subprocess.run(
        [sys.executable, "-c", ASKS_ONCE, model_server.openai],
        env=environment(tmp_path, offline),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 100, "modules; without the list of them it would be about five hundred"
