"""`codelet doctor` on machines in different states: the real program, real files, real programs on the path."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.program import CODELET, ROOT, environment, run
from tests.support.raw import RawServer, read_request
from tests.support.server import ModelServer
from tests.support.terminal import Terminal


def findings(
    cwd: Path, home: Path, env: Mapping[str, str | None] | None = None
) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit status, and the findings by name."""
    done = run("doctor", "--json", cwd=cwd, home=home, env=env)
    assert done.err == ""
    report = json.loads(done.stdout)
    assert report["exit"] == done.exit
    return report["exit"], {check["name"]: check for check in report["checks"]}


def only(folder: Path, *names: str) -> str:
    """A PATH with these programs alone."""
    folder.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return str(folder)


def test_short_lines_with_a_state_each(repo: Path, home: Path):
    done = run("doctor", cwd=repo, home=home, env={"COLUMNS": "80"})
    assert (done.exit, done.err) == (0, "")
    lines = done.out.splitlines()
    starts = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert set(starts) <= {"ok", "-", "warn", "fail"}
    assert "-     keys           none in the environment" in lines
    assert len(starts) > 10
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.out
    assert list(home.iterdir()) == []


def test_without_key_and_server_it_says_what_to_do(repo: Path, home: Path):
    status, found = findings(repo, home)
    if found["local servers"]["detail"].startswith("none"):
        assert (status, found["model"]["state"]) == (0, "warn")
        assert "ANTHROPIC_API_KEY" in found["model"]["advice"]


def test_keys_are_shown_by_name_alone(repo: Path, home: Path):
    env = {"OPENAI_API_KEY": "sk-do-not-show", "GROQ_API_KEY": "gsk broken", "HUSKEY": "no key", "XAI_API_KEY": ""}
    done = run("doctor", cwd=repo, home=home, env=env)
    assert "sk-do-not-show" not in done.out
    assert "gsk broken" not in done.out
    _, found = findings(repo, home, env)
    assert found["keys"]["detail"] == "GROQ_API_KEY, OPENAI_API_KEY"
    assert (found["keys"]["state"], "GROQ_API_KEY" in found["keys"]["advice"]) == ("warn", True)
    assert found["model"]["detail"].startswith("openai/")
    assert "OPENAI_API_KEY" in found["model"]["detail"]


def test_the_model_that_was_named_and_why(repo: Path, home: Path):
    env = {"OPENAI_API_KEY": "k", "CODELET_MODEL": "deepseek/deepseek-chat"}
    status, found = findings(repo, home, env)
    assert (status, found["model"]["state"]) == (2, "fail")
    assert "DEEPSEEK_API_KEY" in found["model"]["advice"]
    _, found = findings(repo, home, env | {"DEEPSEEK_API_KEY": "k"})
    assert found["model"]["detail"].startswith("deepseek/deepseek-chat")
    assert "CODELET_MODEL" in found["model"]["detail"]


def test_a_settings_file_is_named(repo: Path, home: Path):
    _, found = findings(repo, home)
    assert str(home / ".config/codelet/config.toml") in found["settings"]["detail"]
    file = home / ".config" / "codelet" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('model = "anthropic/claude-sonnet-4-5"\n', encoding="utf-8")
    _, found = findings(repo, home, {"ANTHROPIC_API_KEY": "k"})
    assert found["settings"]["detail"] == str(file)


def test_a_local_server_is_found(repo: Path, home: Path):
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 11434)) == 0:
            pytest.skip("something listens on Ollama's port here")
    with ModelServer(port=11434, models=("one", "two")):
        _, found = findings(repo, home)
    assert "Ollama (2 models)" in found["local servers"]["detail"]
    assert found["model"]["detail"].startswith("ollama/one ") and "local server" in found["model"]["detail"]


def test_a_local_server_says_what_its_model_takes(repo: Path, home: Path):
    said = {"data": [{"id": "m", "max_model_len": 9_000}], "chat_template_caps": {"supports_tools": False}}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + json.dumps(said).encode())
        await writer.drain()

    with RawServer(handle) as server:
        chosen = {"CODELET_MODEL": "hosted_vllm/m", "HOSTED_VLLM_API_BASE": f"{server.base}/v1"}
        _, found = findings(repo, home, chosen)
    assert found["model"]["state"] == "warn"
    assert "9,000 tokens" in found["model"]["detail"]
    assert "--tools" in found["model"]["advice"]


def test_the_repository_is_described(repo: Path, home: Path, tmp_path: Path):
    _, found = findings(repo, home)
    branch = subprocess.run(
        ["git", "branch", "--show-current"], cwd=repo, capture_output=True, text=True
    ).stdout.strip()
    assert found["git"]["detail"].endswith(f"repository {repo}, branch {branch}")
    _, found = findings(tmp_path, home)
    assert found["git"]["detail"].endswith("no repository")


