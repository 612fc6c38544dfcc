"""The answers of a model in a review, read leniently: findings, verdicts on them, and the closing words.

Models differ in the names of keys, the words for a severity, and the text around the JSON. An unreadable entry is
dropped alone and counted; after a broken answer the model is asked again. Some servers hold a model to the schemas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from codelet.record import Record
from codelet.review.findings import SEVERITIES, Finding, Severity
from codelet.review.rule_list import CATEGORIES, RULES, rule_name
from codelet.safety.secrets import mask
from codelet.system.text import clean, one_line, valid_unicode

_LONGEST, _LONGEST_SHOWN = 20_000, 1_200
_WRAPPING = re.compile(r"\s|\ufeff|```(?:json)?|<(think)>.*?</\1>", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_BROKEN = re.compile(r'[\[{]\s*(?:[\[{]\s*)*"')
_MOST_VALUES, _MOST_TRIES, _DEEPEST = 1_000, 100, 4
_THOUGHTS = re.compile(r"\A.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
"""Strings, which stay, and commas before the end of a list or an object."""
_DECODER = json.JSONDecoder(strict=False)
_PLACE = re.compile(r"(.+?):L?(\d+)(?:[-:,]L?\d+)?", re.DOTALL)

_LISTS = frozenset(("findings", "issues", "problems", "comments", "bugs", "results"))
_ALIASES = {
    "rule": "rule ruleid check",
    "title": "title summary name",
    "explanation": "explanation description body message details",
    "trigger": "trigger when impact",
    "severity": "severity priority level",
    "category": "category type",
    "confidence": "confidence confidencescore",
    "path": "path file filename filepath",
    "line": "line startline lines linerange",
    "quote": "quote code snippet existingcode",
    "replacement": "replacement suggestion fix",
}
_SEVERITY_WORDS: Mapping[Severity, str] = {
    "critical": "critical blocker blocking fatal severe p0 0",
    "high": "high major error important serious p1 1",
    "medium": "medium moderate warning p2 2",
    "low": "low minor note notice trivial p3 3",
    "info": "info informational nit hint style suggestion p4 4",
}
"""Words and priorities: 0 is the gravest."""
_SEVERITY_OF = {word: name for name, words in _SEVERITY_WORDS.items() for word in words.split()}
_YES = frozenset(("true", "yes", "holds", "valid", "confirmed", "correct"))
_NO = frozenset(("false", "no", "doesnothold", "invalid", "refuted", "rejected", "incorrect"))

_Json = dict[str, Any]
_TEXT: _Json = {"type": "string"}
_NUMBER: _Json = {"type": "integer"}
_SEVERITY: _Json = {"type": "string", "enum": list(SEVERITIES)}


def _object(**properties: _Json) -> _Json:
    """Every property is required and no other is allowed: OpenAI's strict mode asks for that."""
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


def _list(items: _Json) -> _Json:
    return {"type": "array", "items": items}


_FINDING_SCHEMA = _object(
    trigger=_TEXT, title=_TEXT, explanation=_TEXT, severity=_SEVERITY, confidence={"type": "number"},
    rule={"type": "string", "enum": list(RULES)}, category={"type": "string", "enum": list(CATEGORIES)},
    path=_TEXT, line=_NUMBER, quote=_TEXT, replacement={"type": ["string", "null"]},
)  # fmt: skip
_VERDICT_SCHEMA = _object(
    n=_NUMBER, why=_TEXT, holds={"type": "boolean"}, severity=_SEVERITY, same_as={"type": ["integer", "null"]}
)
FINDINGS = _object(findings=_list(_FINDING_SCHEMA))
VERDICTS = _object(verdicts=_list(_VERDICT_SCHEMA))
CLOSING = _object(summary=_TEXT, duplicates=_list(_list(_NUMBER)), order=_list(_NUMBER))


class SecondLook(Record, kw_only=True):
    """The verdict on a finding. `same_as` is the number of another one that it repeats, from 1."""

    holds: bool
    why: str = ""
    severity: Severity | None = None
    same_as: int | None = None


