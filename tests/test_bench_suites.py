"""What the pages for other suites make of a session: a trajectory in ATIF, and predictions for SWE-bench."""

# near: scripts/bench

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from scripts.bench.atif import trajectory
from tests.support import repo
from tests.support.program import ROOT, environment, run
from tests.support.script import Call, Reply
from tests.support.server import ModelServer

READ = Call("call-read", "read", {"path": "cart.py"})
FIX = Call("call-fix", "edit", {"path": "cart.py", "old_text": "1", "new_text": "2"})
STEPS = [Reply("Looking.", calls=[READ]), Reply(calls=[FIX]), Reply("Fixed.")]


def exported(tmp_path: Path, steps: list[Reply]) -> dict[str, object]:
    workspace = repo.plain(tmp_path / "shop", {"cart.py": "total = 1\n"})
    export = tmp_path / "session.json"
    with ModelServer(steps) as server:
        arguments = ["-p", "fix the total", "--model", "openai/scripted", "--api-base", server.openai, "--yes"]
        done = run(*arguments, "--export", str(export), "--export-archive", cwd=workspace)
    assert done.exit == 0, done.err
    return json.loads(export.read_text())


def test_a_trajectory_has_a_step_for_each_message_and_results_at_their_calls(tmp_path: Path):
    made = trajectory(exported(tmp_path, STEPS), "1.2.3")
    assert [step["step_id"] for step in made["steps"]] == list(range(1, len(made["steps"]) + 1))
    assert made["agent"] == {"name": "codelet", "version": "1.2.3", "model_name": "openai/scripted"}
    assert [step["message"] for step in made["steps"] if step["source"] == "user"] == ["fix the total"]
    reading, fixing, last = [step for step in made["steps"] if step["source"] == "agent"]
    assert reading["tool_calls"] == [
        {"tool_call_id": READ.id, "function_name": "read", "arguments": {"path": "cart.py"}}
    ]
    assert [result["source_call_id"] for result in fixing["observation"]["results"]] == [FIX.id]
    assert last["message"] == "Fixed." and last["metrics"]["prompt_tokens"] == 100
    assert made["final_metrics"]["total_prompt_tokens"] == 300
    assert "notes" not in made


def test_a_call_without_valid_arguments_still_makes_a_valid_step(tmp_path: Path):
    steps = [Reply(calls=[Call("call-1", "read", "{broken")]), Reply("It failed.")]
    made = trajectory(exported(tmp_path, steps))
    (call,) = [call for step in made["steps"] for call in step.get("tool_calls", ())]
    assert isinstance(call["arguments"], dict)


def test_a_prediction_is_the_patch_of_a_clone_and_leaves_the_clones_of_others(tmp_path: Path):
    source = repo.plain(tmp_path / "repos" / "acme__shop", {"cart.py": "total = 1\n"})
    base = repo.git(source, "rev-parse", "HEAD").strip()
    task = {"instance_id": "acme__shop-1", "repo": "acme/shop", "base_commit": base, "problem_statement": "Wrong total"}
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps(task) + "\n")
    with ModelServer(STEPS) as server:
        command = [sys.executable, "-m", "scripts.bench.swebench", str(tasks), "--repos", str(tmp_path / "repos")]
        command += ["--codelet", str(Path(sys.executable).parent / "codelet"), "--model", "openai/scripted"]
        command += ["--", "--api-base", server.openai]
        home = environment(tmp_path / "home")
        done = subprocess.run(command, cwd=ROOT, env=home, capture_output=True, text=True, timeout=120, check=False)
    prediction = json.loads(done.stdout)
    assert prediction["instance_id"] == task["instance_id"]
    assert prediction["model_name_or_path"] == "codelet/openai/scripted"
    assert (source / "cart.py").read_text() == "total = 1\n"
    subprocess.run(["git", "apply", "-"], cwd=source, input=prediction["model_patch"], text=True, check=True)
    assert (source / "cart.py").read_text() == "total = 2\n"
    assert "Wrong total" in server.requests[0].body.decode()
