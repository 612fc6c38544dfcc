"""What the model answers in a review, as it is checked: the JSON of findings, and that of a confirmation.

Nothing is guessed from an answer that does not fit its schema: the model is asked once more, and told what is wrong.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Annotated, Any, TypeVar

import msgspec

from codelet.review.findings import Severity
from codelet.system.text.embedded_json import json_values

MOST_FINDINGS = 200
"""Findings of one answer that are read; one with more is asked for again."""

_LONGEST = 20_000
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST)]
_Word = Annotated[str, msgspec.Meta(max_length=200)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)
_NOT_IN_RULE = re.compile(r"[^a-z0-9]+")
_LONGEST_RULE = 60


class BadAnswer(Exception):
    """An answer that does not fit: its text is what the model is told."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A finding as the model states it, before anything is known of its place: these types are its schema.

    Texts are as they came, but for `rule` and `category`, which are lower case with hyphens.
    """

    rule: _Word = ""
    title: _Text
    explanation: _Text
    severity: Severity
    category: _Word = ""
    confidence: _Share
    path: _Text
    line: int
    quote: _Text
    replacement: Annotated[str, msgspec.Meta(max_length=_LONGEST)] | None = None


class Confirmation(msgspec.Struct, frozen=True):
    """Whether a finding holds, and why it does or does not."""

    holds: bool
    why: Annotated[str, msgspec.Meta(max_length=_LONGEST)] = ""


class _Claims(msgspec.Struct):
    findings: Annotated[list[Claim], msgspec.Meta(max_length=MOST_FINDINGS)]


_Answer = TypeVar("_Answer", _Claims, Confirmation)


def claims_in(answer: str) -> list[Claim]:
    """The findings of an answer, in its order. Raises BadAnswer."""
    return [
        msgspec.structs.replace(
            each, rule=rule_name(each.rule or each.title), category=rule_name(each.category or "correctness")
        )
        for each in _checked(answer, _Claims).findings
    ]


def confirmation_in(answer: str) -> Confirmation:
    """The answer to the question whether a finding holds. Raises BadAnswer."""
    return _checked(answer, Confirmation)


def rule_name(text: str) -> str:
    """A rule's name in lower case with hyphens; `unnamed` where nothing is left."""
    return _NOT_IN_RULE.sub("-", text.lower()).strip("-")[:_LONGEST_RULE].strip("-") or "unnamed"


def _checked(answer: str, kind: type[_Answer]) -> _Answer:
    """The object in the answer that fits the type. Raises BadAnswer that says what is wrong with it."""
    try:
        return msgspec.convert(_object_in(answer), kind)
    except msgspec.ValidationError as error:
        problem = BadAnswer(str(error))
    except BadAnswer as error:
        problem = error
    fitting: list[_Answer] = []
    for _, value in json_values(answer):
        with suppress(msgspec.ValidationError):
            fitting.append(msgspec.convert(value, kind))
    if len(fitting) == 1:
        return fitting[0]
    raise problem


def _object_in(answer: str) -> dict[str, Any]:
    """The JSON object that an answer is, or that stands in a fence, or between its outermost braces."""
    first, last = answer.find("{"), answer.rfind("}")
    candidates = [answer, *_FENCED.findall(answer), answer[first : last + 1] if 0 <= first < last else ""]
    problem = "there is no JSON object in it"
    for text in candidates:
        if not text.strip():
            continue
        try:
            found = msgspec.json.decode(text)
        except RecursionError:
            raise BadAnswer("the JSON is nested too deeply") from None
        except (msgspec.DecodeError, ValueError) as error:
            problem = f"it is no JSON: {error}"
            continue
        if isinstance(found, dict):
            return found
        problem = "it is no JSON object"
    raise BadAnswer(problem)
