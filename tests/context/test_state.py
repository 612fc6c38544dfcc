"""Ten sessions that really happen, in a real repository: whatever `[state]` says of them is checked against it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from codelet.context.compaction.engine import compact
from codelet.context.compaction.segments import parse_segment
from codelet.context.tokens import estimate_message
from codelet.loop.session import Session
from codelet.messages import kind_of, text_of
from codelet.safety import Policy
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.support.repo import git, write

Step = tuple[str, dict[str, Any]]
CODE = "\n".join(f"def func_{n}(arg_{n}): return value_{n}" for n in range(120))
TEST = (
    "import sys\nfrom calc import add\nok = add(2, 2) == 4\nprint('1 passed' if ok else '1 failed')\nsys.exit(not ok)\n"
)
FILES = {"big.py": CODE, "calc.py": "def add(a, b):\n    return a - b\n", "test_calc.py": TEST, ".gitignore": "__py*\n"}


def sh(command: str, **more: object) -> Step:
    return "bash", {"command": command, **more}


def put(path: str, content: str = "x = 1\n") -> Step:
    return "write", {"path": path, "content": content}


def edit(path: str, old: str, new: str) -> Step:
    return "edit", {"path": path, "edits": [{"old": old, "new": new}]}


def plan(*steps: str) -> Step:
    return "plan", {"plan": "\n".join(["# Move", *(f"- {step}" for step in steps)])}


READ: Step = ("read", {"path": "calc.py"})
# Prompt, steps, and words that `[state]` must have if it has the room.
SESSIONS: dict[str, tuple[str, list[Step], list[str]]] = {
    "a shell that commits, removes and moves": (
        "Räume das Repo auf.",
        [
            put("tmp.py"),
            sh("rm tmp.py"),
            sh("git mv calc.py lib.py"),
            sh("git commit -qam 'Rename calc'"),
            sh("git commit --allow-empty -m 'Nothing in it'"),
        ],
        [
            "deleted tmp.py",
            "Nothing in it",
            "`git mv calc.py lib.py`: exit 0",
            "`git commit -qam 'Rename calc'`: exit 0",
        ],
    ),
    "tests that fail, then pass": (
        "make the tests pass",
        [
            sh("python3 -B test_calc.py"),
            READ,
            edit("calc.py", "a - b", "a + b"),
            sh("python3 -B test_calc.py | tail -3"),
            sh("python3 -B test_calc.py"),
        ],
        ["exit 0, 1 passed (before, at t1: exit 1, 1 failed)", "wrote calc.py"],
    ),
    "an edit that is undone": (
        "try multiply",
        [
            READ,
            edit("calc.py", "a - b", "a + b"),
            sh("python3 -B test_calc.py"),
            edit("calc.py", "a + b", "a * b + 1"),
            sh("python3 -B test_calc.py; true"),
            sh("git checkout calc.py"),
        ],
        ["1 failed"],
    ),
    "files removed in folders": (
        "nettoie le dossier sub",
        [
            put("sub/a.py"),
            put("a.py"),
            sh("cd sub && rm a.py"),
            sh("rm -f nothing.txt"),
            put("d/x.py"),
            put("d/y.py"),
            sh("rm -r d"),
            put("e/z.py"),
            sh("rm e/*.py"),
        ],
        ["deleted d", "`cd sub && rm a.py`: exit 0"],
    ),
    "files that commands write": (
        "replace names",
        [
            put("conf.toml", "port = 1\n"),
            sh("sed -i s/1/2/ conf.toml"),
            sh("printf 'z\\n' > out.txt && cat out.txt"),
            sh("mv conf.toml conf2.toml"),
        ],
        ["`mv conf.toml conf2.toml`: exit 0"],
    ),
    "calls that are denied or fail": (
        "push it",
        [
            sh("git push origin main"),
            put("../outside.py"),
            put("secret/x.py"),
            edit("calc.py", "nothing like it", "y"),
            ("read", {"path": "missing.py"}),
            sh("exit 3"),
            sh("false || true"),
        ],
        ["`exit 3`: exit 3"],
    ),
    "tasks in the background": (
        "start the server",
        [sh("sleep 30", background=True), sh("sleep 0.1; echo 3 passed", background=True), sh("wait 2"), sh("kill 1")],
        ["`sleep 30`: "],
    ),
    "a step that is open again": (
        "计划一下，然后移动它。",
        [
            plan("[x] Read the code", "[ ] Move it"),
            plan("[x] Read the code", "[x] Move it"),
            put("moved.py"),
            plan("[x] Read the code", "[ ] Move it"),
        ],
        ["step done: Read the code", "wrote moved.py"],
    ),
    "time limits and pipes": (
        "run what is slow",
        [
            sh("sleep 5", timeout=1),
            sh("python3 -B test_calc.py | tail -1 | cat"),
            sh("set -e; echo hi; false; echo no"),
            sh("echo 'ok 5 passed' && exit 1"),
            sh("BACKEND=none false"),
            sh("BACKEND=some true"),
        ],
        ["`sleep 5`: ", "exit 1|0|0, 1 failed", "`BACKEND=none false`: exit 1"],
    ),
    "one file in many ways": (
        "ファイルを直して",
        [
            put("app/x.py", "v = 1\n"),
            sh("git add -A && git commit -m 'Add x' && rm app/x.py"),
            sh("git checkout -- app/x.py"),
            ("read", {"path": "app/x.py"}),
            edit("app/x.py", "v = 1", "v = 2"),
            sh("git stash"),
            put("app/y.py"),
            sh("rm app/y.py; echo gone"),
            put("app/z.py"),
            sh("git clean -fdq"),
        ],
        ["Add x"],
    ),
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    write(folder, FILES)
    for arguments in (["init", "-qb", "main"], ["config", "user.name", "T"], ["config", "user.email", "t@example.org"]):
        git(folder, *arguments)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "start")
    return folder


async def played(session: Session, provider: ScriptedProvider, prompt: str, steps: list[Step]) -> None:
    """Play a turn with these steps, and after it three that only read."""
    provider.answers.extend(Answer("On it.", [step]) for step in steps)
    await turn(session, prompt)
    for number in range(3):
        look: Step = ("read", {"path": "big.py", "offset": 1 + number, "limit": 100})
        provider.answers.extend([Answer("Reading on.", [look]), Answer("Read.")])
        await turn(session, "go on")


def untrue(line: str, session: Session, folder: Path, open_steps: str) -> bool:
    """Return whether a line of `[state]` is untrue, or is so by now."""
    if ran := re.fullmatch(r"t(\d+) ran `(.*?)`: (.*)", line):
        return not was_so(ran[2], ran[3].partition(" (before")[0], session)
    if commit := re.fullmatch(r"t\d+ committed (\w+) (.*)", line):
        return f"{commit[1]} {commit[2]}" not in git(folder, "log", "--all", "--format=%h %s")
    if step := re.fullmatch(r"t\d+ step done: (.*)", line):
        return f"[ ] {step[1]}" in open_steps
    file = re.fullmatch(r"t\d+ (wrote|deleted) (.*)", line)
    assert file, line
    return (folder / file[2]).exists() == (file[1] == "deleted")


def was_so(command: str, told: str, session: Session) -> bool:
    """Return whether the last call of this command or tool ended so."""
    records = [
        each
        for each in session.conversation.calls
        if command in each.commands or any(ran.startswith(f"{command} | ") for ran in each.commands)
    ]
    if not records:
        called = [each for each in session.conversation.calls if f"{each.tool} {each.title}" == command]
        return bool(called) and (called[-1].status == "failed") == told.startswith("failed: ")
    ended = records[-1].ended
    if ended is None:
        return told.endswith("not known")
    codes = "|".join(map(str, ended.pipeline if any(ended.pipeline or ()) else [ended.code]))
    result = next(text_of(m) for m in session.messages if m.get("tool_call_id") == records[-1].id)
    exit_told, _, quoted = told.partition(", ")
    right = exit_told == f"exit {codes}" if ended.code is not None else exit_told.endswith("time limit")
    return right and quoted in result


@pytest.mark.parametrize("name", SESSIONS)
async def test_nothing_in_state_is_untrue(name: str, work: Path):
    prompt, steps, said = SESSIONS[name]
    provider = ScriptedProvider(window=200_000)
    policy = Policy(work, yes=True, deny=["bash(git push *)", "write(secret/**)"])
    session = Session(provider, workspace=work, policy=policy, window=200_000, bare=True)
    try:
        await played(session, provider, prompt, steps)
        plans = [arguments["plan"] for tool, arguments in steps if tool == "plan"]
        body, records = list(session.conversation.body), {each.id: each for each in session.conversation.calls}
        size = sum(map(estimate_message, body))
        for share in (50, 25, 12, 6):
            made: list[Any] = body
            for _ in range(2):  # again: the lines of a summary are parsed
                made = compact(made, size * share // 100, records=records).messages
                state = [line for m in made if kind_of(m) == "segment" for line in parse_segment(text_of(m)).state]
                assert [line for line in state if untrue(line, session, work, "".join(plans[-1:]))] == []
                assert share < 50 or [words for words in said if words not in "\n".join(state)] == []
    finally:
        await session.close()