class Closing(Record, kw_only=True):
    """The last look at all findings: a paragraph, groups of numbers that are one bug, and the numbers by importance."""

    summary: str = ""
    groups: tuple[tuple[int, ...], ...] = ()
    ranking: tuple[int, ...] = ()


class BadAnswer(Exception):
    """An answer that does not fit. The message is for the model; `salvaged` is the readable part."""

    def __init__(self, problem: str, salvaged: object = None) -> None:
        super().__init__(problem)
        self.salvaged = salvaged


def claims_in(answer: str) -> list[Finding]:
    """The findings of an answer, the gravest first; unreadable ones are `malformed`. Raises BadAnswer."""
    values, broken = _values(answer)
    lists = [found for value in values if (found := _listed(value, _is_finding)) is not None]
    if _WRAPPING.sub("", answer) == "[]":
        lists = [[]]  # within other words an empty list is no answer
    stated = dict.fromkeys(_claim(entry) for entries in lists for entry in entries)
    claims = sorted(stated, key=lambda claim: -claim.weight)
    # Words in braces are no broken finding.
    if broken and (not lists or any(f'"{name}"' in broken for name in ("severity", "title", "quote"))):
        raise BadAnswer("it is not valid JSON", [*claims, _unreadable(broken)] if claims else None)
    if not lists:
        raise BadAnswer('there is no JSON object with the list "findings" in it')
    return claims


def verdicts_in(answer: str, count: int) -> dict[int, SecondLook]:
    """The verdicts on `count` findings by their number, from 1. Raises BadAnswer if one is missing."""

    def is_verdict(value: object) -> bool:
        return isinstance(value, dict) and "holds" in value

    lists = [_listed(value, is_verdict) or [] for value in _values(answer)[0]]
    entries = [each for listed in lists for each in listed if is_verdict(each)]
    found: dict[int, SecondLook] = {}
    for place, entry in enumerate(entries, 1):
        word, number = _plain(str(entry["holds"])), _number(entry.get("n"))
        if word not in _YES | _NO:
            continue
        severity, same = severity_in(entry.get("severity")), _number(entry.get("same_as")) or None
        verdict = SecondLook(holds=word in _YES, why=_text(entry.get("why")), severity=severity, same_as=same)
        if number is None and len(entries) == 1 and (verdict.holds or count == 1):
            return dict.fromkeys(range(1, count + 1), verdict)
        if 1 <= (number or place) <= count:
            found.setdefault(number or place, verdict)
    if missing := [str(number) for number in range(1, count + 1) if number not in found]:
        raise BadAnswer(f"there is no verdict on finding {', '.join(missing)}", found or None)
    return found


def closing_in(answer: str, count: int) -> Closing:
    """The last words on `count` findings; none if the answer has no summary."""

    def numbers(value: object) -> tuple[int, ...]:
        listed = [_number(each) for each in value] if isinstance(value, list) else []
        return tuple(dict.fromkeys(each for each in listed if each is not None and 1 <= each <= count))

    for value in _values(answer)[0]:
        if isinstance(value, dict) and (text := _text(value.get("summary"))):
            groups = value.get("duplicates")
            joined = tuple(each for each in map(numbers, groups if isinstance(groups, list) else ()) if len(each) > 1)
            return Closing(summary=text, groups=joined, ranking=numbers(value.get("order")))
    return Closing()


def _values(answer: str) -> tuple[list[Any], str]:
    """The outermost JSON values of an answer after its thoughts, and its text from the first broken one on, if any."""
    rest = _THOUGHTS.sub("", answer, count=1)
    values, broken = _scanned(rest)
    if broken:
        values, broken = _scanned(_LAST_COMMA.sub(r"\1", rest))
    return (values, broken) if values or broken else _scanned(answer)


def _scanned(text: str) -> tuple[list[Any], str]:
    values: list[Any] = []
    broken, place, tries = "", 0, 0
    while len(values) < _MOST_VALUES and tries < _MOST_TRIES and (opening := _OPENING.search(text, place)):
        place = opening.start()
        try:
            value, place = _DECODER.raw_decode(text, place)
            values.append(value)
        except (ValueError, RecursionError):
            tries += 1
            broken = broken or (text[place:] if _BROKEN.match(text, place) else "")
            place += 1
    return values, broken


