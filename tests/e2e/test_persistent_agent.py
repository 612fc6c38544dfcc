"""A persistent agent, as its request flow is told: nine steps a request, each from its own process, and a hot restart.

It begins with the context of an agent without versions. Each request loads it, compacts, looks at the machine, appends
the prompt, asks the model until it calls no more tools, brings the context up to date and saves it, under its lock.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.e2e.conftest import KEYS, Codelet
from tests.e2e.test_export import left_over, saved
from tests.e2e.test_export_loop import older_context
from tests.support.program import CODELET, Finished, environment, processes_with
from tests.support.script import Call, Reply, Stop
from tests.support.server import Recorded
from tests.support.waiting import until

SOUL = """\
id: keeper
system_prompt: |
  You keep this project in order.
config:
  allowed_tools: [file_read, file_write, grep, bash]
  autonomy_mode: auto
  max_iterations: 10
  risk_tolerance: medium
  verbosity: normal
"""
LOOP = ("--compact-entries", "50", "--keep-last", "5", "--environment", "full", "--mode", "auto-edit")
WATCH = f"sleep 600.{os.getpid()}"
RULES = ("--allow", "bash(sleep *)", "--deny", "bash(git push *)")
PLAN = "[x] set it up: in March\n[!] test it: there are no tests\n[ ] tidy up"


def request(codelet: Codelet, prompt: str, *more: str, target: str = "work.json") -> Finished:
    """One request to the agent, in a process of its own."""
    return codelet("-p", prompt, "--resume", target, "--export", target, "--narrative=off", *LOOP, *RULES, *more)


def reminded(request: Recorded, kind: str) -> str:
    """What a request's reminder of that type says; empty where it has none."""
    for message in request.messages:
        for part in str(message["content"]).split("<system-reminder>"):
            if part.startswith(f"\n<!-- type:{kind} -->"):
                return part
    return ""


def own_soul(codelet: Codelet) -> None:
    folder = codelet.home / ".config" / "codelet" / "profiles"
    folder.mkdir(parents=True)
    (folder / "keeper.yaml").write_text(SOUL)


def test_a_migrated_context_is_in_force(codelet: Codelet):
    """Facts, plan, tasks and summary of an agent without versions are what the model is told, not only what is kept."""
    older_context(codelet.cwd / "work.json", entries=4, size=200)
    codelet.server.script = lambda asked: Reply("ok")
    assert request(codelet, "what is next?").exit == 0
    (asked,) = codelet.server.requests
    assert '- "python is 3.11"\n- "tabs, please"' in reminded(asked, "facts")
    plan = "keep the project in order\n1. [x] set it up: in March\n2. [>] test it\n"
    assert plan in reminded(asked, "plan")
    assert "%running for days interrupted" in reminded(asked, "tasks")
    assert any("Older: the project was set up." in str(message["content"]) for message in asked.messages)
    steps = saved(codelet.cwd / "work.json")["plan"]["steps"]
    assert [(step["status"], step["result"]) for step in steps] == [("Completed", "in March"), ("InProgress", None)]


