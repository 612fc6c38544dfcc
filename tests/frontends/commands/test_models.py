"""`codelet models`: what there is to choose from, readable at 80 columns and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codelet.api import settings_from
from codelet.errors import UsageError
from codelet.frontends.arguments import parse_command_line
from codelet.frontends.commands.model_list import run_models
from codelet.providers.catalog import vendors
from codelet.providers.facts import map_source, model_facts
from codelet.settings import Settings
from tests.support.server import ModelServer


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in vendors():
        for name in (*vendor.key_names, *vendor.base_names):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


async def listed(capsys: pytest.CaptureFixture[str], *words: str, settings: Settings | None = None) -> str:
    assert await run_models(settings or settings_from({}), parse_command_line(["models", *words])) == 0
    return capsys.readouterr().out


async def test_without_a_key_each_vendors_default_is_shown(capsys: pytest.CaptureFixture[str]):
    shown = await listed(capsys)
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "set ANTHROPIC_API_KEY" in shown
    names = [line.split()[0] for line in shown.splitlines() if line.startswith("  ") and "/" in line.split()[0]]
    assert names == [vendor.default_model for vendor in vendors() if vendor.default_model]
    assert "sonnet = anthropic/claude-sonnet-5-5" in shown
    assert "  openrouter/auto                ~128k  ?" in shown, "what is guessed and what is not known"


async def test_a_key_that_is_set_shows_all_of_its_vendors_models(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-value")
    shown = await listed(capsys)
    assert "ANTHROPIC_API_KEY is set" in shown
    assert "secret-value" not in shown
    (row,) = [line for line in shown.splitlines() if line.startswith("  anthropic/claude-opus-5-5 ")]
    assert row.split()[1:] == ["1M", *_row("anthropic/claude-opus-5-5")]
    assert "20251001" not in shown, "names with a date come with --all"
    assert "20251001" in await listed(capsys, "--all")


def _row(name: str) -> list[str]:
    prices = model_facts(name).prices
    assert prices is not None
    return [f"{prices.input * 1e6:.3g}/{prices.output * 1e6:.3g}", "low-max", "yes", "yes"]


async def test_words_choose_and_a_word_that_no_model_has_is_wrong(capsys: pytest.CaptureFixture[str]):
    shown = await listed(capsys, "gpt", "MINI")
    names = [line.split()[0] for line in shown.splitlines() if line.startswith("  openai/")]
    assert "openai/gpt-4.1-mini" in names
    assert all("gpt" in name and "mini" in name for name in names)
    with pytest.raises(UsageError, match="nosuch"):
        await run_models(settings_from({}), parse_command_line(["models", "nosuch"]))


async def test_local_servers_and_the_users_vendors_are_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model_server: ModelServer
):
    monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{model_server.port}")
    monkeypatch.setenv("INHOUSE_API_KEY", "k")
    model_server.models = ("mine:7b",)
    inhouse = {"inhouse": {"base": "https://inhouse.example/v1", "key": "INHOUSE_API_KEY", "model": "large"}}
    settings = settings_from({"vendors": inhouse, "aliases": {"big": "inhouse/large"}})
    shown = await listed(capsys, settings=settings)
    assert "Ollama: it answers" in shown
    assert "  ollama/mine:7b                 ~128k  free" in shown
    assert "INHOUSE_API_KEY is set" in shown
    assert "big = inhouse/large" in shown
    found: dict[str, Any] = json.loads(await listed(capsys, "--json", settings=settings))
    assert found["aliases"]["big"] == "inhouse/large"
    by_name = {model["name"]: model for model in found["models"]}
    mine = by_name["ollama/mine:7b"]
    assert (mine["usable"], mine["free"], mine["price"], mine["window_guessed"]) == (True, True, None, True)
    sonnet = by_name["anthropic/claude-sonnet-5-5"]
    assert (sonnet["key"], sonnet["usable"], sonnet["default"], sonnet["tools"]) == (None, False, True, True)
    assert sonnet["price"]["cache_write_hour"] == 4.0
    assert sonnet["images"] is True
    assert by_name["inhouse/large"]["key"] == "INHOUSE_API_KEY"


def test_the_program_has_the_command(tmp_path: Path):
    options = parse_command_line(["models", "--json", "claude"])
    assert (options.command, options.json, options.words) == ("models", True, ["claude"])


async def test_the_source_of_windows_and_prices_is_named(capsys: pytest.CaptureFixture[str]):
    assert map_source() in " ".join((await listed(capsys)).split())
    assert json.loads(await listed(capsys, "--json"))["source"] == map_source()
