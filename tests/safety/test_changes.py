"""Changes to files: planned before the question, made as approved, and never over unseen content."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.extensions.base import Guard, GuardedCall
from codelet.loop.session import Session
from codelet.safety import Policy
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Answer, Mode, Question
from codelet.tools import all_tools
from codelet.tools.tool import ToolOutput
from tests.context.scripted import Answer as Said
from tests.context.scripted import ScriptedProvider, turn
from tests.e2e.conftest import Codelet
from tests.safety.conftest import call, toolbox
from tests.safety.test_approvals import YES, Person
from tests.support.script import Call, Reply
from tests.support.server import ModelServer

LINES = "".join(f"line {number}\n" for number in range(1, 5001))
WRITE = {"path": "long.txt", "content": "only five\n"}


@pytest.fixture
def long(tmp_path: Path) -> Path:
    path = tmp_path / "long.txt"
    path.write_text(LINES)
    return path


@pytest.mark.parametrize(
    ("mode", "rules"), [("auto-edit", []), ("auto", []), ("ask", ["write"]), ("ask", ["write(long.txt)"]), ("ask", [])]
)
async def test_replacing_more_than_was_read_asks_whatever_allows_it(
    long: Path, tmp_path: Path, mode: Mode, rules: list[str]
) -> None:
    person = Person(Answer(False, "no"), YES)
    box = toolbox(tmp_path, Policy(tmp_path, mode, allow=rules), person.ask)
    await call(box, "read", path="long.txt", limit=5)
    status, _ = await call(box, "write", **WRITE)
    assert (status, long.read_text()) == ("refused", LINES)
    question = person.asked[0]
    assert "1-5 of its 5,000" in question.verdict.reason
    assert question.verdict.suggestion is None
    assert question.shown.startswith("--- long.txt\n+++ long.txt\n@@ -1,5000 +1 @@\n-line 1\n")
    status, told = await call(box, "write", **WRITE)
    assert (status, long.read_text()) == ("done", "only five\n")
    assert "replaced long.txt" in told and "1-5 of its 5,000" in told
    await call(box, "write", path="long.txt", content="what the model wrote it knows\n")
    assert len(person.asked) == (2 if (mode, rules) != ("ask", []) else 3)


@pytest.mark.parametrize("rules", [[], ["write(long.txt)"]])
async def test_without_a_person_it_is_told_what_to_do(long: Path, tmp_path: Path, rules: list[str]) -> None:
    box = toolbox(tmp_path, Policy(tmp_path, "auto-edit", allow=rules))
    await call(box, "read", path="long.txt", limit=5)
    status, told = await call(box, "write", **WRITE)
    assert status == "failed"
    assert "not replaced" in told and "1-5 of its 5,000" in told and "Read the rest" in told
    assert box.approvals.refused == [], "the model can help itself: no permission is wanted"
    assert long.read_text() == LINES
    for offset in (1, 2001, 4001):
        await call(box, "read", path="long.txt", offset=offset)
    assert (await call(box, "write", **WRITE))[0] == "done"


async def test_yes_is_a_yes_to_that_too_and_says_so(long: Path, tmp_path: Path) -> None:
    box = toolbox(tmp_path, Policy(tmp_path, yes=True))
    await call(box, "read", path="long.txt", limit=5)
    status, told = await call(box, "write", **WRITE)
    assert (status, long.read_text()) == ("done", "only five\n")
    assert "1-5 of its 5,000" in told


async def test_what_was_cut_on_its_way_to_the_model_was_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(200)))

    class Short(Guard):
        async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
            text = output.text
            return output if len(text) < 500 else output.replace(text=f"{text[:100]}[…]{text[-100:]}")

    box = toolbox(tmp_path, Policy(tmp_path, "auto-edit"), guards=[Short()])
    await call(box, "read", path="a.txt")
    assert "its 200 lines" in (await call(box, "write", path="a.txt", content="x"))[1]
    await call(box, "read", path="a.txt", limit=20)
    assert "1-20 of its 200" in (await call(box, "write", path="a.txt", content="x"))[1]


@pytest.mark.parametrize("line", ["key = sk-proj-Zk4x9Qw7eR7tY2uIoP5aS8dF1gH3", "<system-reminder>"])
async def test_what_was_masked_or_defused_was_not_shown(tmp_path: Path, line: str) -> None:
    """A write of the masked text would remove the key from the file."""
    (tmp_path / "a.txt").write_text(f"one\n{line}\n")
    masker = Masker({"OPENAI_API_KEY": "sk-proj-Zk4x9Qw7eR7tY2uIoP5aS8dF1gH3"})
    box = toolbox(tmp_path, Policy(tmp_path, "auto-edit"), masker=masker)
    assert line not in (await call(box, "read", path="a.txt"))[1]
    assert "its 2 lines" in (await call(box, "write", path="a.txt", content="x"))[1]


async def test_a_session_forgets_what_its_list_no_longer_holds(long: Path, tmp_path: Path) -> None:
    long.write_text("".join(f"line {number}\n" for number in range(1500)))
    provider = ScriptedProvider()
    policy = Policy(tmp_path, "auto-edit")
    session = Session(provider, workspace=tmp_path, tools=all_tools(), policy=policy, window=16_000, bare=True)

    async def calls(*made: tuple[str, dict[str, Any]]) -> list[events.ToolResult]:
        provider.answers = deque([Said(calls=list(made)), Said()])
        return [event for event in await turn(session) if isinstance(event, events.ToolResult)]

    read = ("read", {"path": "long.txt", "limit": 700})
    for _ in range(6):
        assert (await calls(read))[0].status == "done"
    assert "1-700 of its 1,500" in (await calls(("write", WRITE)))[0].text
    async with aclosing(session.compact()) as steps:
        assert [event.phase async for event in steps if isinstance(event, events.Compaction)][-1] == "done"
    assert "its 1,500 lines" in (await calls(("write", WRITE)))[0].text
    await calls(read)
    session.rewind()
    assert "its 1,500 lines" in (await calls(("write", WRITE)))[0].text
    session.clear()
    assert "read it first" in (await calls(("write", WRITE)))[0].text


@pytest.mark.parametrize("mode", ["ask", "auto-edit", "auto"])
@pytest.mark.parametrize("rule", [[], ["edit(**)"]])
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"path": "long.txt", "edits": [{"old": "nowhere", "new": "x"}]}, "not found"),
        ({"path": "long.txt", "edits": [{"old": "line 4", "new": "x"}]}, "occurs 1111 times"),
        ({"path": "CLAUDE.md", "edits": [{"old": "nowhere", "new": "x"}]}, "not found"),
        ({"path": "gone.txt", "edits": [{"old": "nowhere", "new": "x"}]}, "use write"),
        ({"path": "unread.txt", "edits": [{"old": "x", "new": "y"}]}, "read it first"),
        ({"path": "linked.txt", "edits": [{"old": "nowhere", "new": "y"}]}, "not found"),
    ],
    ids=["not found", "too often", "delicate", "missing", "unread", "hard link"],
)
async def test_nobody_is_asked_about_an_edit_that_cannot_be_made(
    long: Path, tmp_path: Path, mode: Mode, rule: list[str], arguments: dict[str, Any], told: str
) -> None:
    (tmp_path / "CLAUDE.md").write_text("be kind\n")
    (tmp_path / "unread.txt").write_text("x\n")
    (tmp_path / "linked.txt").hardlink_to(tmp_path / "unread.txt")
    person = Person()
    box = toolbox(tmp_path, Policy(tmp_path, mode, allow=rule), person.ask)
    for name in ("long.txt", "CLAUDE.md", "linked.txt"):
        await call(box, "read", path=name)
    status, text = await call(box, "edit", **arguments)
    assert (status, person.asked) == ("failed", [])
    assert told in text


async def test_nor_about_a_path_that_is_denied_or_a_write_that_cannot_be_made(tmp_path: Path) -> None:
    person = Person()
    box = toolbox(tmp_path, Policy(tmp_path), person.ask)
    (tmp_path / "folder").mkdir()
    assert (await call(box, "edit", path="../x", edits=[{"old": "a", "new": "b"}]))[0] == "refused"
    assert "is a folder" in (await call(box, "write", path="folder", content="x"))[1]
    assert "surrogate" in (await call(box, "write", path="a.txt", content="\udc80"))[1]
    assert person.asked == []


async def test_what_was_approved_is_what_is_made(long: Path, tmp_path: Path) -> None:
    """The file changes during the question: the change on screen no longer fits."""
    later = LINES.replace("line 1\n", "line one\n")

    async def meanwhile(question: Question) -> Answer:
        await asyncio.sleep(0.01)  # clock: the user thinks
        long.write_text(later)
        return YES

    box = toolbox(tmp_path, Policy(tmp_path), meanwhile)
    await call(box, "read", path="long.txt")
    status, told = await call(box, "edit", path="long.txt", edits=[{"old": "line 4321\n", "new": ""}])
    assert status == "failed" and "changed since" in told
    assert long.read_text() == later


async def test_the_mode_may_change_at_a_question(tmp_path: Path) -> None:
    person = Person(Answer(True, mode=True))
    policy = Policy(tmp_path)
    box = toolbox(tmp_path, policy, person.ask)
    for name in ("a.txt", "b.txt"):
        assert (await call(box, "write", path=name, content="x"))[0] == "done"
    assert policy.mode == "auto-edit"
    assert len(person.asked) == 1
    assert box.approvals.history[-1].reason == "mode auto-edit"


def test_in_a_pipe_the_file_stays_and_the_run_is_whole(codelet: Codelet, model_server: ModelServer) -> None:
    path = codelet.cwd / "long.txt"
    path.write_text(LINES)
    model_server.script = [
        Reply(calls=[Call("r", "read", {"path": "long.txt", "limit": 5})]),
        Reply(calls=[Call("w", "write", WRITE)]),
        Reply(text="done"),
    ]
    done = codelet("-p", "go", "--mode", "auto-edit", "--output-format", "json")
    assert path.read_text() == LINES
    assert json.loads(done.out)["refused"] == []
    assert done.exit == 0
    told = model_server.requests[-1].json["messages"]
    assert any("1-5 of its 5,000" in str(message["content"]) for message in told)


@pytest.mark.parametrize("flags", [(), ("--yes",)])
def test_advice_on_a_refused_call_is_true(codelet: Codelet, model_server: ModelServer, flags: tuple[str, ...]) -> None:
    """No flag lifts a denial; only a question without an answer gets advice."""
    (codelet.cwd / "out.txt").symlink_to("/etc/hostname")
    calls = [Call("a", "write", {"path": "out.txt", "content": "x"}), Call("b", "bash", {"command": "touch made.txt"})]
    model_server.script = [Reply(calls=calls), Reply(text="done")]
    done = codelet("-p", "go", *flags)
    assert done.exit == 6
    lines = done.err.splitlines()
    assert any(line.startswith("codelet: refused: write out.txt: ") and "outside" in line for line in lines)
    advice = [line for line in lines if "bash touch made.txt" in line and "--allow" in line and "--yes" in line]
    assert len(advice) == (0 if flags else 1)
    assert ("--yes would" in done.err) is not bool(flags)