def test_the_request_flow_in_nine_steps(codelet: Codelet):
    own_soul(codelet)
    path = codelet.cwd / "work.json"
    older_context(path, entries=61, size=200)
    rivals: list[Finished] = []

    def script(asked: Recorded) -> Reply:
        if asked.number == 0:
            rivals.append(request(codelet, "me too"))
            return Reply(
                calls=[
                    Call("a", "remember", {"fact": "app.py prints hello", "key": "app"}),
                    Call("b", "read", {"path": "missing.py"}),
                    Call("c", "write", {"path": "test.txt", "content": "made\n"}),
                    Call("d", "plan", {"plan": PLAN}),
                    Call("e", "bash", {"command": WATCH, "background": True}),
                    Call("f", "bash", {"command": "git push origin"}),
                ]
            )
        return Reply(f"Answer {asked.number}.")

    codelet.server.script = script
    done = request(codelet, "Create a file named test.txt", "--profile", "keeper")
    assert (done.exit, done.out) == (6, "Answer 1.\n"), f"one call was refused: {done.err}"
    first, second = codelet.server.requests[:2]
    document = saved(path)

    # 1. Acquire the lock for the session: a second request is told who has it, and asks no model.
    assert rivals[0].exit == 2 and "in use" in rivals[0].err
    # 2. Load the context: its facts and its plan are in force, its summary and its history stand in the list.
    assert '- "python is 3.11"\n- "tabs, please"' in reminded(first, "facts")
    assert "2. [>] test it" in reminded(first, "plan")
    assert any("Older: the project was set up." in str(message["content"]) for message in first.messages)
    # 3. Compact: more than 50 entries became a summary; facts stand once, a task of the day before yesterday is gone.
    assert any("<compacted turns=" in str(message["content"]) for message in first.messages)
    assert document["facts"] == ["python is 3.11", "tabs, please", "app.py prints hello"]
    assert "done long ago" not in [task["id"] for task in document["active_tasks"]]
    assert document["metrics"]["compactions"] == 1
    # 4. Capture the environment, in a line of the request.
    assert "memory" in reminded(first, "machine")
    # 5. Append the user's message.
    assert "Create a file named test.txt" in str(first.messages[-1]["content"])
    # 6. The loop: the soul's prompt and tools, calls run, their results go back, until there are no more calls.
    names = [tool["function"]["name"] for tool in first.json["tools"]]
    assert {"read", "write", "grep", "bash"} <= set(names)
    assert {"edit", "find"}.isdisjoint(names)
    assert "You keep this project in order." in first.messages[0]["content"]
    assert (codelet.cwd / "test.txt").read_text() == "made\n"
    assert "app.py prints hello" in reminded(second, "facts")
    assert "there are no tests" in reminded(second, "plan"), "a plan is revised where a step fails"
    assert "%1 running for " in reminded(second, "tasks")
    # 7. Update the context: history, tool statistics, token usage, environment, plan, tasks, approvals.
    assert document["recent_history"][-1]["content"] == "Answer 1."
    assert document["tool_stats"] == {
        "total_calls": 10,
        "by_tool": {"read": 5, "remember": 1, "write": 1, "plan": 1, "bash": 2},
        "failures": 1,
    }
    assert document["metrics"]["by_tool"]["read"]["failures"] == 1
    assert document["token_usage"]["turns"] > 0
    assert document["last_known_environment"]["memory_total_mb"] > 0
    assert [step["status"] for step in document["plan"]["steps"]] == ["Completed", "Failed", "Pending"]
    assert document["active_tasks"][-1]["command"] == WATCH
    assert [(row["about"], row["outcome"]) for row in document["approvals"]] == [("bash git push origin", "denied")]
    # 8. Save it, whole, with the active soul's name.
    assert (document["session_id"], document["profile"]) == ("user-1", "keeper")
    # 9. Release the lock: nothing is left beside the file, no process runs on, and the next request gets it.
    assert left_over(codelet.cwd) == []
    assert f"stopped background task 1: {WATCH}" in done.err
    until(lambda: not processes_with(WATCH.split()[1]), "the end of the task")

    again = request(codelet, "and then?")
    assert (again.exit, again.out) == (0, "Answer 2.\n"), again.err
    third = codelet.server.requests[2]
    assert "You keep this project in order." in third.messages[0]["content"], "the soul is the session's"
    assert "- [app] app.py prints hello" in reminded(third, "facts")
    assert "there are no tests" in reminded(third, "plan")
    assert f"%1 interrupted: {WATCH}" in reminded(third, "tasks")
    after = saved(path)
    assert after["metrics"]["requests"] == document["metrics"]["requests"] + 1
    assert after["approvals"] == document["approvals"]


