"""A plan from the program's outside: made, shown, approved, and there again in the next process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Codelet
from tests.e2e.test_export import keep, saved
from tests.support.script import Call, Reply

PLAN = "Goal: ship <b>it</b>\n[x] read the tests: 12\n[!] write the parser: no grammar\n[ ] publish"
SHOWN = "ship <b>it</b>\n1. [x] read the tests: 12\n2. [!] write the parser: no grammar\n3. [ ] publish\n"


def made(text: str = PLAN, **more: Any) -> Reply:
    return Reply(calls=[Call("p", "plan", {"plan": text})], **more)


def tail(codelet: Codelet) -> str:
    """What the last request ends with."""
    return str(codelet.server.requests[-1].json["messages"][-1])


def test_it_goes_on_in_another_process_with_another_model(codelet: Codelet) -> None:
    codelet.server.script = [made(), Reply("Planned."), Reply("On it.")]
    first = codelet("-p", "plan it", "--export", "work.json")
    assert (first.exit, first.out) == (0, "Planned.\n"), first.err
    assert "1 of 3" in first.err
    assert (codelet("-p", "/plan", "--resume", "work.json").out) == SHOWN
    again = codelet("-p", "and now?", *keep("work.json"), "--model", "openai/other")
    assert again.exit == 0, again.err
    assert "2. [!] write the parser: no grammar" in tail(codelet)
    edited = codelet("-p", "/plan add by hand", *keep("work.json"))
    assert edited.out == f"{SHOWN}4. [ ] by hand\n"
    assert saved(codelet.cwd / "work.json")["plan"]["steps"][3]["description"] == "by hand"
    wrong = codelet("-p", "/plan done 9", "--resume", "work.json")
    assert wrong.exit == 2 and "done 9" in wrong.err


@pytest.mark.parametrize("form", ["text", "json"])
def test_planning_first_without_anybody_to_ask_ends_with_the_plan(codelet: Codelet, form: str) -> None:
    text = "Goal: ship\n[ ] read\n[ ] write"
    codelet.server.script = [made(text), Reply("That is my plan.")]
    done = codelet("-p", "ship it", "--plan", "--output-format", form)
    assert done.exit == 0, done.err
    wanted = "That is my plan.\n\nship\n1. [ ] read\n2. [ ] write"
    assert (done.out.rstrip("\n") if form == "text" else done.lines()[-1]["result"]) == wanted
    assert "the plan tool" in str(codelet.server.requests[0].json["messages"])


def test_planning_first_changes_nothing_whatever_the_mode_allows(codelet: Codelet) -> None:
    calls = [
        Call("w", "write", {"path": "new.txt", "content": "x"}),
        Call("b", "bash", {"command": "touch other.txt"}),
        Call("l", "bash", {"command": "ls"}),
    ]
    codelet.server.script = [Reply(calls=calls), Reply("No plan.")]
    done = codelet("-p", "go", "--plan", "--mode", "auto-edit", "--allow", "bash(touch *)")
    assert (done.exit, done.out) == (6, "No plan.\n"), done.err
    assert not (codelet.cwd / "new.txt").exists() and not (codelet.cwd / "other.txt").exists()
    assert "approve the plan" in done.err


def test_what_was_refused_before_a_plan_was_approved_is_no_failure_of_the_run(codelet: Codelet) -> None:
    write = Call("w", "write", {"path": "new.txt", "content": "x"})
    for flags, exit_status in ((["--yes"], 0), (["--yes", "--deny", "write(new.txt)"], 6)):
        codelet.server.script = [Reply(calls=[write]), made("Goal: ship\n[>] write"), Reply(calls=[write]), Reply("ok")]
        codelet.server.requests.clear()
        done = codelet("-p", "go", "--plan", "--output-format", "json", *flags)
        assert done.exit == exit_status, done.err
        assert bool(done.json()["refused"]) == (exit_status == 6)
        assert (codelet.cwd / "new.txt").exists()
        assert len(codelet.server.requests) == 4


def test_in_the_terminal_the_user_approves_and_sees_how_far_it_is(codelet: Codelet) -> None:
    text = "Goal: ship\n[>] read\n[ ] write"
    codelet.server.script = [
        made(text),
        Reply(calls=[Call("w", "write", {"path": "new.txt", "content": "x"})]),
        made(text.replace("[>] read", "[x] read: fine")),
        Reply("Half of it."),
    ]
    with codelet.terminal("--plan", "--mode", "auto-edit") as terminal:
        terminal.wait_for("planning")
        terminal.line("ship it")
        terminal.wait_for("Approve this plan?")
        assert "[ ] write" in terminal.text
        terminal.settle()
        terminal.type("y")
        terminal.wait_for("Half of it.")
        terminal.wait_for("plan 1/2")
        assert "1. [x] read: fine" in terminal.text
    assert (codelet.cwd / "new.txt").read_text() == "x"


def test_it_stands_on_the_page(codelet: Codelet) -> None:
    codelet.server.script = [made(), Reply("Planned.")]
    with codelet.terminal() as terminal:
        terminal.line("plan it")
        terminal.wait_for("Planned.")
        terminal.settle()
        terminal.line("/export page.html")
        terminal.until((codelet.cwd / "page.html").exists, "the page")
    html = (codelet.cwd / "page.html").read_text()
    assert "Plan: ship &lt;b&gt;it&lt;/b&gt;" in html and "(Failed: no grammar)" in html


def test_what_is_not_used_is_not_imported(codelet: Codelet) -> None:
    codelet.server.script = [Reply("ok")]
    done = codelet("-p", "go", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.exit == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.err.splitlines() if "codelet.extensions." in line}
    assert loaded == {f"codelet.extensions.{name}" for name in ("base", "manifest")}


def test_a_rule_for_all_commands_leaves_those_that_read_what_they_are(codelet: Codelet) -> None:
    calls = [Call("r", "bash", {"command": "ls"}), Call("x", "bash", {"command": "touch made.txt"})]
    codelet.server.script = lambda request: Reply("done") if "tool_call_id" in str(request.json) else Reply(calls=calls)
    for flags in (["--allow", "bash"], ["--allow", "bash(ls *)"], []):
        done = codelet("-p", "go", "--plan", "--output-format", "json", *flags)
        refused: Any = done.json()["refused"]
        assert (done.exit, [about for about in refused if "ls" in about]) == (6, []), (flags, done.err)
        assert len(refused) == 1 and not (codelet.cwd / "made.txt").exists()


def test_a_command_that_only_reads_is_given_no_agent_that_holds_keys(codelet: Codelet, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "ls"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nenv\n")
    program.chmod(0o755)
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    agent = {"SSH_AUTH_SOCK": "/run/agent-of-the-user", "GPG_AGENT_INFO": "/run/gpg-of-the-user"}
    reads = Call("r", "bash", {"command": "ls"})
    runs = Call("x", "bash", {"command": "touch made; ls"})
    codelet.server.script = [Reply(calls=[reads, runs]), Reply("done")]
    done = codelet("-p", "go", "--allow", "bash", "--sandbox", "off", env=agent | path)
    assert done.exit == 0, done.err
    first, second = [each["content"] for each in codelet.server.requests[1].messages if each["role"] == "tool"]
    assert "PATH" in second and all(value in second for value in agent.values())
    assert all(value not in first for value in agent.values()), first
