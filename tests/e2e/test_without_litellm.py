"""An installation without litellm: native vendors work, with their prices; others say what is missing."""

from __future__ import annotations

from pathlib import Path

from codelet.errors import EXIT_DONE, EXIT_USAGE
from codelet.providers.facts import map_source, model_facts
from tests.e2e.conftest import Codelet
from tests.support.script import Reply, Tokens

WITHOUT = """\
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name == "litellm" else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
"""


def test_without_litellm_native_vendors_have_their_prices(codelet: Codelet, tmp_path: Path) -> None:
    """The program in a Python that finds no litellm."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    bare = {"PYTHONPATH": str(tmp_path)}
    listed = codelet("models", "claude-sonnet-5-5", "--json", env=bare)
    assert listed.exit == EXIT_DONE, listed.err
    found = listed.json()
    facts = model_facts("anthropic/claude-sonnet-5-5")
    assert facts.known and facts.prices is not None
    (model,) = [each for each in found["models"] if each["name"] == "anthropic/claude-sonnet-5-5"]
    assert (model["window"], model["price"]["input"]) == (facts.window, facts.prices.input * 1e6)
    assert found["source"] != map_source()
    codelet.server.script = lambda request: Reply("ok", usage=Tokens(1_000_000, output=0))
    named = ("--model", "anthropic/claude-sonnet-5-5", "--api-base", codelet.server.anthropic)
    done = codelet("-p", "hi", "--output-format", "json", *named, env=bare)
    assert (done.exit, done.json()["result"]) == (EXIT_DONE, "ok"), done.err
    other = codelet("-p", "hi", "--model", "cohere/command-a-03-2025", "--transport", "litellm", env=bare)
    assert other.exit == EXIT_USAGE and "not installed" in other.err
