"""How hard a model is to think: the level that a user asked for, and what a request to that model says for it.

Sources: the vendors' references for reasoning and thinking, and what their servers refuse. Which words a model takes is
in litellm's map for most, in `vendors.toml` for the others; where neither knows, the level goes out as it is, and what
the server refuses is learnt. Nothing of this is imported unless someone asked for an effort.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from codelet.providers.catalog import real_name, table, vendor_of
from codelet.providers.facts import ModelFacts, model_facts
from codelet.providers.protocol import EFFORTS, Effort
from codelet.providers.quirks import EffortField

Form = EffortField | Literal["adaptive", "budget"]
"""Where a request says it: a field of Chat Completions or Responses, or one of the two ways of Anthropic's Messages."""

_ORDER = ("none", "minimal", "low", "default", "medium", "high", "xhigh", "max")

# How much of the output limit an older model of Anthropic's may think.
_BUDGETS = {"minimal": 0.0, "low": 0.125, "medium": 0.25, "high": 0.5, "xhigh": 0.625, "max": 0.75}
_LEAST_BUDGET = 1_024  # tokens; the API takes no smaller one
_REFUSALS = ("effort", "thinking level", "thinking.type", "adaptive thinking", "budget_tokens")
_LISTED = re.compile(r"(?:supported|valid|allowed|accepted|expected)[^:]{0,40}(?:values|levels|one of)[^:]{0,20}:?(.*)")


class AskedEffort:
    """What the requests to one model say of the effort that the user asked for.

    `words` are those that the model takes, None if that is not known; `form` is where a request says it. Both
    change with what the server refuses, each once, so that no server is asked for ever.
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
        """The fields of a request with an output limit of so many tokens, which only `budget` needs."""
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
        """Sentences for the user on what is sent in place of what was asked for; each is returned once."""
        notes, self._notes = self._notes, []
        return notes

    def refused(self, said: str) -> bool:
        """Return whether a server refused the effort with these words: then requests say it otherwise, or no more.

        A refusal that lets tools go with no effort at all is none of these: there tools win (`Quirks.effort`).
        """
        sent = self.fields(1 << 20)
        named = [*_REFUSALS, *(mark + name + mark for name in sent for mark in "'\"`")]
        if not sent or not any(words in said for words in named):
            return False
        if "tools" in said and "none" in said:
            return False
        if self._other_form(said):
            return True
        listed = _LISTED.search(said)
        taken = tuple(word for word in _ORDER if listed and re.search(rf"\b{word}\b", listed[1]) and word != self._word)
        if taken and "words" not in self._learnt:
            self._learnt.add("words")
            self._word = nearest_word(self.level, taken)
            self._compare()
        else:
            self._word = None
            self._notes.append(f"{self._name} refused the effort {self.level!r}: it is no longer sent")
        return True

    def _other_form(self, said: str) -> bool:
        """Return whether it goes Anthropic's other way from now on, because the server names that one."""
        other: Form | None = None
        if self._form == "budget" and "thinking.type.adaptive" in said:
            other = "adaptive"
        elif self._form == "adaptive" and "adaptive thinking" in said:
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
    """The word that comes nearest, the higher of two; not to think at all stands for itself alone. None without any."""
    place = _ORDER.index(level)
    thinking = [word for word in words if word in _ORDER and word != "none"]
    if level in words or not thinking:
        return level if level in words else next(iter(words), None)
    return min(thinking, key=lambda word: (abs(_ORDER.index(word) - place), -_ORDER.index(word)))


def chat_words(model: str, vendor: str, facts: ModelFacts | None = None) -> tuple[str, ...] | None:
    """The words that a model of this vendor takes over one of OpenAI's protocols; None if that is not known."""
    name = real_name(model).partition("/")[2] or model
    for pattern, words in table(f"{vendor}.efforts").items():
        if re.search(pattern, name.lower()):
            return None if words == "unknown" else tuple(words)
    return _words_of(facts or model_facts(model))


def taken_words(model: str, facts: ModelFacts | None = None) -> tuple[str, ...] | None:
    """The words that a model takes, whoever's it is; None if that is not known."""
    vendor = vendor_of(model)
    if vendor is not None and (vendor.wire == "anthropic" or (vendor.cloud and "claude" in model)):
        return messages_way(model, facts)[1]
    return chat_words(model, vendor.prefix if vendor else "", facts)


def messages_way(model: str, facts: ModelFacts | None = None) -> tuple[Form, tuple[str, ...]]:
    """Return which way a model of Anthropic's is told, and the words that it takes."""
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
    """The words of a model that the map knows; Claude can be told not to think, unless it always does."""
    if not facts.known and not facts.like:
        return None
    switch = ("none",) if facts.adaptive_thinking and not facts.always_thinks else ()
    return (*switch, *facts.efforts)
