"""The user's effort in requests to a model.

Sources: the vendors' references for reasoning and thinking, and their servers' refusals. The words that a model takes
are in litellm's map or in `vendors.toml`; for others the user's word is sent, and refusals are learned. Imported only
if the user asked for an effort.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from codelet.providers.catalog import real_name, table, vendor_of
from codelet.providers.facts import ModelFacts, model_facts
from codelet.providers.protocol import EFFORTS, Effort
from codelet.providers.quirks import EffortField

Form = EffortField | Literal["adaptive", "budget"]
"""A field of Chat Completions or Responses, or one of the two forms of Anthropic's Messages."""

_ORDER = ("none", "minimal", "low", "default", "medium", "high", "xhigh", "max")

# The share of the output limit for thinking, for older models of Anthropic's.
_BUDGETS = {"minimal": 0.0, "low": 0.125, "medium": 0.25, "high": 0.5, "xhigh": 0.625, "max": 0.75}
_LEAST_BUDGET = 1_024  # tokens; the API's minimum
_REFUSALS = ("effort", "thinking level", "thinking.type", "adaptive thinking", "budget_tokens")
_LISTED = re.compile(r"(?:supported|valid|allowed|accepted|expected)[^:]{0,40}(?:values|levels|one of)[^:]{0,20}:?(.*)")


class AskedEffort:
    """The effort in requests to one model.

    `words` are those that the model takes, None if unknown; `form` is where a request holds it. A refusal changes each
    at most once.
    """

    def __init__(self, level: Effort, model: str, form: Form, words: tuple[str, ...] | None) -> None:
        self.level = level
        self._name = real_name(model).rpartition("/")[2]
        self._form: Form = form
        self._word = level if words is None else nearest_word(level, words)
        self._learnt: set[str] = set()
        self._notes: list[str] = []
        if words == ():
            self._notes.append(f"{self._name} takes no effort: {level!r} is not sent")
        else:
            self._compare()

    def fields(self, max_output: int = 0) -> dict[str, Any]:
        """The request's fields; only the form `budget` needs the output limit."""
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
            case _:
                budget = max(_LEAST_BUDGET, int(_BUDGETS[word] * max_output))
                fits = budget < max_output
                return {"thinking": {"type": "enabled", "budget_tokens": budget}} if fits else {}

    def notes(self) -> list[str]:
        """Sentences for the user about a replaced effort; each is returned once."""
        notes, self._notes = self._notes, []
        return notes

    def refused(self, text: str) -> bool:
        """Return whether this refusal is about the effort; then requests change or leave it out.

        A refusal that allows tools with the effort "none" is not one: tools come first (`Quirks.effort`).
        """
        sent = self.fields(1 << 20)
        named = [*_REFUSALS, *(mark + name + mark for name in sent for mark in "'\"`")]
        if not sent or not any(words in text for words in named):
            return False
        if "tools" in text and "none" in text:
            return False
        if self._other_form(text):
            return True
        listed = _LISTED.search(text)
        taken = tuple(word for word in _ORDER if listed and re.search(rf"\b{word}\b", listed[1]) and word != self._word)
        if taken and "words" not in self._learnt:
            self._learnt.add("words")
            self._word = nearest_word(self.level, taken)
            self._compare()
        else:
            self._word = None
            self._notes.append(f"{self._name} refused the effort {self.level!r}: it is no longer sent")
        return True

    def _other_form(self, text: str) -> bool:
        """Return whether it changes to Anthropic's other form, because the server names it."""
        other: Form | None = None
        if self._form == "budget" and "thinking.type.adaptive" in text:
            other = "adaptive"
        elif self._form == "adaptive" and "adaptive thinking" in text:
            other = "budget"
        if other is None or "form" in self._learnt:
            return False
        self._learnt.add("form")
        self._form = other
        self._word = nearest_word(self.level, _forms_words(other))
        self._compare()
        return True

    def _compare(self) -> None:
        if self._word is not None and self._word != self.level:
            self._notes.append(f"{self._name} has no effort {self.level!r}: its nearest, {self._word!r}, is taken")


def nearest_word(level: Effort, words: tuple[str, ...]) -> str | None:
    """The nearest word, the higher of two; "none" matches only itself. None without words."""
    place = _ORDER.index(level)
    thinking = [word for word in words if word in _ORDER and word != "none"]
    if level in words or not thinking:
        return level if level in words else next(iter(words), None)
    return min(thinking, key=lambda word: (abs(_ORDER.index(word) - place), -_ORDER.index(word)))


def chat_words(model: str, vendor: str, facts: ModelFacts | None = None) -> tuple[str, ...] | None:
    """The words of a model at this vendor over OpenAI's protocols; None if unknown."""
    name = real_name(model).partition("/")[2] or model
    for pattern, words in table(f"{vendor}.efforts").items():
        if re.search(pattern, name.lower()):
            return None if words == "unknown" else tuple(words)
    return _words_of(facts or model_facts(model))


def taken_words(model: str, facts: ModelFacts | None = None) -> tuple[str, ...] | None:
    """The words of a model at any vendor; None if unknown."""
    vendor = vendor_of(model)
    if vendor is not None and (vendor.wire == "anthropic" or (vendor.cloud and "claude" in model)):
        return messages_way(model, facts)[1]
    return chat_words(model, vendor.prefix if vendor else "", facts)


def messages_way(model: str, facts: ModelFacts | None = None) -> tuple[Form, tuple[str, ...]]:
    """The form for one of Anthropic's models, and its words."""
    facts = facts or model_facts(model)
    listed = facts.known or facts.like
    if listed and not facts.reasons:
        return "adaptive", ()
    if listed and not facts.adaptive_thinking:
        return "budget", _forms_words("budget")
    return "adaptive", _words_of(facts) or _forms_words("adaptive")


def _forms_words(form: Form) -> tuple[str, ...]:
    return EFFORTS if form == "budget" else ("none", "low", "medium", "high", "max")


def _words_of(facts: ModelFacts) -> tuple[str, ...] | None:
    """The words of a model in the map; Claude takes "none", unless it always thinks."""
    if not facts.known and not facts.like:
        return None
    switch = ("none",) if facts.adaptive_thinking and not facts.always_thinks else ()
    return (*switch, *facts.efforts)
