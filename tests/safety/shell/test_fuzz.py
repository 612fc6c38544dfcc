"""The differential tests of scripts/fuzz with fixed seeds, in the gate with few cases."""

from __future__ import annotations

import subprocess

import pytest

from scripts.fuzz import shell, text
from tests.support.amount import amount


@pytest.mark.needs("bash", "bwrap", "git", "sed")
def test_allowed_scripts_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    probe = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("needs bwrap with the right to make namespaces")
    assert shell.run_scripts(amount(150, 10_000), seed=5) == 0, capsys.readouterr().out


def test_no_text_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert text.run(amount(400, 20_000), seed=5) == 0, capsys.readouterr().out


@pytest.mark.needs("bash", "bwrap", "git")
def test_lines_in_the_sandbox_have_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_confined(amount(40, 4_000), seed=5) == 0, capsys.readouterr().out
