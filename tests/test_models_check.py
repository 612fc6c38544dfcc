"""The comparison of the vendors' table with a map: what is stale is listed; by the installed map nothing is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codelet.providers.facts import whole_map
from scripts.models_check import main

TALKS = {"mode": "chat", "supports_function_calling": True}
XAI = {**TALKS, "litellm_provider": "xai"}
MOONSHOT = {**TALKS, "litellm_provider": "moonshot"}
KIMI = {"input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 2e-07}


def checked(changes: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code, and the lines that name one of the changed models, for the installed map with changes."""
    whole = whole_map()
    whole.update(changes)
    path = folder / "map.json"
    path.write_text(json.dumps({name: entry for name, entry in whole.items() if entry is not None}), encoding="utf-8")
    status = main([str(path)])
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == f"{len(lines)} stale"
    return status, lines


def test_the_table_agrees_with_the_map_that_is_installed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert checked({}, tmp_path, capsys) == (0, [])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"xai/grok-4.7": None}, "not in the map"),
        ({"xai/grok-4.7": {**XAI, "deprecation_date": "2020-01-01"}}, "2020-01-01"),
        ({"xai/grok-4.9": XAI}, "xai/grok-4.9"),
        ({"xai/grok-4.9-mini": XAI}, None),  # another kind
        ({"xai/grok-4.21": XAI}, None),  # it came before 4.7
        ({"moonshot/kimi-k3.1-pro": {**MOONSHOT, **KIMI}}, None),
        ({"moonshot/kimi-k3.1-pro": {**MOONSHOT, **KIMI, "input_cost_per_token": 3e-06}}, "3e-06"),
    ],
)
def test_what_is_stale_is_listed(
    changes: dict[str, Any], told: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    status, lines = checked(changes, tmp_path, capsys)
    assert status == (0 if told is None else 1)
    assert all(told is not None and told in line for line in lines) and len(lines) == (told is not None)


def test_without_a_file_it_says_how_it_is_used(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 2
    assert "litellm" in capsys.readouterr().out
