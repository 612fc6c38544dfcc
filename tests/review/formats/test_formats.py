"""Each format against its schema, its golden file, and a report that tries to be something else."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from jsonschema import Draft4Validator, Draft202012Validator
from markdown_it import MarkdownIt

from codelet.review.findings import Gate, Report, concluded
from codelet.review.formats.issue_lists import code_quality, github_annotations, junit, rdjson
from codelet.review.formats.markdown_report import markdown_report, markdown_text
from codelet.review.formats.sarif import sarif
from tests.review.formats.sample import EVIL, EVIL_PATH, REPORTS, clean, hostile, incomplete, unsettled, whole

HERE = Path(__file__).parent
SCHEMAS = HERE.parent / "schemas"
GOLDEN = HERE / "golden"


WRITERS: dict[str, Callable[[Report], str]] = {
    "sarif": sarif,
    "gitlab": code_quality,
    "rdjson": rdjson,
    "github": github_annotations,
    "junit": junit,
    "markdown": markdown_report,
}
ALL = {**REPORTS, "hostile": hostile()}


def schema_errors(name: str, text: str) -> list[str]:
    schema = json.loads((SCHEMAS / name).read_text())
    validator = Draft4Validator if "draft-04" in schema["$schema"] else Draft202012Validator
    return [error.message for error in validator(schema).iter_errors(json.loads(text))]


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("name", ["whole", "incomplete", "unsettled"])
def test_golden(form: str, name: str) -> None:
    """A format's golden file; CODELET_WRITE_GOLDEN=1 writes the files, so that the difference can be read."""
    text = re.sub(r'("semanticVersion": )"[^"]*"', r'\1"0"', WRITERS[form](REPORTS[name]))
    file = GOLDEN / f"{name}.{form}"
    if os.environ.get("CODELET_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("form", "schema"),
    [("sarif", "sarif-2.1.0.json"), ("gitlab", "gitlab-code-quality.json"), ("rdjson", "rdjson.json")],
)
def test_json_forms_keep_to_their_schema(form: str, schema: str, name: str) -> None:
    assert schema_errors(schema, WRITERS[form](ALL[name])) == []


@pytest.mark.parametrize("name", ALL)
def test_junit_keeps_to_its_schema(name: str) -> None:
    xmlschema = pytest.importorskip("xmlschema")
    schema = xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd"))
    assert [error.reason for error in schema.iter_errors(junit(ALL[name]))] == []


def test_the_schemas_can_tell() -> None:
    wrong = sarif(whole()).replace('"level": "error"', '"level": "high"')
    assert schema_errors("sarif-2.1.0.json", wrong)
    assert schema_errors("gitlab-code-quality.json", code_quality(whole()).replace('"blocker"', '"worst"'))
    assert schema_errors("rdjson.json", rdjson(whole()).replace('"ERROR"', '"HIGH"'))


@pytest.mark.parametrize("name", ALL)
def test_somebody_elses_reader_takes_the_sarif(name: str) -> None:
    reader = pytest.importorskip("sarif_pydantic")
    log = reader.Sarif.model_validate_json(sarif(ALL[name]))
    findings = ALL[name].findings
    results = log.runs[0].results[: len(findings)]
    found = [(each.rule_id, each.locations[0].physical_location.region.start_line) for each in results]
    assert found == [(finding.rule, finding.line) for finding in findings]


def test_sarif_says_what_services_look_at() -> None:
    run = json.loads(sarif(whole()))["runs"][0]
    first, second, ignored, known, misplaced = run["results"]
    assert misplaced["properties"]["unsettled"] == "misplaced" and "suppressions" not in misplaced
    assert (first["level"], second["level"]) == ("error", "note")
    assert first["partialFingerprints"] == {"codeletReview/v1": "a" * 32}
    assert first["locations"][0]["physicalLocation"]["region"]["startLine"] == 22
    assert (
        first["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"]
        == "    json.loads(order)\n"
    )
    assert ignored["suppressions"] == [{"kind": "inSource", "status": "accepted", "justification": "checked by hand"}]
    assert known["suppressions"][0]["kind"] == "external"
    rules = run["tool"]["driver"]["rules"]
    assert [rules[each["ruleIndex"]]["id"] for each in run["results"]] == [each["ruleId"] for each in run["results"]]
    score = {rule["id"]: rule["properties"].get("security-severity") for rule in rules}
    assert score["code-injection"] == "9.5"
    assert score["off-by-one"] is None, "only what concerns security has one"


