"""Short names and names that nobody knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codelet.api import settings_from
from codelet.errors import UsageError
from codelet.opening import provider_named
from codelet.providers import open_provider
from codelet.providers.choice.known import doubts, near_model
from codelet.providers.choice.names import short_names
from codelet.providers.facts import model_facts
from codelet.providers.protocol import ProviderOptions
from codelet.settings import load_settings


@pytest.mark.parametrize("short", short_names())
def test_each_short_name_stands_for_a_model_that_is_known_with_its_price(short: str):
    facts = model_facts(short_names()[short])
    assert facts.known
    assert facts.prices is not None
    assert facts.tools
    assert settings_from({"model": short}).model == short_names()[short]


def test_a_users_short_names_come_first_and_may_stand_for_short_ones(tmp_path: Path):
    file = tmp_path / "codelet" / "config.toml"
    file.parent.mkdir()
    file.write_text(
        'model = "mine"\nfallback_model = ["fast", "sonnet"]\n'
        '[aliases]\nmine = "haiku"\nfast = "groq/openai/gpt-oss-120b"\nsonnet = "openrouter/anthropic/x"\n'
    )
    here: dict[str, Any] = {"workspace": tmp_path, "environment": {"XDG_CONFIG_HOME": str(tmp_path)}}
    settings = load_settings({}, **here)
    assert settings.model == "anthropic/claude-haiku-5-5"
    assert settings.fallback_model == ("groq/openai/gpt-oss-120b", "openrouter/anthropic/x")
    flags = {"model": "fast", "fallback_model": ["opus,gpt", "kimi"], "api_key": "k"}
    given = load_settings(flags, **here)
    assert given.fallback_model == ("anthropic/claude-opus-5-5", "openai/gpt-6.2-sol", "moonshot/kimi-k3.1-pro")
    assert provider_named("mine", given).model == "anthropic/claude-haiku-5-5", "as /model opens it"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('aliases = "x"', "aliases must be"),
        ('[aliases]\n"a/b" = "x"', "aliases.a/b: "),
        ("[aliases]\nx = 3", "aliases.x must be"),
    ],
)
def test_a_wrong_table_of_short_names_is_named(tmp_path: Path, table: str, says: str):
    file = tmp_path / "codelet" / "config.toml"
    file.parent.mkdir()
    file.write_text(table)
    with pytest.raises(UsageError, match=says):
        load_settings({}, workspace=tmp_path, environment={"XDG_CONFIG_HOME": str(tmp_path)})


def test_a_servers_own_name_is_not_taken_for_a_short_one():
    assert settings_from({"model": "flash", "api_base": "http://127.0.0.1:1/v1"}).model == "flash"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("anthropic/claude-sonet-5-5", "anthropic/claude-sonnet-5-5"),
        ("openai/gpt-4.1-mni", "openai/gpt-4.1-mini"),
        ("antropic/claude-x", "anthropic/claude-x"),
        ("openai/responses/gpt-5.66", "openai/gpt-5.6"),
        ("sonet", "sonnet"),
        ("anthropic/nothing-like-it", None),
        ("nobody/x", None),
    ],
)
def test_a_near_name_is_found(name: str, meant: str | None):
    assert near_model(name) == meant


def test_a_name_that_leads_nowhere_is_refused_with_the_near_one():
    with pytest.raises(UsageError, match=r"'sonet'; did you mean sonnet\?"):
        open_provider("sonet", ProviderOptions())
    with pytest.raises(UsageError, match="provider/model"):
        open_provider("zzzzzzzz", ProviderOptions())
    with pytest.raises(UsageError, match=r"'zzzzzzzz/small'; .*codelet models --all"):
        open_provider("zzzzzzzz/small", ProviderOptions())


def test_a_cost_limit_on_a_misspelt_name_tells_the_near_one():
    settings = settings_from({"model": "openai/gpt-4.1-mni", "max_cost": 1, "api_key": "k"})
    with pytest.raises(UsageError, match=r"gpt-4.1-mni .*openai/gpt-4.1-mini\?\).*--max-cost"):
        provider_named("openai/gpt-4.1-mni", settings)


def test_what_is_guessed_of_an_unknown_model_is_said():
    near = doubts("anthropic/claude-sonet-5-5", local=False)
    assert near is not None
    assert "128,000" in near
    assert "anthropic/claude-sonnet-5-5" in near
    assert doubts("anthropic/claude-sonnet-5-5", local=False) is None
    here = doubts("ollama/mine", local=True)
    assert here is not None
    assert "price" not in here
    assert doubts("ollama/mine", local=True, window=8_000) is None
    assert "guess" not in (doubts("openai/mine", local=False, window=8_000) or "")
