"""The differential tests of scripts/fuzz with fixed seeds, in the gate with few cases."""

from __future__ import annotations

import subprocess

import pytest

from scripts.fuzz import scripts, sed, text, words
from tests.support.amount import amount


@pytest.mark.needs("bash")
def test_words_stand_for_what_bash_gives(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOME", "/root")
    count = amount(2_000, 200_000)
    assert words.run(count, seed=5) == 0, capsys.readouterr().out
    assert f"{count} read by us" in capsys.readouterr().out


@pytest.mark.needs("sed")
def test_sed_scripts_that_are_read_run_and_write_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    if b"GNU" not in subprocess.run(["sed", "--version"], capture_output=True, check=False).stdout:
        pytest.skip("needs GNU sed, which can be asked")
    assert sed.run(amount(600, 30_000), seed=5) == 0, capsys.readouterr().out


@pytest.mark.needs("bash", "bwrap", "git", "sed")
def test_allowed_scripts_change_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    probe = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("needs bwrap with the right to make namespaces")
    monkeypatch.setenv("HOME", "/root")
    assert scripts.run(amount(150, 10_000), seed=5) == 0, capsys.readouterr().out


def test_no_text_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert text.run(amount(400, 20_000), seed=5) == 0, capsys.readouterr().out
