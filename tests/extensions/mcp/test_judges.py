"""Servers and a client judge of others, where they are installed: npm's servers, the Python package, and the
conformance suite. Each test that has none names what it needs.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.extensions.mcp.client import Mcp
from codelet.extensions.mcp.servers import servers_of
from tests.extensions.mcp.conftest import Begin
from tests.support.program import ROOT, environment
from tests.support.server import closed_port

MODULES = Path(os.environ.get("CODELET_MCP_MODULES") or ROOT / "node_modules" / "@modelcontextprotocol")
NODE = os.environ.get("JUDGES_NODE") or shutil.which("node")
MODERN = """
import sys
from mcp.server import MCPServer
server = MCPServer("judge")
@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
server.run("streamable-http", port=int(sys.argv[1])) if len(sys.argv) > 1 else server.run("stdio")
"""
CLIENT = """
import asyncio, sys
from codelet.extensions.mcp.server import Server
from codelet.extensions.mcp.servers import ServerSettings

async def main():
    server = Server(ServerSettings(name="judge", url=sys.argv[-1]))
    await server.start()
    for tool in server.tools.values():
        await server.call(tool, dict.fromkeys(tool.parameters["properties"], 2), print)
    await server.close()

asyncio.run(main())
"""


def needs(package: str) -> pytest.MarkDecorator:
    missing = NODE is None or not (MODULES / package).is_dir()
    return pytest.mark.skipif(missing, reason=f"needs node and @modelcontextprotocol/{package} in {MODULES}")


def _can_import_glob() -> bool:
    """Whether Node has `fs.globSync`, which the conformance suite imports (Node 22)."""
    code = "process.exit(require('fs').globSync ? 0 : 1)"
    return NODE is not None and subprocess.run([str(NODE), "-e", code], check=False).returncode == 0


needs_node_22 = pytest.mark.skipif(not _can_import_glob(), reason="needs Node 22 or newer (JUDGES_NODE)")


def node(package: str, *arguments: str) -> list[str]:
    return [str(NODE), str(MODULES / package / "dist" / "index.js"), *arguments]


def program(words: list[str]) -> dict[str, Any]:
    return {"tables": {"test": {"command": words[0], "args": words[1:]}}}


@pytest.fixture
def port() -> Iterator[int]:
    """A port for a server of the test's; what `started` holds is ended."""
    yield closed_port()
    while started:
        child = started.pop()
        child.kill()
        child.wait()


started: list[subprocess.Popen[bytes]] = []


def start(words: list[str], port: int) -> None:
    env = environment(None, {"PORT": str(port)})
    started.append(subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


async def serve(words: list[str], port: int) -> dict[str, Any]:
    """Start a server that listens at the port, and wait until it does."""
    start(words, port)
    url = f"http://127.0.0.1:{port}/mcp"
    for _ in range(300):
        one = Mcp(servers_of({"test": {"url": url}}, (), Path.cwd(), {}), 0)
        one.start(Path.cwd(), lambda name, text: None)
        await one.prepare(30.0)
        ready = one.servers["test"].state == "ready"
        await one.close()
        if ready:
            break
        await asyncio.sleep(0.2)  # clock: the program of another begins to listen when it likes
    return {"tables": {"test": {"url": url}}}


async def check_everything(begin: Begin, tables: dict[str, Any]) -> None:
    begun = begin(**tables)
    await begun.ready()
    server = begun.mcp.servers["test"]
    assert server.state == "ready" and len(server.tools) >= 10 and not server.left_out, server.problem
    assert (await begun.output("mcp__test__get-sum", a=2, b=40)).text.endswith("42.")
    seen = await begun.result("mcp__test__trigger-long-running-operation", duration=1, steps=2)
    assert len([each for each in seen if isinstance(each, events.ToolProgress)]) == 2
    picture = await begun.tool("mcp__test__get-tiny-image").run(begun.session.toolbox.context, print)
    assert len(picture.images) == 1


@needs("server-everything")
async def test_server_everything_over_pipes(begin: Begin) -> None:
    await check_everything(begin, program(node("server-everything", "stdio")))


@needs("server-everything")
async def test_server_everything_over_http(begin: Begin, port: int) -> None:
    await check_everything(begin, await serve(node("server-everything", "streamableHttp"), port))


@needs("server-filesystem")
async def test_server_filesystem(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some words\n")
    begun = begin(**program(node("server-filesystem", str(tmp_path))))
    await begun.ready()
    assert "some words" in (await begun.output("mcp__test__read_text_file", path=str(tmp_path / "a.txt"))).text
    assert (await begun.output("mcp__test__read_text_file", path="/etc/hostname")).status == "failed"


async def test_the_python_server_over_pipes_and_http(begin: Begin, port: int) -> None:
    for tables in (
        program([sys.executable, "-c", MODERN]),
        await serve([sys.executable, "-c", MODERN, str(port)], port),
    ):
        begun = begin(**tables)
        await begun.ready()
        assert (await begun.output("mcp__test__add", a=40, b=2)).text == "42"
        link = begun.mcp.servers["test"].link
        assert link is not None and link.stateless == ("url" in tables["tables"]["test"])


@needs("conformance")
@needs_node_22
@pytest.mark.parametrize("scenario", ["initialize", "tools_call"])
def test_the_conformance_suite(scenario: str, tmp_path: Path) -> None:
    """`sse-retry` asks for the standalone stream of the older revision, `elicitation-…` and `auth/…` for what codelet
    does not offer.
    """
    (tmp_path / "client.py").write_text(CLIENT)
    words = node("conformance", "client", "--command", f"{sys.executable} {tmp_path / 'client.py'}")
    done = subprocess.run(
        [*words, "--scenario", scenario],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and "OVERALL: PASSED" in done.stdout + done.stderr, done.stdout[-2_000:]
