"""The answers of a model: all forms are read, unreadable entries are counted, broken answers are reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codelet.review.model_answers import BadAnswer, claims_in, closing_in, verdicts_in
from codelet.review.rule_list import RULES, rule_name
from tests.support.reviews import finding, found

GOOD = finding("x = 1", 3)
OTHER = {"file": "app.py:3-4", "description": "It fails", "level": "error", "existing_code": "x = 1", "cwe": 1}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.parametrize(
    "answer",
    [
        found(GOOD),
        f"```json\n{found(GOOD)}\n```",
        f"I looked at it.\n\n{found(GOOD)}\n\nThat is all.",
        f"\ufeff{found(GOOD)}",
        f"<think>Perhaps {found()} or {{x}}.</think>\n{found(GOOD)}",
        f"no opening tag {found(GOOD, GOOD)}</think>{found(GOOD)}",
        f"See {{x}} and [1].\n{found(GOOD)}",
        f"{found(GOOD)}\n{found(GOOD)}",
        found(GOOD)[:-2] + ",],}",
        json.dumps([GOOD]),
        json.dumps(GOOD),
        json.dumps({"result": {"findings": [GOOD]}, "summary": "bad"}),
        json.dumps({"issues": {"1": GOOD}}),
        json.dumps({"findings": GOOD}),
        found(GOOD | {"quote": ["x = 1"]}),
        found(OTHER),
    ],
)
def test_a_finding_however_it_is_written(answer: str) -> None:
    (claim,) = claims_in(answer)
    assert (claim.line, claim.quote) == (3, "x = 1")
    assert claim.path.endswith("app.py")
    assert claim.severity == "high"


@pytest.mark.parametrize("answer", ["[]", '{"findings": []}', "```json\n[]\n```", '{"findings": null}'])
def test_no_findings(answer: str) -> None:
    assert claims_in(answer) == []


@pytest.mark.parametrize(
    ("severity", "read"),
    [
        ("HIGH", "high"), ("P0", "critical"), ("p1", "high"), ("P2 - medium", "medium"), ("P3", "low"),
        ("blocker", "critical"), ("major", "high"), ("minor", "low"), ("Warning", "medium"),
        ("🔴 Critical", "critical"),
        (1, "high"), ("3", "low"), ("nit", "info"),
        (None, "high"), ("dreadful", "high"),
    ],
)  # fmt: skip
def test_words_and_numbers_for_a_severity(severity: object, read: str) -> None:
    assert claims_in(found(GOOD | {"severity": severity}))[0].severity == read


@pytest.mark.parametrize(
    ("confidence", "read"),
    [(95, 0.95), ("95%", 0.95), ("0.4", 0.4), (8, 0.8), ("high", 1.0), (None, 1.0), (1, 1.0), (500, 1.0)],
)
def test_shares_and_percentages(confidence: object, read: float) -> None:
    assert claims_in(found(GOOD | {"confidence": confidence}))[0].confidence == pytest.approx(read)


@pytest.mark.parametrize(("line", "read"), [("31", 31), ("31-32", 31), ([31, 32], 31), ("L31", 31), (None, 0)])
def test_lines(line: object, read: int) -> None:
    assert claims_in(found(GOOD | {"line": line}))[0].line == read


@pytest.mark.parametrize(
    "name", ["rule", "category", "confidence", "replacement", "title", "quote", "severity", "line"]
)
def test_a_missing_field_loses_nothing(name: str) -> None:
    (claim,) = claims_in(found(without(name)))
    assert claim.title and claim.explanation and claim.path == "app.py"


def test_one_bad_entry_is_dropped_alone() -> None:
    claims = claims_in(found(GOOD, {}, {"severity": "critical"}))  # type: ignore[arg-type]
    assert [(claim.kind, claim.severity) for claim in claims] == [
        ("malformed", "critical"),
        (None, "high"),
        ("malformed", "high"),
    ]


def test_all_of_many_are_read_the_gravest_first() -> None:
    many = [GOOD | {"line": number, "severity": "low"} for number in range(230)]
    claims = claims_in(found(*many, GOOD | {"severity": "critical"}))
    assert (len(claims), claims[0].severity) == (231, "critical")


@pytest.mark.parametrize(
    ("answer", "problem", "kept"),
    [
        ("", "no JSON object", None),
        ("All is well.", "no JSON object", None),
        ("There is `[]` in it, and {}.", "no JSON object", None),
        ('{"findings": 3}', "no JSON object", None),
        ('{"verdict": "approve"}', "no JSON object", None),
        (found(GOOD)[:-1], "not valid JSON", 1),
        (found(GOOD, GOOD | {"line": 4})[:-40], "not valid JSON", 1),
        ("{" * 10_000, "JSON", None),
        ('{"a":' * 100_000, "JSON", None),
        ('{"findings": [\ud800', "JSON", None),
    ],
)
def test_what_is_broken_is_told_and_its_whole_parts_are_kept(answer: str, problem: str, kept: int | None) -> None:
    with pytest.raises(BadAnswer, match=problem) as caught:
        claims_in(answer)
    salvaged = caught.value.salvaged
    assert (salvaged and [claim.kind for claim in salvaged]) == (kept and [*[None] * kept, "malformed"])


def test_verdicts() -> None:
    both = [{"n": 1, "holds": False, "why": "no"}, {"n": 2, "holds": True, "severity": "P3", "same_as": 1}]
    for answer in (json.dumps({"verdicts": both}), json.dumps(both)):
        found_ones = verdicts_in(answer, 2)
        assert [found_ones[number].holds for number in (1, 2)] == [False, True]
        assert (found_ones[1].why, found_ones[2].severity, found_ones[2].same_as) == ("no", "low", 1)
    assert verdicts_in('{"holds": "yes"}', 3)[3].holds, "one for all of them"
    assert not verdicts_in('{"holds": false}', 1)[1].holds
    for answer, count in (("yes", 1), ('{"holds": "perhaps"}', 1), ("{}", 1), ('{"holds": false}', 2)):
        with pytest.raises(BadAnswer):
            verdicts_in(answer, count)
    with pytest.raises(BadAnswer, match="2") as caught:
        verdicts_in('{"verdicts": [{"n": 1, "holds": true}]}', 2)
    assert caught.value.salvaged[1].holds


def test_the_closing_words() -> None:
    closing = closing_in('{"summary": "Bad.", "duplicates": [[1, 3], [2], [9]]}', 3)
    assert (closing.summary, closing.groups) == ("Bad.", ((1, 3),))
    assert closing_in("nothing", 3).summary == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [("SQL Injection!", "sql-injection"), ("::error::x", "error-x"), ("\u202e", "unnamed"), ("a" * 99, "a" * 60)],
)
def test_names_of_rules_are_plain(text: str, name: str) -> None:
    assert rule_name(text) == name


def test_the_names_of_the_list_are_plain() -> None:
    assert 38 <= len(RULES) <= 45 and all(rule_name(name) == name for name in RULES)