def _listed(value: object, is_entry: Callable[[object], bool], depth: int = 0) -> list[Any] | None:
    """The entries that a value lists; None if it lists none."""
    if isinstance(value, list):
        return value if any(map(is_entry, value)) else None
    if not isinstance(value, dict) or depth > _DEEPEST:
        return None
    for key, each in value.items():
        if _plain(key) in _LISTS and (each is None or isinstance(each, list)):
            return each or []
    if is_entry(value):
        return [value]
    inner = [found for each in value.values() if (found := _listed(each, is_entry, depth + 1)) is not None]
    return [entry for found in inner for entry in found] if inner else None


def _is_finding(value: object) -> bool:
    fields = _fields(value)
    return sum(fields[name] is not None for name in ("title", "explanation", "severity", "path", "quote")) >= 3


def _claim(entry: object) -> Finding:
    """The finding in an entry, which has to say what is wrong and where. Nothing is known of its place yet."""
    fields = _fields(entry)
    texts = {name: _text(value)[:_LONGEST] for name, value in fields.items()}
    title, trigger, path, line = texts["title"], texts["trigger"], texts["path"], _number(fields["line"])
    explanation = texts["explanation"] or trigger or title
    severity = severity_in(fields["severity"]) or "high"
    if not explanation.strip() or not (path or texts["quote"]):
        return _unreadable(json.dumps(entry, ensure_ascii=False), severity)
    if trigger and trigger not in explanation:
        explanation = f"{trigger}\n\n{explanation}"
    if (placed := _PLACE.fullmatch(path)) is not None:
        path, line = placed[1], line or int(placed[2][:9])
    title = title or explanation.strip().split("\n")[0]
    # A share of 1, a percentage or a number out of ten; 1 if there is none.
    number = re.search(r"\d+(?:\.\d+)?", str(fields["confidence"]))
    share = float(number.group()) if number is not None else 1.0
    return Finding(
        rule=rule_name(texts["rule"] or title),
        title=title,
        explanation=explanation,
        severity=severity,
        category=rule_name(texts["category"] or "correctness"),
        confidence=min(share if share <= 1 else share / 10 if share <= 10 else share / 100, 1.0),
        path=path[:4_000],
        line=line or 0,
        quote=texts["quote"],
        replacement=texts["replacement"] if isinstance(fields["replacement"], (str, list)) else None,
    )


def _unreadable(text: str, severity: Severity = "high") -> Finding:
    shown = clean(mask(valid_unicode(text[:_LONGEST]), patterns=True))
    title, why = f"Unreadable: {one_line(shown, 120)}", "the model's finding cannot be read"
    explanation = shown[:_LONGEST_SHOWN]
    return Finding(
        kind="malformed", why=why, rule="other", title=title, severity=severity, path="", explanation=explanation
    )


def _fields(entry: object) -> _Json:
    """The values of an entry by field: the first that is not empty under one of the field's names, else None."""
    named = {_plain(key): value for key, value in entry.items()} if isinstance(entry, dict) else {}
    return {
        field: next((named[name] for name in names.split() if named.get(name) not in (None, "", [])), None)
        for field, names in _ALIASES.items()
    }


def severity_in(value: object) -> Severity | None:
    """The severity that a word or a priority means; None for any other."""
    words = re.findall(r"[a-z]+\d?|\d+", str(value).lower())
    return next((_SEVERITY_OF[word] for word in words if word in _SEVERITY_OF), None)


def _number(value: object) -> int | None:
    """The first whole number in a value: of 31, "L31", "31-32" or [31, 32]."""
    found = re.search(r"\d{1,9}", str(value))
    return int(found.group()) if found else None


def _text(value: object) -> str:
    """A value as text; a list of texts is rows."""
    if isinstance(value, list):
        return "\n".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
