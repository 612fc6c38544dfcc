"""litellm must not affect codelet: print, warn, write, fetch, load a `.env`, hold up start or exit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from codelet.providers.by_litellm.provider import IMPORTING
from tests.support.program import ROOT, environment
from tests.support.script import Call, HttpError, Reply, Stop
from tests.support.server import ModelServer
from tests.support.waiting import PATIENCE

ASK = """
import asyncio, json, os, sys
from contextlib import aclosing
from codelet.errors import ProviderError
from codelet.providers.by_litellm.provider import LiteLLMProvider
from tests.providers.chunks import TOOLS, joined, options, request

async def ask(model, base):
    provider = LiteLLMProvider(model, options(base))
    chunks = []
    try:
        async with aclosing(provider.stream(request(tools=TOOLS))) as stream:
            chunks = [chunk async for chunk in stream]
    except ProviderError as error:
        print(error)
    await provider.close()
    return joined(chunks)["text"]
"""


def run(
    code: str, folder: Path, *arguments: str, program: tuple[str, ...] = (), **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code that may call `ask`, warnings as errors, in `folder`."""
    script = ASK + textwrap.dedent(code)
    return subprocess.run(
        [*program, sys.executable, "-W", "error", "-c", script, *arguments],
        cwd=folder,
        env=environment(folder, {"PYTHONDONTWRITEBYTECODE": "1", **extra}),
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
    )


BOTH_WIRES = """
async def main():
    for model in ("openai/scripted", "anthropic/claude-sonnet-4-5"):
        for _ in range(2):
            print(await ask(model, sys.argv[1]))
asyncio.run(main())
"""


def test_failures_are_one_line_each(tmp_path: Path, model_server: ModelServer):
    cut = Reply(["o", "ne"], fault=Stop("cut", after=4))
    model_server.script = [HttpError(401, "who are you"), cut, HttpError(529, "overloaded"), cut]
    result = run(BOTH_WIRES, tmp_path, model_server.openai)
    lines = [line for line in result.stdout.splitlines() if line]
    assert len(lines) == 4, lines
    assert "who are you" in lines[0]
    assert "overloaded" in lines[2]
    assert result.stderr == ""


@pytest.mark.needs("strace")
@pytest.mark.long
def test_nothing_is_printed_written_or_fetched(tmp_path: Path, model_server: ModelServer):
    model_server.script = [Reply("one"), Reply("two", usage=None), Reply("three"), Reply("four", usage=None)]
    trace = tmp_path / "trace"
    folder = tmp_path / "empty"
    folder.mkdir()
    calls = "trace=openat,open,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,connect"
    program = ("strace", "-f", "-qq", "-e", calls, "-o", str(trace))
    result = run(BOTH_WIRES, folder, model_server.openai, program=program)
    assert result.stdout.split() == ["one", "two", "three", "four"]
    assert (result.returncode, result.stderr) == (0, "")
    wrote, connected = [], []
    for line in trace.read_text(encoding="utf-8", errors="replace").splitlines():
        if re.search(r"O_(CREAT|WRONLY|RDWR)|mkdir|unlink|rename|creat\(", line) and "/dev/null" not in line:
            wrote.append(line)
        elif "connect(" in line and f"htons({model_server.port})" not in line:
            connected.append(line)
    assert wrote == []
    assert connected == []


def test_neither_a_dotenv_nor_the_mcp_library_is_loaded_no_switch_left(tmp_path: Path, model_server: ModelServer):
    """One request with tools, made in a folder with a hostile `.env`."""
    (tmp_path / ".env").write_text("OPENAI_API_BASE=http://127.0.0.1:1/v1\nSTOLEN=yes\n", encoding="utf-8")
    model_server.script = [Reply("one")]
    code = """
    text = asyncio.run(ask("openai/scripted", sys.argv[1]))
    switches = {name: value for name, value in os.environ.items() if "LITELLM" in name or "REPEATED" in name}
    stolen = [name for name in ("STOLEN", "OPENAI_API_BASE") if name in os.environ]
    modules = [name for name in ("mcp", "litellm", "openai", "httpx") if name in sys.modules]
    print(json.dumps({"text": text, "switches": switches, "stolen": stolen, "modules": modules}))
    """
    found = json.loads(run(code, tmp_path, model_server.openai, LITELLM_MODE="DEV").stdout)
    assert (found["text"], found["stolen"]) == ("one", [])
    assert found["switches"] == {"LITELLM_MODE": "DEV"}, "none of ours reaches the programs that are started later"
    assert found["modules"] == [], "litellm has a process of its own"
    assert len(model_server.requests[0].json["tools"]) == 2


def test_the_module_is_imported_by_its_first_use_and_not_before(tmp_path: Path):
    code = """
    slow = {"litellm", "openai", "httpx", "tempfile", "tiktoken", "pydantic", "importlib.metadata"}
    LiteLLMProvider("bedrock/anthropic.claude-x", options("http://127.0.0.1:1"))
    print(sorted(slow & set(sys.modules)))
    """
    assert run(code, tmp_path).stdout.split() == ["[]"]


