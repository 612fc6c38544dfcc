"""The answers of a model in a review, read leniently: findings, verdicts on them, and the closing words.

Models differ in the names of keys, the words for a severity, and the text around the JSON. Everything that can be
understood is read. An unreadable entry is dropped alone and counted; after a broken answer the model is asked again.
The schemas are for servers that hold a model to one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codelet.record import Record
from codelet.review.findings import SEVERITIES, Severity
from codelet.review.rule_list import CATEGORIES, RULES, known_rule, rule_name

MOST_FINDINGS = 200
"""Findings of one answer that are read, the gravest first."""

_LONGEST = 20_000
_WRAPPING = re.compile(r"\s|\ufeff|```(?:json)?|<(think)>.*?</\1>", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_BROKEN = re.compile(r"[\[{]\s*(?:[\[{]\s*)*[\"']")
_MOST_VALUES, _MOST_TRIES = 1_000, 100
_LONGEST_LITERAL = 1 << 16
_DEEPEST = 4
_EMPTY: tuple[object, ...] = (None, "", [])
_THOUGHTS = re.compile(r"\A.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE)
_ODD = re.compile(
    r'"(?:[^"\\]|\\.)*"|,(?=(?:\s|//[^\n]*\n|/\*.*?\*/)*[}\]])|//[^\n]*|/\*.*?\*/|\b(?:True|False|None|NaN)\b',
    re.DOTALL,
)
"""Strings, which stay, and what is no JSON though models write it: a last comma, comments, Python's words."""
_PYTHON = {"True": "true", "False": "false", "None": "null", "NaN": "null"}
_DECODER = json.JSONDecoder(strict=False)
_PLACE = re.compile(r"(.+?):L?(\d+)(?:[-:,]L?\d+)?", re.DOTALL)

_LISTS = "findings issues problems comments bugs errors results reviews suggestions diagnostics defects"
_ALIASES = {
    "rule": "rule ruleid rulename checkname check",
    "title": "title summary headline name subject",
    "explanation": "explanation description body message details detail reason rationale comment text problem issue",
    "trigger": "trigger when impact",
    "severity": "severity priority level importance",
    "category": "category type class kind",
    "confidence": "confidence confidencescore certainty probability",
    "path": "path file filename filepath absolutefilepath relativepath newpath",
    "line": "line startline linestart start linenumber lineno lines linerange range newline from",
    "quote": "quote code snippet codesnippet existingcode evidence excerpt quotedcode source",
    "replacement": "replacement suggestion suggestedcode suggestedfix fix improvedcode patch",
}
_FIELD_OF = {alias: field for field, aliases in _ALIASES.items() for alias in aliases.split()}
_VERDICT_ALIASES = {
    "n": "n number id index finding findingnumber",
    "holds": "holds valid isvalid confirmed verdict real correct",
    "why": "why reason explanation rationale",
    "severity": "severity",
    "same_as": "sameas duplicateof duplicate",
}
_CLOSING_ALIASES = {
    "summary": "summary paragraph overview text",
    "duplicates": "duplicates same groups",
    "order": "order ranking ranked",
}
_SEVERITY_WORDS: Mapping[Severity, str] = {
    "critical": "critical crit blocker blocking fatal severe urgent catastrophic p0 s0 s1 sev0 sev1",
    "high": "high major error important serious p1 s2 sev2",
    "medium": "medium med moderate normal warning warn p2 s3 sev3",
    "low": "low minor note notice trivial p3 s4 sev4",
    "info": "info informational information nit nitpick hint style suggestion optional p4 s5 sev5",
}
_SEVERITY_OF = {word: name for name, words in _SEVERITY_WORDS.items() for word in words.split()}
_SCORES: tuple[tuple[float, Severity], ...] = ((9.0, "critical"), (7.0, "high"), (4.0, "medium"), (0.0, "low"))
_SURE = {"certain": 1.0, "veryhigh": 0.95, "high": 0.9, "medium": 0.7, "moderate": 0.7, "low": 0.4, "verylow": 0.2}
_YES = "true yes holds valid confirmed confirm correct real 1".split()
_NO = "doesnothold nothold notvalid notabug false no invalid refuted rejected wrong incorrect falsepositive 0".split()

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


class Claim(Record, kw_only=True):
    """A finding as the model states it, before anything is known of its place.

    `line` is 0 if the model names none, `confidence` 1 if it states none. `rule` and `category` are plain names.
    """

    rule: str = ""
    title: str
    explanation: str
    severity: Severity
    category: str = "correctness"
    confidence: float = 1.0
    path: str
    line: int
    quote: str
    replacement: str | None = None


class Claims(Record, kw_only=True):
    """The findings of an answer: the readable ones, those over the limit, and the text of each unreadable one."""

    read: tuple[Claim, ...] = ()
    surplus: tuple[Claim, ...] = ()
    unread: tuple[str, ...] = ()


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