def test_missing_programs_are_warnings_with_advice(repo: Path, home: Path, tmp_path: Path):
    status, found = findings(repo, home, {"PATH": only(tmp_path / "bin", "sh")})
    assert status == 0
    for name in ("git", "ripgrep", "sandbox"):
        assert found[name]["state"] == "warn"
        assert "install" in found[name]["advice"]


def test_a_sandbox_that_does_not_work_is_told_with_its_reason(repo: Path, home: Path, tmp_path: Path):
    path = only(tmp_path / "bin", "sh", "git")
    fake = tmp_path / "bin" / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: no namespaces for you' >&2\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    _, found = findings(repo, home, {"PATH": path})
    assert found["sandbox"]["state"] == "warn"
    assert "no namespaces for you" in found["sandbox"]["detail"]


@pytest.mark.needs("bwrap", "rg", "git")
def test_programs_that_are_there(repo: Path, home: Path):
    _, found = findings(repo, home)
    assert re.match(r"\d+\.\d+\.\d+ \(/", found["ripgrep"]["detail"])
    assert re.match(r"\d+\.\d+", found["git"]["detail"])
    assert "bubblewrap" in found["sandbox"]["detail"]


def test_a_proxys_password_is_not_shown_and_a_bad_one_is_a_failure(repo: Path, home: Path):
    status, found = findings(repo, home, {"HTTPS_PROXY": "http://me:hidden@127.0.0.1:9", "NO_PROXY": "localhost"})
    assert found["proxies"]["detail"] == "HTTPS_PROXY=http://127.0.0.1:9, NO_PROXY=localhost"
    assert status == 0
    status, found = findings(repo, home, {"all_proxy": "socks5://me:hidden@127.0.0.1:9"})
    assert (status, found["proxies"]["state"]) == (2, "fail")
    assert "hidden" not in json.dumps(found)


def test_certificates_that_are_not_there_are_a_failure(repo: Path, home: Path, tmp_path: Path):
    status, found = findings(repo, home, {"SSL_CERT_FILE": str(tmp_path / "gone.pem")})
    assert (status, found["certificates"]["state"]) == (2, "fail")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("not a certificate", encoding="utf-8")
    status, found = findings(repo, home, {"REQUESTS_CA_BUNDLE": str(garbage)})
    assert (status, found["certificates"]["state"]) == (2, "fail")


def other_release(folder: Path, release: str) -> dict[str, str]:
    """An environment in which that release of litellm seems to be installed."""
    about = folder / f"litellm-{release}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: litellm\nVersion: {release}\n", encoding="utf-8")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


@pytest.mark.parametrize("release", ["1.82.7", "1.82.8", "1.107.0"])
def test_a_malicious_release_of_litellm_is_a_failure(release: str, repo: Path, home: Path, tmp_path: Path):
    status, found = findings(repo, home, other_release(tmp_path / "library", release))
    assert (status, found["litellm"]["state"]) == (2, "fail")
    assert release in found["litellm"]["detail"]


def test_a_relative_place_for_modules_is_told(repo: Path, home: Path):
    for path, state in ((f".{os.pathsep}{ROOT}", "warn"), (str(ROOT), "ok")):
        found = findings(repo, home, {"PYTHONPATH": path})[1]["Python"]
        assert (found["state"], "relative entry" in found["detail"]) == (state, state == "warn")


def test_nothing_of_litellm_is_imported(repo: Path, home: Path):
    code = (
        "import asyncio, sys\n"
        "from codelet.frontends.commands.doctor import run_doctor\n"
        "from codelet.settings import Settings\n"
        "asyncio.run(run_doctor(Settings(model='bedrock/anthropic.claude-sonnet-4'), json=False))\n"
        "print(sorted({'litellm', 'tiktoken', 'openai'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repo, env=environment(home), capture_output=True, text=True, timeout=30
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_terminal_is_described(repo: Path, home: Path):
    with Terminal("doctor", cwd=repo, home=home, env={"COLORTERM": "truecolor"}, columns=100, rows=40) as terminal:
        assert terminal.wait_exit() == 0
        assert "100 x 40, TERM=xterm-256color, utf-8" in terminal.scrollback
        assert b"\x1b[32m" in terminal.raw
    with Terminal("doctor", cwd=repo, home=home, env={"TERM": "dumb"}, rows=40) as terminal:
        assert terminal.wait_exit() == 0
        assert "set TERM" in terminal.scrollback
        assert b"\x1b" not in terminal.raw


def test_a_branch_cannot_write_on_the_terminal(repo: Path, home: Path, tmp_path: Path):
    strange = tmp_path / "red\x1b[31m"
    strange.mkdir()
    done = run("doctor", cwd=strange, home=home, env={"CODELET_MODEL": "\x1b[31mred"})
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("command", ["doctor", "demo", "--help"])
def test_a_reader_that_leaves_early_is_no_failure(repo: Path, home: Path, command: str) -> None:
    words = ('"$@" | true; exit ${PIPESTATUS[0]}', "bash", *CODELET, command)
    done = run(*words, command=("bash", "-c"), cwd=repo, home=home)
    assert (done.exit, done.err) == (0, "")