# Where each format says that a review is not whole.
UNFINISHED: dict[str, Callable[[str], object]] = {
    "sarif": lambda text: not json.loads(text)["runs"][0]["invocations"][0]["executionSuccessful"],
    "gitlab": lambda text: [each for each in json.loads(text) if each["check_name"] == "codelet-incomplete"],
    "rdjson": lambda text: [e for e in json.loads(text)["diagnostics"] if e["code"]["value"] == "codelet-incomplete"],
    "github": lambda text: "INCOMPLETE" in text and "::error title=codelet review::" in text,
    "junit": lambda text: ElementTree.fromstring(text).get("errors") != "0",
    "markdown": lambda text: "INCOMPLETE" in text,
}


NOT_WHOLE = {
    "hunks and more": incomplete(),
    "hunks alone": incomplete().replace(partial=False, error=None, lost=0),
    "lost alone": clean().replace(lost=1),
    "an error alone": clean().replace(error="the limit was reached"),
    "ended early": REPORTS["ended_early"],
    "with findings": whole().replace(partial=True),
    "without a place": unsettled(),
}


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("name", NOT_WHOLE)
def test_incomplete_is_never_clean(form: str, name: str) -> None:
    text = WRITERS[form](NOT_WHOLE[name])
    assert UNFINISHED[form](text)
    assert "No findings." not in text and not NOT_WHOLE[name].is_whole


@pytest.mark.parametrize("form", WRITERS)
def test_a_whole_review_is_not_called_incomplete(form: str) -> None:
    assert not UNFINISHED[form](WRITERS[form](whole()))
    assert not UNFINISHED[form](WRITERS[form](clean()))


def test_each_unreviewed_hunk_is_named() -> None:
    run = json.loads(sarif(incomplete()))["runs"][0]
    told = [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]
    assert told[1:] == [f"{each.state}: {each.why}" for each in incomplete().unreviewed]
    assert [each["location"]["path"] for each in json.loads(code_quality(incomplete()))] == [
        "shop/orders.py",
        "shop/pages.py",
    ]
    suite = ElementTree.fromstring(junit(incomplete()))
    assert suite.get("errors") == "2"


