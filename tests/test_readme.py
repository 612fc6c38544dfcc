"""README.md and the help pages are promises: examples run, flags exist, figures come from scripts that exist."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from codelet import events
from codelet.frontends.parsers import build_parser
from tests.support import repo
from tests.support.program import environment
from tests.support.script import Call, Reply
from tests.support.server import ModelServer, Recorded, closed_port
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parent.parent
FILES = [ROOT / "README.md", *sorted((ROOT / "codelet" / "help").glob("*.md"))]
TEXTS = {path: path.read_text(encoding="utf-8") for path in FILES}
README = TEXTS[FILES[0]]
ALL = "\n".join(TEXTS.values())
BLOCKS = re.findall(r"```sh\n(.*?)```", ALL, flags=re.DOTALL)
EXAMPLES = dict.fromkeys(
    line for block in BLOCKS for line in block.splitlines() if line.startswith(("codelet ", "git diff | codelet "))
)
LARGEST_README = 9_000


def test_every_path_of_the_recipes_exists():
    text = (ROOT / "codelet" / "help" / "developing" / "recipes.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w/]+/[\w/]+\.py)`", text)
    assert len(paths) > 10
    assert [path for path in paths if not any((ROOT / top / path).exists() for top in ("", "codelet"))] == []


def answer(request: Recorded) -> Reply:
    """What the model says: that it found nothing, where a review asks."""
    return Reply('{"findings": []}' if b"<diff id=" in request.body else "Here you are.")


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_runs(line: str, tmp_path: Path):
    folder = repo.plain(tmp_path / "project", {"README.md": "a tpyo\n", "app.py": "print('hello')\n"})
    (folder / "app.py").write_text("print('hello!')\n")
    program = {"command": sys.executable, "args": [str(ROOT / "tests" / "support" / "mcp_server.py")]}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": {"issues": program}}))
    home = tmp_path / "home"
    home.mkdir()
    with ModelServer(answer) as server:
        line = re.sub(r"http://127\.0\.0\.1:\d+/v1", server.openai, line)
        line = re.sub(r"\bcodelet\b(?= )", f"{sys.executable} -m codelet", line, count=1)
        chosen = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted"}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=folder,
            env=environment(home, {"OPENAI_API_KEY": "test-key", **chosen}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    if " -p " in line:
        assert "Here you are." in done.stdout
        assert len(server.requests) == 1


PROGRAMS = re.findall(r"```python\n(.*?)```", ALL, flags=re.DOTALL)
CALLS = {
    "open_tickets": Call("c1", "open_tickets", {"team": "web"}),
    "HandsOff": Call("c1", "write", {"path": "migrations/1.sql", "content": "ALTER TABLE"}),
}


NOTEBOOK = """
import ast, asyncio, sys
code = compile(sys.stdin.read(), "notebook", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
asyncio.run(eval(code))
"""
"""Runs a cell as IPython does."""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: re.findall(r"import ([\w, ]+)", program)[-1])
def test_a_program_runs(program: str, tmp_path: Path):
    """As it stands there; the vendor's address is the server's, and the model calls what the program offers."""
    call = next((call for name, call in CALLS.items() if name in program), None)

    def script(request: Recorded) -> Reply:
        return Reply(calls=[call]) if call is not None and len(server.requests) == 1 else Reply("Here you are.")

    folder = repo.plain(tmp_path / "project", {"README.md": "a project\n"})
    before = sorted(path.name for path in folder.iterdir())
    home = tmp_path / "home"
    home.mkdir()
    with ModelServer(script) as server:
        variables = environment(home, {"ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": server.anthropic})
        if "serve_forever" in program:
            served(program, folder, variables)
            return
        in_notebook = re.search(r"^\w+ = await", program, flags=re.MULTILINE) is not None
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", NOTEBOOK if in_notebook else program],
            cwd=folder,
            env=variables,
            input=program if in_notebook else "",
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Here you are." in done.stdout or "Good morning." in done.stdout
    left = ["work.json"] if "work.json" in program else []
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, *left])
    sent = [str(request.json["messages"]) for request in server.requests]
    if "open_tickets" in program:
        assert "[open_tickets" in done.stdout and "Login fails" in sent[1] and len(sent) == 3
    if "HandsOff" in program:
        assert "fixes only" in sent[0] and "migrations are written by hand here" in sent[1]


def served(program: str, folder: Path, variables: dict[str, str]) -> None:
    """A server answers two requests at once, each with events as JSON lines."""
    port = closed_port()
    command = [sys.executable, "-W", "error", "-c", program.replace("8080", str(port))]
    with subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.PIPE) as running:
        try:
            with ThreadPoolExecutor() as pool:
                answers = list(pool.map(lambda _: until(lambda: answer_of(port), "an answer"), range(2)))
        finally:
            running.terminate()
        assert running.stderr is not None and running.stderr.read() == b""
    for answer in answers:
        lines = [json.loads(line) for line in answer.splitlines()]
        assert [lines[0]["type"], lines[-1]["type"], lines[-1]["reason"]] == ["turn_start", "turn_end", "done"]
        assert "".join(line.get("delta", "") for line in lines if line["type"] == "text") == "Here you are."


def answer_of(port: int) -> bytes:
    """What the server answers to a prompt; nothing while it does not listen."""
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}/", b"hello"), timeout=60) as answered:
            return bytes(answered.read())
    except URLError:
        return b""


def test_the_fields_of_events_are_all_named():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.*) \|$", ALL, flags=re.MULTILINE)
    listed = {(name, kind, *re.findall(r"`(\w+)`", fields)) for name, kind, fields in rows}
    kinds = [each for each in vars(events).values() if isinstance(each, type) and issubclass(each, events.Event)]
    known = {(each.__name__, each.type, *(f for f in each.fields if f not in each.internal)) for each in kinds}
    assert known - listed == {("Event", "")}


def _help(*command: str) -> str:
    shown = subprocess.run(
        [sys.executable, "-m", "codelet", *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    return shown.stdout


def test_every_flag_named_exists():
    outside = re.sub(r"<!-- test-command -->.*?<!-- /test-command -->", "", ALL, flags=re.DOTALL)
    outside = re.sub(r"`/[^`]*`", "", outside)  # commands of the REPL
    other_programs = ("harbor run", "python -m scripts.")
    lines = (line for line in outside.splitlines() if not line.startswith(other_programs))
    outside = "\n".join(line for line in lines if "pip install" not in line)
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", outside))
    commands = re.findall(r"^    ([a-z]+) ", _help(), flags=re.MULTILINE)
    known = build_parser().format_help() + "".join(_help(command) for command in commands)
    assert len(named) > 10
    assert sorted(flag for flag in named if flag not in known) == []


def test_the_types_of_events_are_all_named():
    listed = ALL.partition("An event's `type` is ")[2].partition("\n\n")[0]
    types = {each.type for each in vars(events).values() if isinstance(each, type) and issubclass(each, events.Event)}
    assert set(re.findall(r"`(\w+)`", listed)) == types - {""}


def test_every_script_named_exists():
    for module in re.findall(r"python -m (scripts[\w.]+)", ALL):
        assert (ROOT / (module.replace(".", "/") + ".py")).is_file(), module
    for name in re.findall(r"\b(scripts/\w+|\.ci/run)\b", ALL):
        assert (ROOT / name).exists(), name


def anchors(text: str) -> set[str]:
    """The anchors that a forge makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path):
    text = re.sub(r"```.*?```", "", TEXTS[path], flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)\"", text)
    for target in (inline or attribute for inline, attribute in targets):
        name, _, anchor = target.partition("#")
        if name.startswith("https://"):
            continue
        file = (path.parent / name).resolve() if name else path
        assert file.is_file(), target
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), target


def test_the_readme_is_short_and_names_every_page():
    assert len(README.encode()) <= LARGEST_README
    assert [path.name for path in FILES[1:] if f"(codelet/help/{path.name})" not in README] == []


def test_the_gate_runs_the_command_of_the_readme():
    command = re.search(r"<!-- test-command -->\n```sh\n(.*?)\n```\n<!-- /test-command -->", README, flags=re.DOTALL)
    assert command is not None
    assert "scripts/test" in command[1]
    assert "test-command" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
