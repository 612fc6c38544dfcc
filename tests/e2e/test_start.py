"""What a one-shot run loads and costs up to its first request, and how big that request is."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pexpect
import pytest

from scripts.bench.prompt_size import tokens
from tests.e2e.conftest import KEYS, Codelet
from tests.support.program import ROOT, Finished, run
from tests.support.script import Call, Reply
from tests.support.server import Recorded
from tests.support.waiting import Neighbour, until

# No module of codelet is touched: the interpreter itself is asked, at its start, to write down what it has
# loaded when the server says that the request is there.
SITE = """
import os, signal, sys

def write_down(number, frame):
    with open(os.environ["LOADED"], "w") as file:
        file.write("\\n".join(sys.modules))
    os.rename(os.environ["LOADED"], os.environ["LOADED"] + ".done")

signal.signal(signal.SIGUSR1, write_down)
with open(os.environ["LOADED"] + ".pid", "w") as file:
    file.write(str(os.getpid()))
"""
STARTED = """
import os, sys

def note(event, arguments):
    if event == "subprocess.Popen":
        loaded = " ".join(f"{name}={name in sys.modules}" for name in ("argparse", "asyncio"))
        with open(os.environ["STARTED"], "a") as file:
            file.write(f"{os.path.basename(arguments[0])} {loaded}\\n")

sys.addaudithook(note)
"""
HEAVY = ("litellm", "openai", "tiktoken", "prompt_toolkit", "rich", "git", "pydantic", "msgspec", "psutil")
SWITCHED_ON = ("codelet.loop.beside", "codelet.frontends.acp", "codelet.extensions.web", "html")
"""What only an option, or a command, needs."""
HEAVY_TOO = ("tree_sitter", "pathspec", "httpx", "requests", "aiohttp", "numpy", "yaml", "jinja2")
MOST_MODULES = 62
"""Modules of codelet, packages included, that may be loaded before the first request leaves."""


@pytest.mark.parametrize("extra", [[], ["--output-format", "stream-json"], ["--yes", "--timeout", "20"]])
def test_no_heavy_module_is_loaded_when_the_first_request_has_left(
    codelet_on_each_wire: Codelet, tmp_path: Path, extra: list[str]
):
    (codelet_on_each_wire.cwd / "CLAUDE.md").write_text("Be brief.\n")
    loaded = {name.partition(".")[0] for name in loaded_at_the_request(codelet_on_each_wire, tmp_path, *extra)}
    assert "codelet" in loaded
    assert loaded.isdisjoint(HEAVY + HEAVY_TOO), loaded & {*HEAVY, *HEAVY_TOO}


def test_nothing_of_what_is_off_is_loaded_or_sent(codelet: Codelet, tmp_path: Path):
    loaded = loaded_at_the_request(codelet, tmp_path)
    assert not [name for name in loaded if name.startswith(SWITCHED_ON)]
    sent = {each["function"]["name"] for each in codelet.server.requests[-1].json["tools"]}
    assert sent.isdisjoint({"task", "fetch", "ask_user", "skill"})
    codelet.server.on_request, codelet.server.script = lambda request: None, [Reply("ok")] * 2
    assert codelet("-p", "hi", "--agents").exit == 0
    assert "task" in {each["function"]["name"] for each in codelet.server.requests[-1].json["tools"]}


def test_few_modules_are_loaded_before_the_first_request_leaves(codelet_on_each_wire: Codelet, tmp_path: Path):
    """h11, which reads the answer, is imported once the request is on its way: what comes behind it does not count."""
    loaded = loaded_at_the_request(codelet_on_each_wire, tmp_path)
    before = loaded[: loaded.index("h11")] if "h11" in loaded else loaded
    own = [name for name in before if name.partition(".")[0] == "codelet"]
    assert "codelet.loop.session" in own
    assert len(own) <= MOST_MODULES, own


def test_git_is_asked_before_the_heavy_imports(codelet: Codelet, tmp_path: Path):
    """The interpreter is asked what it has loaded when the first child is started."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(STARTED)
    environment = {"PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}", "STARTED": str(tmp_path / "started")}
    codelet.server.script = [Reply("ok")]
    assert codelet("-p", "go", env=environment).exit == 0
    first, *others = (tmp_path / "started").read_text().splitlines()
    assert first == "git argparse=False asyncio=False"
    assert others == [], "its answer is used: nothing is asked twice"


