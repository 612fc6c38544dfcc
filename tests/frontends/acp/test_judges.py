"""The official clients of the protocol drive the real program; each is named where it is not installed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.acp.editor import NO_SDK, SDK
from tests.support.program import CODELET, run
from tests.support.script import Call, Reply
from tests.support.server import ModelServer

HERE = Path(__file__).parent


@pytest.fixture
def command(model_server: ModelServer, tmp_path: Path) -> list[str]:
    (kept := tmp_path / "kept").mkdir()
    edit = Call("c1", "edit", {"path": "new.txt", "edits": [{"old": "", "new": "one\n"}]})
    plan = Call("c2", "plan", {"plan": "mend\n[x] read\n[ ] fix"})
    wait = Call("c3", "bash", {"command": "sleep 300"})
    model_server.script = [Reply("I write it.", calls=[edit, plan]), Reply("Done."), Reply("wait", calls=[wait])]
    return [*CODELET, "--model", "openai/scripted", "--api-base", model_server.openai, "acp", "--sessions", str(kept)]


def judged(*words: str, cwd: Path, home: Path) -> dict[str, object]:
    finished = run(*words, cwd=cwd, home=home, env={"OPENAI_API_KEY": "test-key"}, command=())
    assert finished.exit == 0, finished.err
    return finished.json()


def _holds(seen: dict[str, Any]) -> None:
    assert seen["version"] == 1 and seen["options"] == ["mode", "model", "effort"]
    assert (seen["first"], seen["second"]) == ("end_turn", "cancelled")
    assert seen["asked"][0] == ["allow_once", "allow_always", "allow_always", "reject_once"]
    assert seen["listed"] and seen["loaded"][:2] == ["user_message_chunk", "agent_message_chunk"]
    kinds = {"agent_message_chunk", "tool_call", "tool_call_update", "plan", "usage_update"}
    assert kinds <= set(seen["updates"])


@pytest.mark.skipif(not SDK.is_dir() or shutil.which("node") is None, reason=NO_SDK)
def test_the_npm_client_drives_it(command: list[str], repo: Path, home: Path) -> None:
    seen = judged("node", str(HERE / "npm_client.mjs"), str(SDK), str(repo), *command, cwd=repo, home=home)
    _holds(seen)
    assert seen["exit"] == 0


def test_the_python_client_drives_it(command: list[str], repo: Path, home: Path) -> None:
    _holds(judged(sys.executable, str(HERE / "python_client.py"), str(repo), *command, cwd=repo, home=home))
