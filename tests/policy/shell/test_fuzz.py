"""The differential tests of scripts/fuzz with few cases and fixed seeds; `python -m scripts.fuzz` runs many."""

from __future__ import annotations

import subprocess

import pytest

from scripts.fuzz import scripts, sed, text, words


@pytest.mark.needs("bash")
def test_words_stand_for_what_bash_gives(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOME", "/root")
    assert words.run(2_000, seed=5) == 0, capsys.readouterr().out
    assert "2000 read by us" in capsys.readouterr().out


@pytest.mark.needs("sed")
def test_sed_scripts_that_are_read_run_and_write_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    if b"GNU" not in subprocess.run(["sed", "--version"], capture_output=True, check=False).stdout:
        pytest.skip("needs GNU sed, which can be asked")
    assert sed.run(600, seed=5) == 0, capsys.readouterr().out


@pytest.mark.needs("bash", "bwrap", "git", "sed")
def test_allowed_scripts_change_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    probe = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("needs bwrap with the right to make namespaces")
    monkeypatch.setenv("HOME", "/root")
    assert scripts.run(150, seed=5) == 0, capsys.readouterr().out


def test_no_text_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert text.run(400, seed=5) == 0, capsys.readouterr().out
