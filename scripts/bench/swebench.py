"""Predictions for SWE-bench: one codelet run for each task, in a clone of the task's repository.

Use: python -m scripts.bench.swebench TASKS.jsonl --repos FOLDER --model M > predictions.jsonl
     then, with the package swebench and Docker: its own evaluation, with predictions.jsonl

TASKS.jsonl holds the data set's rows, one object a line, with `instance_id`, `repo`, `base_commit` and
`problem_statement`. FOLDER/OWNER__NAME is a clone of each repository; nothing in it is changed. A run that fails
gives the patch that it left, and its exit code on stderr. Arguments after `--` go to codelet.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROMPT = """\
Fix the issue below in this repository. Change the source, not the tests. Find out how the project runs its tests, \
and run those that cover your change.

{problem_statement}
"""


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout


def predict(task: dict[str, str], repos: Path, options: list[str], codelet: str = "codelet") -> dict[str, str]:
    """Run one task in a throw-away clone; the patch is what differs from the base commit afterwards."""
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "repo"
        git(repos, "clone", "-q", "--shared", str(repos / task["repo"].replace("/", "__")), str(clone))
        git(clone, "checkout", "-q", "--detach", task["base_commit"])
        command = [codelet, "-p", PROMPT.format(**task), "--mode", "auto", "--yes", *options]
        status = subprocess.run(command, cwd=clone, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode
        print(f"{task['instance_id']}: exit {status}", file=sys.stderr)
        git(clone, "add", "-A")
        patch = git(clone, "diff", "--cached", "--binary", task["base_commit"])
    return {"instance_id": task["instance_id"], "model_patch": patch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--repos", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--codelet", default="codelet", help="the program to run")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    chosen, options = parser.parse_args(sys.argv[1:at]), sys.argv[at + 1 :]
    for line in chosen.tasks.read_text(encoding="utf-8").splitlines():
        made = predict(json.loads(line), chosen.repos, ["--model", chosen.model, *options], chosen.codelet)
        print(json.dumps({**made, "model_name_or_path": f"codelet/{chosen.model}"}), flush=True)


if __name__ == "__main__":
    main()
