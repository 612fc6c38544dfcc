"""Reminders and the meter through the whole program: one shot, terminal, resumed in another process."""

from __future__ import annotations

import json

import pytest

from tests.context.reminders.test_reminders import IN_FRONT, kinds, reminder
from tests.e2e.conftest import Codelet
from tests.e2e.test_export import keep, saved
from tests.support import repo as repositories
from tests.support.script import Call, Reply, Tokens

pytestmark = pytest.mark.needs("git")
IN_SUB = Call("s", "read", {"path": "sub/x.py"})
TOUCH = Call("t", "bash", {"command": "touch new.txt"})
WIDE = {"columns": 140, "rows": 45}


def test_a_one_shot_run_sees_its_own_changes(codelet: Codelet):
    codelet.server.script = [Reply(calls=[TOUCH]), Reply("done")]
    assert codelet("-p", "go", "--yes").exit == 0
    first, second = codelet.server.requests
    assert reminder(first, "gitStatus").endswith("clean")
    assert reminder(second, "gitStatus").endswith("?? new.txt")


def test_what_a_users_own_command_changed_is_in_the_next_request(codelet: Codelet):
    codelet.server.script = [Reply("one"), Reply("two")]
    with codelet.terminal(**WIDE) as terminal:
        terminal.line("first")
        terminal.wait_for("one")
        terminal.settle()
        terminal.line("!touch mine.txt")
        terminal.wait_for("1 output")
        terminal.line("second")
        terminal.wait_for("two")
    assert reminder(codelet.server.requests[1], "gitStatus").endswith("?? mine.txt")


def test_nested_instructions_reach_a_one_shot_run_and_the_run_that_resumes_it(codelet: Codelet):
    repositories.commit(codelet.cwd, {"CLAUDE.md": "ROOT", "sub/CLAUDE.md": "SUB", "sub/x.py": "x\n"})
    codelet.server.script = [Reply(calls=[IN_SUB]), Reply("done"), Reply("again"), Reply("more")]
    assert codelet("-p", "go", *keep("work.json")).exit == 0
    assert saved(codelet.cwd / "work.json")["touched_folders"] == ["sub"]
    assert codelet("-p", "on", *keep("work.json")).exit == 0
    assert codelet("-p", "on", *keep("work.json")).exit == 0
    first, second, third, fourth = codelet.server.requests
    assert "SUB" not in first.body.decode()
    assert reminder(second, "nestedClaudeMd").endswith("SUB")
    for request in (third, fourth):
        assert reminder(request, "claudeMd").endswith("SUB")
        assert request.body.decode().count("SUB") == 1


@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_prepended_reminders_stand_in_the_seeds_order(way: str, codelet: Codelet):
    repositories.commit(codelet.cwd, {"CLAUDE.md": "ROOT"})
    repositories.write(
        codelet.home, {".config/codelet/config.toml": 'reminders = "prepend"\n' if way == "file" else ""}
    )
    codelet.server.script = [Reply(calls=[TOUCH]), Reply("done")]
    flags = ["--reminders", "prepend"] if way == "flag" else []
    env = {"CODELET_REMINDERS": "prepend"} if way == "variable" else {}
    done = codelet("-p", "go", "--yes", *flags, env=env)
    assert done.exit == 0, done.err
    assert [kinds(request)[:5] for request in codelet.server.requests] == [[*IN_FRONT, "user"]] * 2
    refused = codelet("-p", "go", "--reminders", "middle")
    assert refused.exit == 2 and "tail" in refused.err


def test_a_project_cannot_choose_where_reminders_stand(codelet: Codelet):
    repositories.write(codelet.cwd, {".codelet/config.toml": 'reminders = "prepend"\n'})
    done = codelet("-p", "go", "--trust")
    assert done.exit == 2 and "'reminders'" in done.err


def test_row_and_listing_measure_against_the_budget_that_compaction_uses(codelet: Codelet):
    codelet.server.script = [Reply("done", usage=Tokens(19_990, output=10))]
    with codelet.terminal("--budget", "24000", **WIDE) as terminal:
        terminal.wait_for("% of 24k")
        terminal.line("go")
        terminal.wait_for("84% of 24k")
        assert "context 84% of 24k" in terminal.text
        terminal.settle()
        terminal.line("/context")
        terminal.wait_for("20k of 24k used, 84%")
        terminal.settle()
        terminal.line("/context all")
        shown = terminal.wait_for("of 24k, 84% (window")
        assert "128k, a guess" in shown, "nobody knows this model"
        assert "% of 128k" not in terminal.text


