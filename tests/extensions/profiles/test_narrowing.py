"""A profile takes rights away and gives none, whatever it says, and the session can go from one to the next."""

# near: codelet/tools

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import UsageError
from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.export.recorder import Recorder, restore
from codelet.loop.meter import Limits
from codelet.loop.session import Session
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Said
from codelet.safety.verdict import Mode, Question
from codelet.tools import all_tools
from tests.context.scripted import Answer, ScriptedProvider, compact_five_times, turn
from tests.extensions.profiles.conftest import WithProfile

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read", {"path": "a.txt"}),
    ("write", {"path": "new.txt", "content": "x"}),
    ("bash", {"command": "touch made.txt"}),
    ("bash", {"command": "ls"}),
    ("grep", {"pattern": "x"}),
]
MODES: tuple[Mode, ...] = ("read-only", "ask", "auto-edit", "auto")
SEED = """\
id: safe_assistant
system_prompt: |
  You are a helpful assistant with limited system access.
  You can read and write files in the sandbox directory.
  Always explain what you're doing.
config:
  allowed_tools:
    - echo
    - file_read
    - file_write
  autonomy_mode: confirm
  max_iterations: 10
  risk_tolerance: low
  verbosity: normal
"""


async def ran(session: Session, provider: Any, asked: list[Question]) -> tuple[list[bool], list[str]]:
    """Which of CALLS ran, and the tools about which a person was asked."""

    async def ask(question: Question) -> Said:
        asked.append(question)
        return Said(allow=True)

    session.toolbox.ask = ask
    provider.answers.extend([Answer("", CALLS), Answer()])
    seen = await turn(session)
    results = [event for event in seen if isinstance(event, events.ToolResult)]
    assert len(results) == len(CALLS)
    return [result.status == "done" for result in results], [question.tool for question in asked]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("yes", [False, True])
async def test_no_profile_runs_more_or_asks_less(
    mode: Mode, yes: bool, tmp_path: Path, own_profiles: Path, with_profile: WithProfile
):
    (tmp_path / "a.txt").write_text("x\n")

    def policy() -> Policy:
        return Policy(tmp_path, mode, allow=["bash(touch *)"], deny=["write(secret/**)"], yes=yes)

    async def outcome(name: str | None) -> tuple[list[bool], list[str]]:
        for left in (tmp_path / "new.txt", tmp_path / "made.txt"):
            left.unlink(missing_ok=True)
        session, provider = with_profile(name, policy=policy())
        return await ran(session, provider, [])

    without, questions = await outcome(None)
    choices = itertools.product(
        (None, [], ["read"], ["read", "bash", "write", "edit", "grep", "find"]),
        ("auto", "confirm"),
        ("low", "medium", "high"),
    )
    for tools, autonomy, risk in choices:
        words = {"autonomy_mode": autonomy, "risk_tolerance": risk}
        lines = [f"{key}: {value}" for key, value in words.items()]
        lines += [] if tools is None else [f"allowed_tools: {json.dumps(tools)}"]
        (own_profiles / "one.yaml").write_text("\n".join(lines))
        with_it, more = await outcome("one")
        assert all(before or not after for before, after in zip(without, with_it, strict=True)), (tools, words)
        permitted = [name for name in questions if tools is None or name in tools]
        refused = risk == "low"
        assert [name for name in permitted if name not in more and not (refused and name == "bash")] == []
        if autonomy == "confirm" and tools is None and mode != "read-only":
            assert "write" in more, "a yes that was given for all does not count"
        if refused:
            assert with_it[2] is False, "a command that does more than read"
        if tools is not None:
            named = [name in tools for name, _ in CALLS]
            assert [done for done, allowed in zip(with_it, named, strict=True) if done and not allowed] == []


async def test_souls_as_the_seed_writes_them(own_profiles: Path, with_profile: WithProfile):
    (own_profiles / "safe_assistant.yaml").write_text(SEED)
    session, provider = with_profile("safe_assistant")
    seen = await turn(session)
    assert list(session.toolbox.tools) == ["read", "write"]
    assert json.loads(provider.sent[0].tools)[0]["function"]["name"] == "read"
    assert "limited system access" in session.upkeep.system
    assert session.meter.limits.max_turns == 10
    told = [event.text for event in seen if isinstance(event, events.Note)]
    assert len(told) == 2 and "echo" in told[0] and "--yes" in told[1]
    assert all(each.startswith("profile safe_assistant: ") for each in told)


async def test_souls_are_switched_in_a_session_without_losing_the_list(with_profile: WithProfile):
    session, _ = with_profile(None, limits=Limits(max_turns=15))
    before, tools = session.upkeep.system, list(session.toolbox.tools)
    await turn(session)
    said = list(session.messages)
    shown = await session.run_command("profile")
    assert [line.split()[0] for line in shown.splitlines() if line][:2] == ["profile", "explainer"]
    assert "now reviewer" in await session.run_command("profile", "reviewer")
    assert list(session.toolbox.tools) == ["read", "bash", "grep", "find"]
    await session.run_command("profile", "pair")
    assert list(session.toolbox.tools) == tools, "from what the session began with, not from the one before"
    assert session.meter.limits.max_turns == 15
    await session.run_command("profile", "safe")
    assert session.meter.limits.max_turns == 10
    assert session.policy.yes is False
    with pytest.raises(UsageError, match="no profile 'reviewr'"):
        await session.run_command("profile", "reviewr")
    assert list(session.messages) == said
    assert "no profile" in await session.run_command("profile", "none")
    assert (session.upkeep.system, session.policy.yes) == (before, True)
    assert list(session.toolbox.tools) == tools


