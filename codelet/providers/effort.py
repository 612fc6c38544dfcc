"""The user's effort in requests to a model.

Sources: the vendors' references for reasoning and thinking, and their servers' refusals. The words that a model takes
are in litellm's map or in `vendors.toml`; for others the user's word is sent until
it is refused. Imported only if the user asked for an effort.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from codelet.providers.catalog import EffortField, Vendor, real_name, table, vendor_of
from codelet.providers.facts import ModelFacts, model_facts
from codelet.providers.protocol import Effort

Form = EffortField | Literal["adaptive"]
"""A field of Chat Completions or Responses, or the form of Anthropic's Messages."""

_ORDER = ("none", "minimal", "low", "default", "medium", "high", "xhigh", "max")

_REFUSALS = ("effort", "thinking level", "thinking.type", "adaptive thinking")
_LISTED = re.compile(r"(?:supported|valid|allowed|accepted|expected)[^:]{0,40}(?:values|levels|one of)[^:]{0,20}:?(.*)")


class AskedEffort:
    """The effort in requests to one model.

    `words` are those that the model takes, None if unknown; `form` is where a request holds it. The first refusal that
    lists words teaches them.
    """

    def __init__(self, level: Effort, model: str, form: Form, words: tuple[str, ...] | None) -> None:
        self.level = level
        self._name = real_name(model).rpartition("/")[2]
        self._form = form
        self._has_learned = False
        self._notes: list[str] = []
        self._take((level,) if words is None else words)

    def _take(self, words: tuple[str, ...]) -> None:
        """Use the nearest of the model's words from now on."""
        self._word = nearest_word(self.level, words)
        if self._word is None:
            self._notes.append(f"{self._name} takes no effort: {self.level!r} is not sent")
        elif self._word != self.level:
            self._notes.append(f"{self._name} has no effort {self.level!r}: its nearest, {self._word!r}, is taken")

    def fields(self) -> dict[str, Any]:
        word = self._word
        if word is None:
            return {}
        match self._form:
            case "reasoning_effort":
                return {"reasoning_effort": word}
            case "reasoning":
                return {"reasoning": {"effort": word}}
            case "chat_template_kwargs":
                thinks = {"enable_thinking": word != "none"}
                return {"chat_template_kwargs": thinks if word == "none" else {**thinks, "reasoning_effort": word}}
            case _ if word == "none":
                return {"thinking": {"type": "disabled"}}
            case "thinking":
                return {} if word == "default" else {"reasoning_effort": word}
            case "adaptive":
                return {"thinking": {"type": "adaptive"}, "output_config": {"effort": word}}

    def notes(self) -> list[str]:
        """Sentences for the user about a replaced effort; each is returned once."""
        notes, self._notes = self._notes, []
        return notes

    def refused(self, text: str) -> bool:
        """Return whether this refusal is about the effort; then requests have the nearest that it lists, or none.

        A refusal that allows tools with the effort "none" is not one: tools come first (`Quirks.effort`).
        """
        sent = self.fields()
        named = [*_REFUSALS, *(mark + name + mark for name in sent for mark in "'\"`")]
        if not sent or not any(words in text for words in named) or ("tools" in text and "none" in text):
            return False
        listed = None if self._has_learned else _LISTED.search(text)
        words = tuple(word for word in _ORDER if listed and word != self._word and re.search(rf"\b{word}\b", listed[1]))
        self._has_learned = True
        self._take(words)
        return True


def nearest_word(level: Effort, words: tuple[str, ...]) -> str | None:
    """The nearest word, the higher of two; "none" matches only itself. None without words."""
    place = _ORDER.index(level)
    thinking = [word for word in words if word in _ORDER and word != "none"]
    if level in words or not thinking:
        return level if level in words else next(iter(words), None)
    return min(thinking, key=lambda word: (abs(_ORDER.index(word) - place), -_ORDER.index(word)))


def taken_words(model: str, facts: ModelFacts | None = None, vendor: Vendor | None = None) -> tuple[str, ...] | None:
    """The words of a model, at any vendor or at this one; None if unknown."""
    vendor, facts = vendor or vendor_of(model), facts or model_facts(model)
    # Claude takes "none", unless it always thinks.
    switch = ("none",) if facts.adaptive_thinking and not facts.always_thinks else ()
    listed = (*switch, *facts.efforts) if facts.known or facts.like else None
    if vendor is not None and vendor.wire == "anthropic":
        if listed is not None and not facts.adaptive_thinking:
            return ()
        return listed or ("none", "low", "medium", "high", "max")
    name = real_name(model).partition("/")[2] or model
    for pattern, words in table(f"{vendor.prefix if vendor else ''}.efforts").items():
        if re.search(pattern, name.lower()):
            return None if words == "unknown" else tuple(words)
    return listed