def claims_in(answer: str) -> Claims:
    """The findings of an answer. Raises BadAnswer if there is no list of findings in it, or it is broken."""
    values, broken = _values(answer)
    lists = [found for value in values if (found := _entries(value, _is_finding, _LISTS)) is not None]
    if _WRAPPING.sub("", answer) == "[]":
        lists = [[]]  # within other words an empty list is no answer
    entries = [entry for found in lists for entry in found]
    read, unread = [], []
    for entry in entries:
        claim = _claim(entry)
        if claim is None:
            unread.append(json.dumps(entry, ensure_ascii=False)[:_LONGEST])
        elif claim not in read:
            read.append(claim)
    read.sort(key=lambda claim: SEVERITIES.index(claim.severity))
    claims = Claims(read=tuple(read[:MOST_FINDINGS]), surplus=tuple(read[MOST_FINDINGS:]), unread=tuple(unread))
    names = {_plain(name) for name in re.findall(r"[\"'](\w+)[\"']\s*:", broken[:_LONGEST])}
    # Whether the broken text looks like the list of findings, and not like words in braces.
    if broken and (not lists or names & {*_LISTS.split(), "severity", "title", "explanation", "quote"}):
        rest = claims.replace(unread=(*unread, broken[:_LONGEST])) if entries else None
        raise BadAnswer("it is not valid JSON", rest)
    if not lists:
        raise BadAnswer('there is no JSON object with the list "findings" in it')
    return claims


def verdicts_in(answer: str, count: int) -> dict[int, SecondLook]:
    """The verdicts on `count` findings by their number, from 1. Raises BadAnswer if one is missing."""
    entries = [each for value in _values(answer)[0] for each in _entries(value, _is_verdict) or ()]
    fields = [_fields(entry, _VERDICT_ALIASES) for entry in entries if isinstance(entry, dict)]
    numbers = [_number(each["n"]) for each in fields]
    shift = 1 if 0 in numbers and count not in numbers else 0
    found: dict[int, SecondLook] = {}
    for place, (each, number) in enumerate(zip(fields, numbers, strict=True), 1):
        word, same = _plain(str(each["holds"])), _number(each["same_as"])
        if word not in (*_YES, *_NO):
            continue
        verdict = SecondLook(
            holds=word in _YES,
            why=_text(each["why"]),
            severity=severity_in(each["severity"]),
            same_as=same + shift if same is not None and same + shift > 0 else None,
        )
        if number is None and len(fields) == 1 and (verdict.holds or count == 1):
            found = dict.fromkeys(range(1, count + 1), verdict)
        else:
            found.setdefault(place if number is None else number + shift, verdict)
    found = {number: verdict for number, verdict in found.items() if 1 <= number <= count}
    if missing := [str(number) for number in range(1, count + 1) if number not in found]:
        raise BadAnswer(f"there is no verdict on finding {', '.join(missing)}", found or None)
    return found


def closing_in(answer: str, count: int) -> Closing:
    """The last words on `count` findings; none if the answer has no summary."""

    def numbers(value: object) -> tuple[int, ...]:
        listed = [_number(each) for each in value] if isinstance(value, list) else []
        return tuple(dict.fromkeys(each for each in listed if each is not None and 1 <= each <= count))

    for value in _values(answer)[0]:
        fields = _fields(value, _CLOSING_ALIASES) if isinstance(value, dict) else {}
        if text := _text(fields.get("summary")):
            groups = fields["duplicates"] if isinstance(fields["duplicates"], list) else []
            joined = tuple(each for each in map(numbers, groups) if len(each) > 1)
            return Closing(summary=text, groups=joined, ranking=numbers(fields["order"]))
    return Closing()


def _values(answer: str) -> tuple[list[Any], str]:
    """The outermost JSON values of an answer, without what it thought before, and the first text that is broken."""
    rest = _THOUGHTS.sub("", answer, count=1)
    found = _decoded(rest)
    return found if found[0] or rest == answer else _decoded(answer)


def _decoded(text: str) -> tuple[list[Any], str]:
    """The values in a text, after repairs if one is nearly JSON, and the first part that is broken."""
    import ast

    values, start = _scanned(text)
    if start is None:
        return [value for _, value in values], ""
    before, broken = [value for place, value in values if place < start], text[start:]
    repaired = _ODD.sub(lambda odd: odd[0] if odd[0].startswith('"') else _PYTHON.get(odd[0], ""), broken)
    more, still_broken = _scanned(repaired)
    if still_broken is None:
        return before + [value for _, value in more], ""
    literal = broken[:_LONGEST_LITERAL][: max(broken.rfind("}"), broken.rfind("]")) + 1]
    try:
        return [*before, ast.literal_eval(literal)], ""
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return before + [value for _, value in more], broken


def _scanned(text: str) -> tuple[list[tuple[int, Any]], int | None]:
    """The outermost values of a text, each with its place, and the place of the first that is broken, if any."""
    values: list[tuple[int, Any]] = []
    broken, place, tries = None, 0, 0
    while len(values) < _MOST_VALUES and tries < _MOST_TRIES and (opening := _OPENING.search(text, place)):
        place = opening.start()
        try:
            value, end = _DECODER.raw_decode(text, place)
            values.append((place, value))
            place = end
        except (ValueError, RecursionError):
            tries += 1
            if broken is None and _BROKEN.match(text, place):
                broken = place
            place += 1
    return values, broken


