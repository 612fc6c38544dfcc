"""JUnit XML, as test reports of CI servers take it: a test case for each finding and for each file.

A finding at or above `--fail-on` is a failure, one below it passes with its text as output; a hunk that was not
reviewed is an error, what was skipped is skipped, a file without any of these passes.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from codelet.review.findings import Finding, Report, SetAside, weight
from codelet.review.formats import telling

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """The report as one suite of test cases."""
    cases = [
        *_files(report),
        *(_finding(each, report) for each in report.findings),
        *(_unsettled(each, report) for each in report.unsettled),
        *map(_ignored, _kept(report)),
    ]
    if not telling.is_whole(report) and not telling.not_reviewed(report):
        case = _case("the review as a whole", "codelet.review")
        _child(case, "error", telling.incomplete_sentence(report), "incomplete")
        cases.append(case)
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    time = f"{report.duration:.3f}"
    totals = {"tests": str(len(cases)), "failures": str(counts["failure"]), "errors": str(counts["error"])}
    root = Element("testsuites", {"name": "codelet review", "time": time, **totals})
    suite = SubElement(
        root, "testsuite", {"name": "codelet review", **totals, "skipped": str(counts["skipped"]), "time": time}
    )
    properties = SubElement(suite, "properties")
    for name, value in _facts(report).items():
        SubElement(properties, "property", {"name": name, "value": _xml(value)})
    suite.extend(cases)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _facts(report: Report) -> dict[str, str]:
    return {
        "subject": report.subject,
        "outcome": report.outcome,
        "result": telling.result_sentence(report),
        "coverage": telling.coverage_sentence(report),
        "complete": "yes" if telling.is_whole(report) else "no",
        "exit": str(report.exit),
    }


def _files(report: Report) -> list[Element]:
    """A case for each file: what was not reviewed of it, or that it was."""
    states: dict[str, list[tuple[str, str]]] = {}
    for hunk in report.hunks:
        states.setdefault(hunk.path, []).append((hunk.state, f"{telling.hunk_place(hunk)}: {hunk.why or hunk.state}"))
    cases = []
    for path, hunks in states.items():
        case = _case("reviewed", path)
        missing = [text for state, text in hunks if state in ("truncated", "failed")]
        if missing:
            _child(case, "error", "\n".join(missing), "incomplete", "not reviewed as a whole")
        elif all(state == "skipped" for state, _ in hunks):
            _child(case, "skipped", "\n".join(text for _, text in hunks), "skipped")
        cases.append(case)
    return cases


def _finding(finding: Finding, report: Report) -> Element:
    where = telling.place(finding.path, finding.line, finding.end_line)
    case = _case(f"{where} {finding.rule}", finding.path)
    facts = f"{finding.severity}, {finding.category}, confidence {finding.confidence:.2f}"
    text = f"{where}\n{facts}\n{telling.body(finding)}"
    limit = report.gate.fail_on
    if limit is not None and finding.weight >= weight(limit):
        _child(case, "failure", text, finding.severity, finding.title)
    else:
        SubElement(case, "system-out").text = _xml(text)
    return case


def _unsettled(aside: SetAside, report: Report) -> Element:
    """An error if it makes the review incomplete: at or above `--fail-on`, or not confirmed."""
    case = _case(f"{telling.place(aside.path, aside.line)} {aside.rule} ({aside.kind})", aside.path)
    text = f"{aside.severity}\n{telling.unsettled_body(aside, report)}"
    limit = report.gate.fail_on
    if aside.kind == "unconfirmed" or (limit is not None and aside.weight >= weight(limit)):
        _child(case, "error", text, aside.kind, aside.title)
    else:
        SubElement(case, "system-out").text = _xml(text)
    return case


def _kept(report: Report) -> list[SetAside]:
    return [each for each in report.aside if each.kind in ("ignored", "known")]


def _ignored(aside: SetAside) -> Element:
    case = _case(f"{telling.place(aside.path, aside.line)} {aside.rule} ({aside.kind})", aside.path)
    _child(case, "skipped", f"{aside.title}\n{aside.why}", aside.kind)
    return case


def _case(name: str, path: str) -> Element:
    return Element("testcase", {"name": _xml(name), "classname": _xml(telling.on_one_line(path))})


def _child(case: Element, tag: str, text: str, kind: str, message: str | None = None) -> None:
    child = SubElement(case, tag, {"message": _xml(message or text.split("\n")[0]), "type": kind})
    child.text = _xml(text)


def _xml(text: str) -> str:
    """The text without what XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