def loaded_at_the_request(codelet: Codelet, tmp_path: Path, *extra: str) -> list[str]:
    """The modules that a one-shot run has loaded when its first request is there, in that order."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    note = tmp_path / "loaded"
    finished = note.with_suffix(".done")

    def look(request: Recorded) -> None:
        os.kill(int(note.with_suffix(".pid").read_text()), signal.SIGUSR1)
        until(finished.exists)

    codelet.server.on_request = look
    codelet.server.script = [Reply("ok")]
    environment = {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "LOADED": str(note)}
    done = codelet("-p", "go", *extra, env=environment)
    assert done.exit == 0, done.err
    return finished.read_text().split()


def test_the_prompt_needs_nothing_that_draws_turns(tmp_path: Path):
    """rich and what reads Markdown are imported behind the prompt: together they take half as long as all before it."""
    modules = ("run", "repl", "slash_commands.command_list", "export_log")
    imports = "; ".join(f"import codelet.frontends.terminal.{name}" for name in modules)
    code = f"import sys; {imports}; print(*sys.modules, sep='\\n')"
    done = run("-c", code, cwd=tmp_path, home=tmp_path, command=(sys.executable,))
    assert done.exit == 0, done.err
    loaded = done.out.split()
    assert "prompt_toolkit" in loaded
    assert {"rich.console", "rich.text", "markdown_it", "pygments"}.isdisjoint(loaded)


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_version_and_help_load_next_to_nothing(tmp_path: Path, flag: str):
    command = (sys.executable, "-X", "importtime", "-m", "codelet")
    done = run(flag, cwd=tmp_path, home=tmp_path, command=command)
    assert done.exit == 0
    assert done.out.strip()
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.err.splitlines()}
    assert "codelet" in loaded
    assert loaded.isdisjoint({*HEAVY, *HEAVY_TOO, "ssl"}), loaded


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is counted as on Linux")
def test_peak_memory_of_a_one_shot_run_is_under_50_mb(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    calls = [Call("a", "read", {"path": "app.py"}), Call("b", "grep", {"pattern": "hello"})]
    codelet.server.script = [Reply(calls=calls), Reply(["A long answer. "] * 2000)]
    done: Finished = codelet("-p", "go", measure=True)
    assert done.exit == 0, done.err
    assert 5_000 < done.peak_kib < 50_000


def test_system_prompt_and_tools_have_at_most_2200_tokens(codelet: Codelet):
    """Counted with o200k_base, from the file that litellm brings along: nothing is downloaded."""
    codelet.server.script = [Reply("ok")]
    assert codelet("-p", "go").exit == 0
    request = codelet.server.requests[0].json
    text = request["messages"][0]["content"] + json.dumps(request["tools"])
    assert 300 < tokens(text) <= 2200


def test_the_answer_is_followed_by_the_exit_at_once(codelet: Codelet):
    """The promise is 20 ms on a quiet machine; here, beside other tests, only an idle wait would be seen."""

    def from_answer_to_exit() -> float:
        clock = Neighbour()
        with ExitStack() as answered:
            codelet.server.requests.clear()
            codelet.server.script = lambda request: (answered.enter_context(clock), Reply("ok"))[1]
            assert codelet("-p", "go", env=KEYS).exit == 0
        return clock.passed

    assert min(from_answer_to_exit() for _ in range(5)) < 0.2


@pytest.mark.parametrize("has_profiles", [False, True])
def test_profiles_are_looked_for_only_where_a_project_has_a_folder(tmp_path: Path, has_profiles: bool):
    """At each start in a terminal: what reads them takes longer to import than the rest, and YAML longer still."""
    if has_profiles:
        (tmp_path / ".codelet" / "profiles").mkdir(parents=True)
    code = "; ".join(
        (
            "import sys",
            "from codelet.frontends.trust import trusted",
            "from codelet.settings import current_folder, load_settings",
            "trusted(load_settings({}, workspace=current_folder()), lambda: None)",
            "print(*(name in sys.modules for name in ('codelet.extensions.profiles.extension', 'msgspec', 'yaml')))",
        )
    )
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    printed = pexpect.run(shlex.join([sys.executable, "-c", code]), cwd=tmp_path, env=environment)
    assert printed.decode().split() == [str(has_profiles)] * 2 + ["False"]