SLOW = """
import os, sys, time
time.sleep({})  # clock: longer than a user is left in silence
sys.path.remove(os.path.dirname(__file__))
del sys.modules[__name__]
__import__(__name__)  # the real one
"""


def slow_library(folder: Path, seconds: float) -> str:
    """A folder for `sys.path` whose module makes litellm's import take that much longer."""
    library = folder / "library"
    library.mkdir()
    (library / "dotenv.py").write_text(SLOW.format(seconds), encoding="utf-8")
    return str(library)


@pytest.mark.parametrize("after", [0.0, 0.1, 0.4, 0.8])
def test_leaving_does_not_wait_for_the_import(after: float, tmp_path: Path):
    """It is left so many seconds after the import has begun."""
    code = """
    import time
    sys.path.insert(0, sys.argv[2])
    async def main():
        await LiteLLMProvider("bedrock/x", options("http://127.0.0.1:1")).warm()
        await asyncio.sleep(float(sys.argv[1]))
    asyncio.run(main())
    print(time.monotonic())
    sys.stdout.flush()
    """
    result = run(code, tmp_path, str(after), slow_library(tmp_path, 60.0))
    ended = time.monotonic()  # clock: the same for both processes
    assert (result.returncode, result.stderr) == (0, "")
    assert ended - float(result.stdout) < 30.0


def test_a_malicious_release_is_not_imported(tmp_path: Path):
    marker = tmp_path / "ran"
    package = tmp_path / "library" / "litellm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"open({str(marker)!r}, 'w').close()\n", encoding="utf-8")
    about = tmp_path / "library" / "litellm-1.82.8.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: litellm\nVersion: 1.82.8\n", encoding="utf-8")
    code = f"""
    sys.path.insert(0, {str(tmp_path / "library")!r})
    asyncio.run(ask("bedrock/x", "http://127.0.0.1:1"))
    """
    result = run(code, tmp_path)
    assert "1.82.8" in result.stdout
    assert result.stderr == ""
    assert not marker.exists()


def test_an_import_that_fails_is_an_error_and_not_a_hang(tmp_path: Path):
    package = tmp_path / "library" / "litellm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('half installed')\n", encoding="utf-8")
    code = f"""
    sys.path.insert(0, {str(tmp_path / "library")!r})
    asyncio.run(ask("bedrock/x", "http://127.0.0.1:1"))
    """
    result = run(code, tmp_path)
    assert result.stdout.strip().endswith("RuntimeError: half installed")
    assert result.stderr == ""


def test_the_pinned_release_is_the_one_that_is_tested():
    import tomllib
    from importlib.metadata import version

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (pin,) = [name for name in project["dependencies"] if name.startswith("litellm")]
    assert pin == f"litellm=={version('litellm')}"


TWICE = """
sys.path.insert(0, sys.argv[2])

async def twice(base):
    provider = LiteLLMProvider("openai/scripted", options(base, attempts=2))
    for _ in range(2):
        async with aclosing(provider.stream(request())) as stream:
            print([chunk.text for chunk in [chunk async for chunk in stream] if hasattr(chunk, "text")])
    await provider.close()

asyncio.run(twice(sys.argv[1]))
"""


def test_a_silence_of_more_than_a_second_is_told_once(tmp_path: Path, model_server: ModelServer):
    """A failure after the note is retried: nothing of an answer was shown."""
    model_server.script = [HttpError(503), Reply("yes"), Reply("yes")]
    done = run(TWICE, tmp_path, model_server.openai, slow_library(tmp_path, 1.5))
    assert done.stdout.splitlines() == [repr([IMPORTING, "yes"]), "['yes']"]


def test_what_litellms_extra_would_install_is_not_needed(tmp_path: Path, model_server: ModelServer):
    """Neither for calls with tools on the wires that it speaks itself, nor to read an error."""
    call = Call("c1", "read", {"x": "1"})
    model_server.script = [Reply("a", calls=[call]), Reply("b", calls=[call]), HttpError(401, "who are you")]
    for name in ("mcp", "mcp_types", "httpx2", "cryptography", "starlette", "uvicorn", "jwt"):
        (tmp_path / "library").mkdir(exist_ok=True)
        missing = f"raise ModuleNotFoundError({name!r}, name={name!r})\n"
        (tmp_path / "library" / f"{name}.py").write_text(missing, encoding="utf-8")
    code = """
    sys.path.insert(0, sys.argv[2])

    async def all_of_them():
        for model in ("openai/scripted", "anthropic/claude-sonnet-4-5", "github/scripted"):
            print(await ask(model, sys.argv[1]))

    asyncio.run(all_of_them())
    """
    done = run(code, tmp_path, model_server.openai, str(tmp_path / "library"))
    said, refused = done.stdout.splitlines()[:2], done.stdout.splitlines()[2]
    assert said == ["a", "b"], done.stderr
    assert "who are you" in refused
    assert [len(request.json["tools"]) for request in model_server.requests[:2]] == [2, 2]
