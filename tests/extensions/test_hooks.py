"""Hooks with real scripts: each row of the table in the help page, and the moments other than calls."""

from __future__ import annotations

import json
import re
import shlex
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import codelet
from codelet.errors import PromptRefused, UsageError
from codelet.extensions.base import OpenedWith
from codelet.extensions.hooks import Hook, hooks_from, hooks_in_file
from codelet.extensions.manifest import turned_on
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.safety import Policy
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Answer as Given
from codelet.safety.verdict import Question
from codelet.settings import Settings
from tests.context.scripted import Answer, ScriptedProvider, turn, turn_until_error
from tests.extensions.conftest import Open

KEY = "k-5b1e7c0d94a8f2b63e"
Opened = Callable[..., tuple[Session, ScriptedProvider]]
PAGE = Path(codelet.__file__).with_name("help") / "extensions.md"


class Scripts:
    """Shell scripts outside the workspace; each writes what it was given beside itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def __call__(self, name: str, body: str) -> str:
        path = self.folder / name
        path.write_text(f'#!/bin/sh\ncat > "$0.$$.json"\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def given(self, name: str) -> list[dict[str, Any]]:
        found = sorted(self.folder.glob(f"{name}.*.json"), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(path.read_text()) for path in found]


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path / "scripts")


@pytest.fixture
def opened(open_session: Open, tmp_path: Path) -> Opened:
    """Opens a session with hooks by their events, in a folder of its own; without `ask` no one can be asked."""
    work = tmp_path / "work"
    work.mkdir()

    def begin(hooks: dict[str, Any], **options: Any) -> tuple[Session, ScriptedProvider]:
        given = OpenedWith(settings=Settings(hooks=hooks_from(hooks)), workspace=work)
        options = {"policy": Policy(work, mode="auto")} | options
        return open_session(*turned_on(given), workspace_at=work, **options)

    return begin


def pre(command: str, **more: Any) -> dict[str, Any]:
    return {"PreToolUse": [{"command": command, **more}]}


def answering(found: object) -> str:
    return f"echo {shlex.quote(json.dumps(found))}"


def decided(decision: str, **more: Any) -> str:
    own = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": "so I say"}
    return answering({"hookSpecificOutput": own | more})


WRITE = Answer("", [("write", {"path": "made.txt", "content": "hello"})])

ROWS = {
    "exit 2": ("echo no such thing >&2; exit 2", "denied", "no such thing"),
    "JSON deny": (decided("deny"), "denied", "so I say"),
    "ask": (decided("ask"), "asked", "so I say"),
    "changed input": (
        answering({"hookSpecificOutput": {"updatedInput": {"file_path": "made.txt", "content": "changed"}}}),
        "changed",
        "",
    ),
    "crash": ("kill -SEGV $$", "asked", "failed"),
    "other exit": ("echo oops >&2; exit 1", "asked", "oops"),
    "hang": ("sleep 60", "asked", "did not end"),
    "no such program": ("no-such-program-here", "asked", "exit 127"),
    "2 MB of output": ("head -c 2000000 /dev/zero | tr '\\0' x", "asked", "more than 1 MiB"),
    "broken JSON": ("echo '{not json'", "asked", "JSON"),
    "allow": (decided("allow"), "runs", ""),
    "other text": ("echo fine", "runs", ""),
}
"""What a hook of PreToolUse does, what comes of the call, and a word of the reason."""


@pytest.mark.parametrize("row", ROWS)
async def test_what_a_hook_does_decides(row: str, opened: Opened, scripts: Scripts, tmp_path: Path) -> None:
    body, becomes, reason = ROWS[row]
    command, made = scripts("hook", body), tmp_path / "work/made.txt"
    session, provider = opened(pre(command, timeout=1 if row == "hang" else 30))
    provider.answers.extend([WRITE, Answer()])
    began = time.monotonic()  # clock: for what hangs
    await turn(session)
    [given] = scripts.given("hook")
    assert (given["tool_name"], given["tool_input"]["file_path"]) == ("Write", "made.txt")
    [record] = session.conversation.calls
    if becomes in ("runs", "changed"):
        assert (record.status, made.read_text()) == ("done", "changed" if becomes == "changed" else "hello")
        return
    assert record.status == "refused" and not made.exists()
    why = " ".join((*session.toolbox.approvals.denied.values(), *(each.reason for each in approvals(session))))
    assert reason in why
    assert bool(session.toolbox.approvals.denied) == (becomes == "denied")
    questions: list[Question] = []

    async def ask(question: Question) -> Given:
        questions.append(question)
        return Given(allow=True)

    person, provider = opened(pre(command, timeout=1 if row == "hang" else 30), ask=ask)
    provider.answers.extend([WRITE, Answer()])
    await turn(person)
    assert (len(questions), made.exists()) == ((0, False) if becomes == "denied" else (1, True))
    assert all(reason in each.verdict.reason for each in questions)
    assert time.monotonic() - began < 30  # clock: for what hangs


def approvals(session: Session) -> list[Any]:
    return list(session.toolbox.approvals.history)


def test_the_page_has_each_row_of_the_table() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", PAGE.read_text().partition("## Hooks")[2], flags=re.MULTILINE)
    words = {"denied": "refused", "asked": "asked about", "changed": "other arguments", "runs": "no opinion"}
    told = {name.strip(): what for name, what in rows}
    assert [row for row, (_, becomes, _) in ROWS.items() if words[becomes] not in told.get(row, "")] == []


async def test_a_hook_that_hangs_leaves_no_process(opened: Opened, scripts: Scripts) -> None:
    command = scripts("hook", 'sleep 60 & echo $! > "$0.child"; setsid sleep 60 & echo $! >> "$0.child"; sleep 60')
    session, provider = opened(pre(command, timeout=1))
    provider.answers.extend([WRITE, Answer()])
    await turn(session)
    for child in (scripts.folder / "hook.child").read_text().split():
        state = Path(f"/proc/{child}/stat")
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(("tool", "call"), [
    ("read", {"path": "a.txt"}),
    ("grep", {"pattern": "x"}),
    ("find", {"pattern": "*.txt"}),
    ("bash", {"command": "echo hi"}),
    ("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]}),
    ("write", {"file_path": "b.txt", "contents": "x"}),
])  # fmt: skip
async def test_one_is_asked_once_for_a_call(
    tool: str, call: dict[str, Any], opened: Opened, scripts: Scripts, tmp_path: Path
) -> None:
    (tmp_path / "work/a.txt").write_text("one")
    session, provider = opened(pre(scripts("hook", ""), matcher=tool))
    provider.answers.extend([Answer("", [("read", {"path": "a.txt"})]), Answer("", [(tool, call)]), Answer()])
    await turn(session)
    assert [each.status for each in session.conversation.calls] == ["done", "done"]
    assert len(scripts.given("hook")) == (2 if tool == "read" else 1)


async def test_matchers_know_both_names(opened: Opened, scripts: Scripts) -> None:
    hooks = [
        {"matcher": matcher, "command": scripts(f"h{number}", "")}
        for number, matcher in enumerate(("Edit|Write", "write", "*", "", "Wr.*", "Bash", "rite", "mcp__.*"))
    ]
    session, provider = opened({"PreToolUse": hooks})
    provider.answers.extend([WRITE, Answer()])
    await turn(session)
    assert [len(scripts.given(f"h{number}")) for number in range(8)] == [1, 1, 1, 1, 1, 0, 0, 0]


async def test_the_strictest_hook_wins_and_each_sees_what_the_one_before_changed(
    opened: Opened, scripts: Scripts, tmp_path: Path
) -> None:
    change = scripts("one", answering({"hookSpecificOutput": {"updatedInput": {"path": "other.txt", "content": "x"}}}))
    session, provider = opened({"PreToolUse": [{"command": change}, {"command": scripts("two", "")}]})
    provider.answers.extend([WRITE, Answer()])
    await turn(session)
    assert scripts.given("two")[0]["tool_input"]["file_path"] == "other.txt"
    assert (tmp_path / "work/other.txt").read_text() == "x"
    hooks = [{"command": scripts("a", decided("ask"))}, {"command": scripts("b", "exit 2")}]
    session, provider = opened({"PreToolUse": hooks})
    provider.answers.extend([WRITE, Answer()])
    await turn(session)
    assert session.toolbox.approvals.denied


async def test_no_hook_permits_what_the_policy_does_not(opened: Opened, scripts: Scripts, tmp_path: Path) -> None:
    session, provider = opened(pre(scripts("hook", decided("allow"))), policy=Policy(tmp_path / "work"))
    provider.answers.extend([WRITE, Answer()])
    await turn(session)
    assert [each.status for each in session.conversation.calls] == ["refused"]


async def test_after_a_call_the_model_is_told(opened: Opened, scripts: Scripts, tmp_path: Path) -> None:
    hooks = {
        "PreToolUse": [{"command": scripts("pre", decided("allow", additionalContext="made by hand"))}],
        "PostToolUse": [
            {"command": scripts("a", "echo run the formatter >&2; exit 2"), "matcher": "Write"},
            {"command": scripts("b", answering({"decision": "block", "reason": "too short"}))},
            {"command": scripts("c", "exit 3")},
        ],
    }
    session, provider = opened(hooks)
    other = Answer("", [("write", {"path": "/etc/hosts", "content": "x"})])
    provider.answers.extend([WRITE, other, Answer()])
    await turn(session)
    first, second = (str(each["content"]) for each in session.messages if each["role"] == "tool")
    assert all(word in first for word in ("made by hand", "run the formatter", "too short"))
    assert "formatter" not in second and len(scripts.given("a")) == 1, "it did not run"
    assert scripts.given("a")[0]["tool_response"]["failed"] is False


async def test_prompts_and_the_start(opened: Opened, scripts: Scripts) -> None:
    refusing = 'if grep -q forbidden "$0".*.json; then echo not that >&2; exit 2; fi; echo "it is Monday"'
    start = answering({"hookSpecificOutput": {"additionalContext": "the build is red"}, "systemMessage": "hi there"})
    session, provider = opened(
        {
            "SessionStart": [{"command": scripts("start", start)}],
            "UserPromptSubmit": [{"command": scripts("prompt", refusing)}, {"command": scripts("bad", "exit 1")}],
        }
    )
    provider.answers.extend([Answer(), Answer()])
    seen = await turn(session, "first")
    await turn(session, "second")
    texts = [str(each["content"]) for each in session.messages if each["role"] == "user"]
    first, second = (next(text for text in texts if text.startswith(word)) for word in ("first", "second"))
    assert "the build is red" in first and "it is Monday" in first
    assert "red" not in second and "it is Monday" in second
    notes = [event.text for event in seen if event.type == "note"]  # type: ignore[attr-defined]
    assert any("hi there" in note for note in notes) and any("exit 1" in note for note in notes)
    assert scripts.given("start")[0] | {"session_id": ""} == {
        "session_id": "", "cwd": str(session.workspace), "permission_mode": "acceptEdits",
        "hook_event_name": "SessionStart", "source": "startup",
    }  # fmt: skip
    count = len(session.messages)
    _, error = await turn_until_error(session, "a forbidden thing")
    assert isinstance(error, PromptRefused) and "not that" in str(error) and len(session.messages) == count


async def test_the_model_goes_on_where_a_hook_says_so(opened: Opened, scripts: Scripts) -> None:
    session, provider = opened({"Stop": [{"command": scripts("stop", "echo run the tests >&2; exit 2")}]})
    provider.answers.extend(Answer(f"answer {number}") for number in range(6))
    await turn(session)
    assert [each["stop_hook_active"] for each in scripts.given("stop")] == [False, True, True]
    assert len(provider.sent) == 4
    assert any("run the tests" in str(each["content"]) for each in provider.sent[1].stable)
    ending = answering({"continue": False})
    hooks = {"Stop": [{"command": scripts("end", ending)}, {"command": scripts("never", "exit 2")}]}
    session, provider = opened(hooks)
    provider.answers.append(Answer())
    await turn(session)
    assert len(provider.sent) == 1 and scripts.given("never") == []


async def test_a_compaction_and_the_end(opened: Opened, scripts: Scripts) -> None:
    hooks = {
        "PreCompact": [{"command": scripts("compact", "exit 2")}],
        "SessionEnd": [{"command": scripts("end", ""), "timeout": 60}, {"command": scripts("slow", "sleep 60")}],
        "Notification": [{"command": "true"}],
    }
    session, provider = opened(hooks)
    assert any("Notification" in note for note in session.notices.take())
    provider.answers.extend(Answer("words " * 500) for _ in range(6))
    for _ in range(6):
        await turn(session)
    assert [event async for event in session.compact()]
    assert [each["trigger"] for each in scripts.given("compact")] == ["manual"]
    assert session.compactor.count == 1, "it cannot refuse"
    began = time.monotonic()  # clock: for what hangs
    await session.close()
    assert len(scripts.given("end")) == 1 and time.monotonic() - began < 20  # clock: for what hangs
    assert any("slow" in note for note in session.notices.take())


async def test_no_secret_reaches_one_and_what_it_was_shown_masked_stays(
    opened: Opened, scripts: Scripts, tmp_path: Path
) -> None:
    echo = (
        'printf \'{"hookSpecificOutput": {"updatedInput": \'; sed "s/.*\\"tool_input\\": //; s/, \\"tool_use_id.*//" '
    )
    command = scripts("hook", echo + '"$0".*.json; printf "}}"')
    session, provider = opened(pre(command), safeguards=Safeguards(masker=Masker({"MY_KEY": KEY})))
    provider.answers.extend([Answer("", [("write", {"path": "made.txt", "content": f"key {KEY}"})]), Answer()])
    await turn(session)
    assert KEY not in json.dumps(scripts.given("hook")) and "key" in scripts.given("hook")[0]["tool_input"]["content"]
    assert (tmp_path / "work/made.txt").read_text() == f"key {KEY}"


def test_a_file_in_the_form_of_claude_code(tmp_path: Path) -> None:
    inner = {"type": "command", "command": "check", "timeout": 5}
    (tmp_path / "hooks.json").write_text(
        json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [inner, {"command": "two"}]}], "Stop": []}})
    )
    assert hooks_in_file(str(tmp_path / "hooks.json")) == (
        Hook(event="PreToolUse", matcher="Bash", command="check", timeout=5.0),
        Hook(event="PreToolUse", matcher="Bash", command="two"),
    )


@pytest.mark.parametrize("wrong", [
    "text", {"Stop": {}}, {"Stop": ["x"]}, {"Stop": [{}]}, {"Stop": [{"command": ""}]}, {"Stop": [{"command": 1}]},
    {"Stop": [{"command": "x", "timeout": 601}]}, {"Stop": [{"command": "x", "timeout": True}]},
    {"PreToolUse": [{"command": "x", "matcher": "("}]}, {"PreToolUse": [{"command": "x", "matcher": 3}]},
    {"Stop": [{"hooks": "x"}]}, {"Stop": [{"type": "prompt", "prompt": "x"}]}, {"Stop": [{"command": "x"}] * 101},
])  # fmt: skip
def test_a_wrong_table_is_named(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"Stop|PreToolUse|table|100"):
        hooks_from(wrong)


def test_a_program_that_is_missing_or_in_the_workspace_is_refused(opened: Opened, tmp_path: Path) -> None:
    inside = tmp_path / "work/check.py"
    inside.write_text("")
    (tmp_path / "link").symlink_to(inside)
    wrong = [str(tmp_path / "none"), "./none", "python3 check.py", '"$CLAUDE_PROJECT_DIR"/check.py', str(inside)]
    for command in (*wrong, f"sh {tmp_path / 'link'}", "'"):
        with pytest.raises(UsageError, match="PreToolUse"):
            opened(pre(command))
    own = OpenedWith(
        settings=Settings(hooks=hooks_from(pre(f"sh {inside}")), own_folder=tmp_path / "work"),
        workspace=tmp_path / "work",
    )
    assert turned_on(own)
    Hook(event="Stop", command=f"sh {inside}").check(tmp_path / "work", tmp_path / "work")