def test_the_usage_event_names_budget_and_window(codelet: Codelet):
    codelet.server.script = [Reply("done", usage=Tokens(1_000, output=10))]
    lines = codelet("-p", "go", "--budget", "24000", "--output-format", "stream-json").lines()
    usage = next(line for line in lines if line["type"] == "usage")
    assert (usage["budget"], usage["window"], usage["context"]) == (24_000, 128_000, 1_010)


def test_reminders_that_were_switched_off_stay_off_in_the_resumed_session(codelet: Codelet):
    codelet.server.script = [Reply("one"), Reply("two"), Reply("three")]
    with codelet.terminal(**WIDE) as terminal:
        terminal.line("first")
        terminal.wait_for("one")
        terminal.settle()
        terminal.line("/reminders environment off")
        terminal.wait_for("environment: off")
        terminal.settle()
        terminal.line("/export s.json")
        terminal.wait_for("saved in")
    with codelet.terminal("--resume", "s.json", **WIDE) as terminal:
        terminal.line("second")
        terminal.wait_for("two")
        terminal.settle()
        terminal.line("/reminders")
        terminal.wait_for(" off")
        assert any("environment" in line and "off" in line for line in terminal.text.splitlines()), terminal.text
    assert codelet("-p", "third", "--resume", "s.json").exit == 0
    first, second, third = codelet.server.requests
    assert reminder(first, "environment")
    assert not reminder(second, "environment") and not reminder(third, "environment")
    assert reminder(third, "tokenStatus")


def test_a_report_that_cannot_be_right_is_told_once(codelet: Codelet):
    repositories.write(codelet.cwd, {"long.txt": "some words here\n" * 1_500})
    look = Reply(calls=[Call("l", "read", {"path": "long.txt"})], usage=Tokens(10, output=5))
    codelet.server.script = [look, look, Reply("done", usage=Tokens(10, output=5))]
    done = codelet("-p", "go")
    assert done.exit == 0
    told = [line for line in done.complaints if "the provider counts" in line]
    assert len(told) == 1 and "is estimated instead" in told[0]


def test_a_saved_session_switches_no_instructions_off_and_the_user_sees_what_it_switches(codelet: Codelet):
    (codelet.cwd / "CLAUDE.md").write_text("Never deploy.\n")
    codelet.server.script = lambda request: Reply("ok")
    assert codelet("-p", "one", "--export", "s.json").exit == 0
    document = saved(codelet.cwd / "s.json")
    for off in (["claudeMd", "nestedClaudeMd"], ["claudeMd", "gitStatus", "unheard\x1bof"]):
        document["reminders_off"] = off
        (codelet.cwd / "theirs.json").write_text(json.dumps(document))
        done = codelet("-p", "two", "--resume", "theirs.json")
        assert done.exit == 0, done.err
        sent = codelet.server.requests[-1]
        assert "Never deploy." in reminder(sent, "claudeMd")
        assert ("gitStatus" in kinds(sent)) is ("gitStatus" not in off)
        told = [line for line in done.complaints if "reminders" in line or "claudeMd" in line]
        assert len(told) == (2 if "gitStatus" in off else 1), done.err
    document["reminders_off"] = []
    (codelet.cwd / "theirs.json").write_text(json.dumps(document))
    assert codelet("-p", "two", "--resume", "theirs.json").complaints == []


def test_instructions_that_the_user_switched_off_stay_off_in_that_session(codelet: Codelet):
    (codelet.cwd / "CLAUDE.md").write_text("Never deploy.\n")
    codelet.server.script = lambda request: Reply("ok")
    with codelet.terminal(**WIDE) as terminal:
        terminal.line("/reminders claudeMd off")
        terminal.settle()
        terminal.line("first")
        terminal.wait_for("ok")
    assert "claudeMd" not in kinds(codelet.server.requests[0])