def decoded(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as the runner reads it: name, properties, text."""
    assert line.startswith("::")
    head, _, text = line[2:].partition("::")
    name, _, listed = head.partition(" ")
    properties = dict(each.split("=", 1) for each in listed.split(","))
    # The runner undoes exactly what it documents, %25 last.
    codes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}

    def plain(value: str) -> str:
        for code, sign in codes.items():
            value = value.replace(code, sign)
        return value

    return name, {key: plain(value) for key, value in properties.items()}, plain(text)


def test_annotations_survive_names_and_texts() -> None:
    lines = github_annotations(hostile()).splitlines()
    assert len(lines) == 4, "no text begins a line"
    name, properties, text = decoded(lines[1])
    assert name == "error"
    assert properties["file"] == EVIL_PATH
    assert properties["line"] == "22"
    assert properties["title"].startswith("::error file=x::%0A <img")
    assert "\n::warning::x\n" in text
    assert "\x1b" not in "".join(lines) and "\u202e" not in "".join(lines)
    assert all(decoded(line)[1]["file"] == EVIL_PATH for line in lines[1:4])


def test_markdown_makes_nothing_of_others_texts() -> None:
    tokens = MarkdownIt("commonmark").enable("linkify", True).parse(markdown_report(hostile()))
    inline = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inline} <= {
        "text", "softbreak", "strong_open", "strong_close", "code_inline", "html_inline",
    }  # fmt: skip
    assert {child.content for child in inline if child.type == "html_inline"} <= {"<!-- -->", "<sub>", "</sub>"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2", "h3", "h2", "h3", "h2", "h2"]
    assert "@everyone" not in markdown_report(hostile()).replace("```diff", "").split("Suggestion")[0]
    fences = [token.content for token in tokens if token.type == "fence"]
    assert fences[0] == "    eval(order)  # ```</pre><script>\n"


def test_a_quote_and_a_suggestion_come_through_markdown_word_for_word() -> None:
    tokens = MarkdownIt("commonmark").parse(markdown_report(whole()))
    fences = [token.content for token in tokens if token.type == "fence"]
    first = whole().findings[0]
    assert fences[:2] == [f"{first.quote}\n", f"-{first.quote}\n+{first.replacement}\n"]


# How each format lists a finding by its title, and with what weight.
LISTED: dict[str, Callable[[str, str], object]] = {
    "sarif": lambda text, title: [
        (each["level"], each["message"]["text"])
        for each in json.loads(text)["runs"][0]["results"]
        if title in each["message"]["text"] and "suppressions" not in each
    ],
    "gitlab": lambda text, title: [
        (each["severity"], each["description"]) for each in json.loads(text) if title in each["description"]
    ],
    "rdjson": lambda text, title: [
        (each["severity"], each["message"]) for each in json.loads(text)["diagnostics"] if title in each["message"]
    ],
    "github": lambda text, title: [
        (line.split(" ")[0].strip(":"), decoded(line)[2])
        for line in text.splitlines()
        if title in decoded(line)[1]["title"]
    ],
    "junit": lambda text, title: [
        (each[0].tag, each[0].text)
        for each in ElementTree.fromstring(text).iter("testcase")
        if len(each) and title in str(each[0].text)
    ],
    "markdown": lambda text, title: [("", part) for part in text.split("\n### ") if title in part.split("\n")[0]],
}
WEIGHTS = {
    "sarif": ("error", "error", "note"), "gitlab": ("blocker", "critical", "minor"),
    "rdjson": ("ERROR", "ERROR", "INFO"),
    "github": ("error", "error", "notice"), "junit": ("error", "error", "system-out"), "markdown": ("", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("form", WRITERS)
def test_what_has_no_place_or_no_confirmation_is_listed_with_all_that_is_known(form: str) -> None:
    text = WRITERS[form](unsettled())
    for each, expected in zip(unsettled().unsettled, WEIGHTS[form], strict=True):
        ((weight, entry),) = LISTED[form](text, each.title)
        assert weight == expected
        for known in (each.quote.strip(), *each.explanation.split("\n")):
            assert known in entry.replace("\\", "").replace("&#45;", "-")
        if form == "markdown":
            assert each.path in entry


def test_a_finding_names_its_file_or_none() -> None:
    """If a format demands a path, the text contains the file that the model named."""
    placed = {each["check_name"]: each for each in json.loads(code_quality(unsettled()))}
    assert placed["dead-code"]["location"]["path"] == "shop/orders.py"
    assert "src/pool.rs" in placed["lost-wakeup"]["description"]
    lines = [decoded(line)[1] for line in github_annotations(unsettled()).splitlines()]
    assert [line.get("file") for line in lines[1:4]] == [None, "shop/orders.py", "shop/orders.py"]
    assert [line.get("line") for line in lines[1:4]] == [None, "22", None]


def test_junit_fails_only_what_the_gate_fails() -> None:
    def failures(report: Report) -> str | None:
        return ElementTree.fromstring(junit(report)).get("failures")

    assert failures(whole()) == "1", "the low one passes: --fail-on is high"
    assert failures(whole().replace(gate=Gate(fail_on="info"))) == "2"
    assert failures(whole().replace(gate=Gate(fail_on=None))) == "0"


def test_gitlab_shows_each_of_two_findings_with_one_fingerprint() -> None:
    first = whole().findings[0]
    other = first.replace(rule="command-injection", title="Another one on this line")
    issues: list[dict[str, Any]] = json.loads(code_quality(concluded(whole().replace(findings=(first, other)))))
    assert issues[0]["fingerprint"] == "a" * 32
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == 3
    assert json.loads(code_quality(clean())) == []


def test_names_come_back_from_every_json_form() -> None:
    uri = json.loads(sarif(hostile()))["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert unquote(uri["uri"]) == EVIL_PATH
    assert json.loads(code_quality(hostile()))[0]["location"]["path"] == EVIL_PATH
    assert json.loads(rdjson(hostile()))["diagnostics"][0]["location"]["path"] == EVIL_PATH
    assert json.loads(rdjson(hostile()))["diagnostics"][0]["message"].startswith(EVIL)


def test_rules_have_what_code_scanning_asks_for_and_no_more_than_it_takes() -> None:
    one = whole().findings[0]
    found = tuple(one.replace(line=n, end_line=n, rule="sql-injection") for n in range(1, 6_000))
    many = whole().replace(findings=found)
    run = json.loads(sarif(many))["runs"][0]
    (rule,) = [each for each in run["tool"]["driver"]["rules"] if each["id"] == "sql-injection"]
    assert rule["fullDescription"]["text"] and rule["help"]["text"] and "89" in rule["helpUri"]
    assert "external/cwe/cwe-089" in rule["properties"]["tags"]
    assert len(run["results"]) == 5_000
    notes = [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]
    assert any("more findings" in note for note in notes)


def test_spans_of_code_stay_code_and_nothing_in_them_acts() -> None:
    assert markdown_text("call `num_idle(*x)` @me") == "call `num_idle(*x)` @<!-- -->me"
    assert markdown_text("a ` b_c") == "a \\` b\\_c"
    assert "`" not in markdown_text("x ``` y").replace("\\`", "")