async def test_souls_are_kept_by_the_export_and_taken_up_with_it(with_profile: WithProfile):
    session, _ = with_profile("safe")
    await turn(session)
    snapshot = from_json(to_json(Recorder().snapshot(session), mask=None))
    assert snapshot.profile == "safe"
    again, _ = with_profile(None)
    restore(again, snapshot)
    assert list(again.toolbox.tools) == ["read", "write", "edit", "grep", "find"]
    assert Recorder(snapshot).snapshot(again).profile == "safe"
    other, _ = with_profile("reviewer")
    restore(other, snapshot)
    assert Recorder(snapshot).snapshot(other).profile == "reviewer", "the user named it"
    lost, _ = with_profile(None)
    restore(lost, snapshot.replace(profile="gone"))
    seen = await turn(lost)
    told = [event.text for event in seen if isinstance(event, events.Note)]
    assert len(told) == 1
    assert "'gone'" in told[0]


async def test_an_import_does_not_lift_the_profile_that_the_user_switched_to(with_profile: WithProfile):
    wide, _ = with_profile("pair")
    await turn(wide)
    snapshot = Recorder().snapshot(wide)
    assert snapshot.profile == "pair"
    session, _ = with_profile(None)
    await session.run_command("profile", "reviewer")
    restore(session, snapshot)
    assert list(session.toolbox.tools) == ["read", "bash", "grep", "find"]
    assert (await session.run_command("profile")).startswith("profile reviewer")


async def test_it_survives_five_compactions_a_clear_and_another_model(with_profile: WithProfile):
    session, _ = with_profile("safe")
    before = (
        session.upkeep.system,
        list(session.toolbox.tools),
        session.meter.limits.max_turns,
    )
    await compact_five_times(session)
    session.clear()
    other = ScriptedProvider(model="scripted/other")
    session.models.switch(other)
    await turn(session)
    system, tools, most = before
    assert (session.upkeep.system, session.meter.limits.max_turns) == (system, most)
    assert [tool["function"]["name"] for tool in json.loads(other.sent[0].tools)] == [*tools, "recall"]
    assert session.policy.yes is False


def test_a_project_cannot_stand_in_for_a_profile_that_the_user_knows(
    tmp_path: Path, own_profiles: Path, with_profile: WithProfile
):
    theirs = tmp_path / ".codelet" / "profiles"
    theirs.mkdir(parents=True)
    for name in ("safe", "mine", "theirs"):
        (theirs / f"{name}.yaml").write_text("risk_tolerance: high\nmax_iterations: 99\n")
    (own_profiles / "mine.yaml").write_text("max_iterations: 3\n")
    (theirs / "passwd.yaml").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="--trust reads"):
        with_profile("theirs")
    assert with_profile("theirs", trust=True)[0].meter.limits.max_turns == 99
    assert with_profile("safe", trust=True)[0].meter.limits.max_turns == 10
    assert with_profile("mine", trust=True)[0].meter.limits.max_turns == 3
    with pytest.raises(UsageError, match=r"passwd\.yaml:1: leads out"):
        with_profile("passwd", trust=True)


async def test_an_agent_names_the_tools_that_some_sessions_have(own_profiles: Path, with_profile: WithProfile):
    (own_profiles / "helper.md").write_text("---\nname: helper\ntools: Read, WebFetch, Task, AskUserQuestion\n---\n")
    session, _ = with_profile("helper", web=True)
    assert list(session.toolbox.tools) == ["read", "fetch"] and not session.notices.take()
    (own_profiles / "other.md").write_text("---\nname: other\ndisallowedTools: Bash\n---\n")
    session, _ = with_profile("other", web=True)
    assert "fetch" in session.toolbox.tools and "bash" not in session.toolbox.tools


@pytest.mark.parametrize(
    ("front", "tools"),
    [
        ("tools: Read, Grep, WebFetch", ["read", "grep"]),
        ("tools: [Read, Bash]", ["read", "bash"]),
        ("tools:\n  write: false\n  edit: false\n  bash: true", ["read", "bash", "grep", "find"]),
        ("disallowedTools: Bash, Edit", ["read", "write", "grep", "find"]),
        ("tools: []", []),
        ("color: blue", [tool.name for tool in all_tools()]),
    ],
)
async def test_agents_of_other_tools_are_read(
    front: str, tools: list[str], own_profiles: Path, with_profile: WithProfile
):
    text = f"---\nname: helper\ndescription: helps\nmodel: sonnet\n{front}\n---\nYou help.\n"
    (own_profiles / "helper.md").write_text(text)
    session, _ = with_profile("helper")
    assert list(session.toolbox.tools) == tools
    assert session.upkeep.system.endswith("\n\nYou help.")


async def test_a_mode_of_elsewhere_only_takes_away(tmp_path: Path, own_profiles: Path, with_profile: WithProfile):
    (tmp_path / "a.txt").write_text("x\n")
    for mode, expected in (("plan", [True, True, False, True, True]), ("bypassPermissions", [True] * 5)):
        (own_profiles / "helper.md").write_text(f"---\nname: helper\npermissionMode: {mode}\n---\nYou help.\n")
        (tmp_path / "new.txt").unlink(missing_ok=True)
        session, provider = with_profile("helper", policy=Policy(tmp_path))
        done, asked = await ran(session, provider, [])
        assert done == expected
        assert "write" in asked, "mode ask is what the user asked for"


def test_the_shipped_ones_are_in_order(with_profile: WithProfile):
    for name in ("pair", "reviewer", "explainer", "safe"):
        session, _ = with_profile(name)
        assert len(session.upkeep.system) > 200