def _entries(value: object, is_entry: Callable[[object], bool], names: str = "", depth: int = 0) -> list[Any] | None:
    """The entries that a value lists, be it under one of these names; None if it lists none."""
    if isinstance(value, list):
        return value if any(map(is_entry, value)) else None
    if not isinstance(value, dict) or depth > _DEEPEST:
        return None
    named = {_plain(key): each for key, each in value.items()}
    for listed in (named[name] for name in names.split() if name in named):
        if listed is None or isinstance(listed, list):
            return listed or []
    if is_entry(value):
        return [value]
    if value and all(map(is_entry, value.values())):
        return [{"n": key, **each} for key, each in value.items()]
    found = (_entries(each, is_entry, names, depth + 1) for each in value.values())
    return next((each for each in found if each is not None), None)


def _is_finding(value: object) -> bool:
    fields = {_FIELD_OF.get(_plain(key)) for key in value} if isinstance(value, dict) else set()
    return len(fields & {"title", "explanation", "severity", "path", "quote"}) >= 3


def _is_verdict(value: object) -> bool:
    return isinstance(value, dict) and bool({*map(_plain, value)} & {*_VERDICT_ALIASES["holds"].split()})


def _claim(entry: object) -> Claim | None:
    """The finding in an entry; None if it says neither what is wrong nor where."""
    if not isinstance(entry, dict):
        return None
    fields = _fields(entry, _ALIASES)
    texts = {name: _text(value) for name, value in fields.items()}
    title, trigger, path, line = texts["title"], texts["trigger"], texts["path"], _number(fields["line"])
    explanation = texts["explanation"] or trigger or title
    if not explanation.strip() or not (path or texts["quote"]):
        return None
    if trigger and trigger not in explanation:
        explanation = f"{trigger}\n\n{explanation}"
    if (placed := _PLACE.fullmatch(path)) is not None:
        path, line = placed[1], line or int(placed[2][:9])
    title = title or explanation.strip().split("\n")[0]
    return Claim(
        rule=known_rule(texts["rule"] or title),
        title=title[:_LONGEST],
        explanation=explanation[:_LONGEST],
        severity=severity_in(fields["severity"]) or "high",
        category=rule_name(texts["category"] or "correctness"),
        confidence=_confidence(fields["confidence"]),
        path=path[:4_000],
        line=line or 0,
        quote=texts["quote"][:_LONGEST],
        replacement=texts["replacement"][:_LONGEST] if isinstance(fields["replacement"], (str, list)) else None,
    )


def _fields(entry: Mapping[str, object], aliases: Mapping[str, str]) -> _Json:
    """The values of an entry by field: the first that is not empty under one of the field's names, else None."""
    flat: _Json = {}
    for key, value in _flat(entry):
        if flat.get(name := _plain(key)) in _EMPTY:
            flat[name] = value
    return {
        field: next((flat[name] for name in names.split() if flat.get(name) not in _EMPTY), None)
        for field, names in aliases.items()
    }


def _flat(entry: Mapping[str, object], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an entry, those of nested objects after its own: a place is often an object."""
    nested = {key: value for key, value in entry.items() if isinstance(value, dict)}
    yield from ((key, value) for key, value in entry.items() if key not in nested)
    if depth < _DEEPEST:
        for key, value in nested.items():
            for name, inner in _flat(value, depth + 1):
                yield (key if name in ("start", "value") and _plain(key) in _FIELD_OF else name), inner


def severity_in(value: object) -> Severity | None:
    """The severity that a word or a number means; None for any other."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        if value in range(len(SEVERITIES)):
            return SEVERITIES[int(value)]  # a priority: 0 is the gravest
        return next((name for least, name in _SCORES if value >= least), None)
    words = re.findall(r"[a-z]+(?:[- ]?\d)?|\d+", str(value).lower())
    found = (_SEVERITY_OF.get(re.sub(r"[- ]", "", word)) or _SEVERITY_OF.get(word) for word in words)
    named = next((each for each in found if each is not None), None)
    return severity_in(int(words[0])) if named is None and words and words[0].isdigit() else named


def _confidence(value: object) -> float:
    """A share of 1, of a share, a percentage, a number out of ten or a word."""
    if isinstance(value, str):
        number = re.search(r"\d+(?:[.,]\d+)?", value)
        if number is None:
            return _SURE.get(_plain(value), 1.0)
        parsed = float(number.group().replace(",", "."))
        value = parsed / 100 if "%" in value else parsed
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return 1.0
    share = value if value <= 1 else value / 10 if value <= 10 else value / 100
    return min(max(float(share), 0.0), 1.0)


def _number(value: object) -> int | None:
    """The first whole number in a value: of 31, "L31", "31-32" or [31, 32]."""
    found = re.search(r"\d{1,9}", str(value)) if not isinstance(value, bool) and value is not None else None
    return int(found.group()) if found else None


def _text(value: object) -> str:
    """A value as text; a list of texts is rows."""
    if isinstance(value, list):
        return "\n".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