def test_a_hot_restart_in_the_middle_of_a_request(codelet: Codelet):
    """Killed while the model answers, it is taken up where it stood: list, facts, plan, tasks, soul, statistics."""
    own_soul(codelet)
    path = codelet.cwd / "work.json"
    older_context(path, entries=4, size=200)
    calls = [
        Call("a", "remember", {"fact": "the answer is 42"}),
        Call("b", "plan", {"plan": PLAN}),
        Call("c", "bash", {"command": WATCH, "background": True}),
    ]
    codelet.server.script = [Reply(calls=calls), Reply("begun", fault=Stop("stall", after=1))]
    words = ["-p", "work", "--resume", "work.json", "--export", "work.json", *LOOP, *RULES, "--profile", "keeper"]
    child = subprocess.Popen(
        [*CODELET, *codelet.arguments, *words],
        cwd=codelet.cwd,
        env=environment(codelet.home, KEYS),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: "the answer is 42" in saved(path).get("facts", []), "the save after the first step")
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    codelet.server.script = lambda asked: Reply("Here again.")
    again = request(codelet, "continue")
    assert (again.exit, again.out) == (0, "Here again.\n"), again.err
    taken_up = codelet.server.requests[-1]
    assert "the answer is 42" in reminded(taken_up, "facts")
    assert "tabs, please" in reminded(taken_up, "facts")
    assert "there are no tests" in reminded(taken_up, "plan")
    assert f"%1 interrupted: {WATCH}" in reminded(taken_up, "tasks")
    assert "You keep this project in order." in taken_up.messages[0]["content"]
    assert [message["role"] for message in taken_up.messages[-4:]] == ["assistant", "tool", "tool", "tool"]
    assert saved(path)["metrics"]["by_tool"]["remember"]["calls"] == 1
    until(lambda: not processes_with(WATCH.split()[1]), "the end of the task")


def test_the_repl_is_such_an_agent_too(codelet: Codelet):
    """`#` keeps a fact, `/facts`, `/profile`, `/stats` and `/env` work between turns, and nothing is written."""
    codelet.server.script = lambda asked: Reply(f"Answer {asked.number}.")
    with codelet.terminal(columns=100, rows=40) as terminal:
        terminal.line("#[style] tabs, please")
        terminal.wait_for("kept: [style] tabs, please")
        terminal.settle(0.15)
        terminal.line("/profile explainer")
        terminal.wait_for("now explainer")
        terminal.settle(0.15)
        terminal.line("what is it?")
        terminal.wait_for("Answer 0.")
        terminal.settle(0.15)
        terminal.line("/facts")
        terminal.wait_for("1  [style] tabs, please  (you)")
        terminal.settle(0.15)
        terminal.line("/stats")
        terminal.wait_for("1 answered request,")
        terminal.settle(0.15)
        terminal.line(" # a heading for the model")
        terminal.wait_for("Answer 1.")
        terminal.settle(0.15)
        terminal.line("/exit")
        assert terminal.wait_exit() == 0
    first, second = codelet.server.requests
    assert "The user noted:\n- [style] tabs, please" in reminded(first, "facts")
    assert "You are explaining" in first.messages[0]["content"]
    assert "# a heading for the model" in str(second.messages)
    assert left_over(codelet.cwd) == []


def test_facts_files_and_memory_from_the_command_line(codelet: Codelet, tmp_path: Path):
    facts = tmp_path / "team.facts"
    assert codelet("-p", "/facts add deploys go out on Fridays", "--facts", str(facts)).exit == 0
    codelet.server.script = lambda asked: Reply(
        "ok", calls=[Call("a", "search_sessions", {"words": "hello"})] if asked.number == 1 else []
    )
    saved_in = tmp_path / "old"
    saved_in.mkdir()
    assert codelet("-p", "say hello", "--export", str(saved_in / "one.json")).exit == 0
    done = codelet("-p", "when are deploys?", "--facts", str(facts), "--memory", str(saved_in))
    assert done.exit == 0, done.err
    second, third = codelet.server.requests[1:]
    assert '- "deploys go out on Fridays"' in reminded(second, "facts")
    assert "[one.json, turn 1, message 1, user] say hello" in json.dumps(third.messages)
    assert [path.name for path in sorted(tmp_path.glob("*.facts*"))] == ["team.facts"]
    wrong = codelet("-p", "go", "--memory", str(tmp_path / "nowhere"))
    assert (wrong.exit, "folder" in wrong.err) == (2, True)
    assert codelet("-p", "go", "--facts", str(saved_in / "one.json")).exit == 2
