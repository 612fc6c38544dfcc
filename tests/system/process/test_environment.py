"""What a command's environment must not hold: anything that makes an allowed command do something else."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from codelet.system.process import capture, child_environment


def run(environment: dict[str, str], folder: Path, command: str) -> str:
    done = asyncio.run(capture(["bash", "-c", command], cwd=folder, environment=environment, timeout=20.0))
    return (done.stdout + done.stderr).decode()


@pytest.mark.needs("bash")
def test_nothing_runs_before_or_instead_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "first").write_text("echo PWN\n")
    (tmp_path / "a.txt").write_text("one\n")
    hostile = {
        "BASH_ENV": str(tmp_path / "first"),
        "BASH_FUNC_cat%%": "() { echo PWN; }",
        "BASH_FUNC_git%%": "() { echo PWN; }",
        "SHELLOPTS": "xtrace",
        "PS4": "$(echo PWN)",
        "BASHOPTS": "dotglob",
        "GLOBIGNORE": "a.txt",
        "CDPATH": "/",
        "EXECIGNORE": "/usr/bin/*:/bin/*",
    }
    base = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for command in ("cat a.txt", "git --version >/dev/null; cat *.txt", "wc -l < a.txt"):
        assert run(child_environment(base | hostile), tmp_path, command) == run(base, tmp_path, command)
    assert "PWN" in run(base | hostile, tmp_path, "cat a.txt")


@pytest.mark.needs("rg", "bash")
def test_rg_reads_no_options_from_a_file(tmp_path: Path) -> None:
    (tmp_path / ".ripgreprc").write_text("--pre=./evil.sh\n")
    (tmp_path / "evil.sh").write_text("#!/bin/sh\ntouch PWN\n")
    (tmp_path / "evil.sh").chmod(0o755)
    (tmp_path / "a.txt").write_text("hello\n")
    base = {"PATH": os.environ["PATH"], "RIPGREP_CONFIG_PATH": ".ripgreprc"}
    assert "hello" in run(child_environment(base), tmp_path, "rg hello a.txt")
    assert not (tmp_path / "PWN").exists()
    run(base, tmp_path, "rg hello a.txt")
    assert (tmp_path / "PWN").exists()


@pytest.mark.needs("bash", "uniq")
def test_options_may_stand_behind_operands(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\none\n")
    base = {"PATH": os.environ["PATH"], "POSIXLY_CORRECT": "1"}
    assert run(child_environment(base), tmp_path, "uniq a.txt -c").split() == ["2", "one"]
    assert not (tmp_path / "-c").exists()


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("LD_LIBRARY_PATH", "/opt/lib:lib::/usr/local/lib", "/opt/lib:/usr/local/lib"),
        ("LD_LIBRARY_PATH", ".", None),
        ("LD_PRELOAD", "./evil.so /usr/lib/x.so", "/usr/lib/x.so"),
        ("LD_PRELOAD", "evil.so:lib/y.so", None),
        ("LD_AUDIT", "./audit.so", None),
        ("GCONV_PATH", "conv", None),
        ("ENV", "./start", None),
        ("ENV", "$(touch PWN)", None),
        ("ENV", "production", "production"),
        ("LESSOPEN", "|./evil %s", None),
        ("LESSKEYIN", ".lesskey", None),
        ("LESSKEY", ".less", None),
        ("LESSKEY_CONTENT", "#env;LESSOPEN=|./evil %s", None),
        ("GREP_OPTIONS", "-f x", None),
        ("PYTHONPATH", "src", "src"),
        ("LC_ALL", "C", "C"),
    ],
)
def test_what_stays_of_a_variable(name: str, value: str, left: str | None) -> None:
    assert child_environment({name: value}).get(name) == left
