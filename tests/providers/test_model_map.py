"""The part of litellm's map that comes with codelet: it is made from the installed one and says the same."""

from __future__ import annotations

import json

from codelet.providers.facts import COPY, entry_facts, map_source, whole_map
from scripts.model_map import text


def test_the_copy_is_made_from_the_installed_map() -> None:
    """`python -m scripts.model_map` writes it."""
    assert COPY.read_text(encoding="utf-8") == text()


def test_the_copy_says_the_same_of_each_of_its_models() -> None:
    whole, part = whole_map(), json.loads(COPY.read_bytes())
    assert len(part) > 400
    for name, entry in part.items():
        assert entry_facts(entry) == entry_facts(whole[name]), name
    assert "litellm" in map_source()
