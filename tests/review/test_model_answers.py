"""What the model answers: read where it fits, and told what is wrong where it does not."""

from __future__ import annotations

import json

import pytest

from codelet.review.model_answers import BadAnswer, claims_in, confirmation_in, rule_name
from tests.support.reviews import finding, found

GOOD = finding("x = 1", 3)


@pytest.mark.parametrize(
    "answer",
    [
        found(GOOD),
        f"```json\n{found(GOOD)}\n```",
        f"I looked at it.\n\n{found(GOOD)}\n\nThat is all.",
        f"\ufeff{found(GOOD)}",
        f'I thought of {{"findings": 1}}, but:\n{found(GOOD)}',
        json.dumps({"findings": [GOOD | {"confidence": 1, "more": True}], "summary": "bad"}),
    ],
)
def test_an_object_however_it_is_wrapped(answer: str) -> None:
    (claim,) = claims_in(answer)
    assert (claim.rule, claim.line, claim.quote) == ("wrong-result", 3, "x = 1")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "no JSON object"),
        ("All is well.", "no JSON"),
        ("[]", "no JSON object"),
        (f"{found(GOOD)}\n{found(GOOD)}", "no JSON"),
        (found(GOOD)[:-1], "no JSON"),
        ('{"findings": 3}', r"\$.findings"),
        ('{"findings": [{}]}', "missing required field"),
        (found(GOOD | {"severity": "blocker"}), r"\$.findings\[0\].severity"),
        (found(GOOD | {"confidence": 7}), r"confidence"),
        (found(GOOD | {"line": "3"}), r"line"),
        (found(GOOD | {"quote": ""}), r"quote"),
        (found(*[GOOD] * 201), "200"),
        ("{" * 10_000, "JSON"),
        ('{"a":' * 100_000, "JSON|nested"),
        ('{"findings": [\ud800', "JSON"),
    ],
)
def test_what_does_not_fit_is_told(answer: str, problem: str) -> None:
    with pytest.raises(BadAnswer, match=problem):
        claims_in(answer)


def test_confirmations() -> None:
    assert not confirmation_in('{"holds": false}').holds
    assert confirmation_in('{"holds": true, "why": "so"}').why == "so"
    for answer in ("yes", '{"holds": "true"}', "{}"):
        with pytest.raises(BadAnswer):
            confirmation_in(answer)


@pytest.mark.parametrize(
    ("text", "name"),
    [("SQL Injection!", "sql-injection"), ("::error::x", "error-x"), ("\u202e", "unnamed"), ("a" * 99, "a" * 60)],
)
def test_names_of_rules_are_plain(text: str, name: str) -> None:
    assert rule_name(text) == name
