"""JUnit XML, as test reports of CI servers take it: a test case for each finding and for each file.

A finding at or above `--fail-on` is a failure, one below it passes with its text as output; a hunk that was not
reviewed is an error, what was skipped is skipped, a file without any of these passes.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from codelet.review.findings import Report, weight
from codelet.review.formats import telling

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """The report as one suite of test cases."""
    cases = _cases(report)
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    time = f"{report.duration:.3f}"
    totals = {"tests": str(len(cases)), "failures": str(counts["failure"]), "errors": str(counts["error"])}
    root = Element("testsuites", {"name": "codelet review", "time": time, **totals})
    facts = {"name": "codelet review", **totals, "skipped": str(counts["skipped"]), "time": time}
    suite = SubElement(root, "testsuite", facts)
    properties = SubElement(suite, "properties")
    for name, value in {
        "subject": report.subject,
        "outcome": report.outcome,
        "result": telling.result_sentence(report),
        "coverage": telling.coverage_sentence(report),
        "complete": "yes" if telling.is_whole(report) else "no",
        "exit": str(report.exit),
    }.items():
        SubElement(properties, "property", {"name": name, "value": _xml(value)})
    suite.extend(cases)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _cases(report: Report) -> list[Element]:
    """A case for each file (what was not reviewed of it, or that it was), then those of findings."""
    states: dict[str, list[tuple[str, str]]] = {}
    for hunk in report.hunks:
        states.setdefault(hunk.path, []).append((hunk.state, f"{telling.hunk_place(hunk)}: {hunk.why or hunk.state}"))
    cases = []
    for path, hunks in states.items():
        if missing := [text for state, text in hunks if state in ("truncated", "failed")]:
            case = _case("reviewed", path, "error", "\n".join(missing), "incomplete", "not reviewed as a whole")
        elif all(state == "skipped" for state, _ in hunks):
            case = _case("reviewed", path, "skipped", "\n".join(text for _, text in hunks), "skipped")
        else:
            case = _case("reviewed", path)
        cases.append(case)
    least = 5 if report.gate.fail_on is None else weight(report.gate.fail_on)
    for finding in report.findings:
        where = telling.finding_place(finding)
        facts = f"{finding.severity}, {finding.category}, confidence {finding.confidence:.2f}"
        tag = "failure" if finding.weight >= least else "system-out"
        text = f"{where}\n{facts}\n{telling.body(finding)}"
        cases.append(_case(f"{where} {finding.rule}", finding.path, tag, text, finding.severity, finding.title))
    kept = [each for each in report.aside if each.kind in ("ignored", "known")]
    for aside in (*report.unsettled, *kept):
        name = f"{telling.finding_place(aside)} {aside.rule} ({aside.kind})"
        if aside in kept:
            cases.append(_case(name, aside.path, "skipped", f"{aside.title}\n{aside.why}", aside.kind))
            continue
        # An error if it makes the review incomplete.
        tag = "error" if aside.kind == "unconfirmed" or aside.weight >= least else "system-out"
        text = f"{aside.severity}\n{telling.unsettled_body(aside, report)}"
        cases.append(_case(name, aside.path, tag, text, aside.kind, aside.title))
    if not telling.is_whole(report) and not telling.not_reviewed(report):
        text = telling.incomplete_sentence(report)
        cases.append(_case("the review as a whole", "codelet.review", "error", text, "incomplete"))
    return cases


def _case(name: str, path: str, tag: str = "", text: str = "", kind: str = "", message: str | None = None) -> Element:
    case = Element("testcase", {"name": _xml(name), "classname": _xml(telling.on_one_line(path))})
    if tag:
        facts = {"message": _xml(message or text.split("\n")[0]), "type": kind} if tag != "system-out" else {}
        SubElement(case, tag, facts).text = _xml(text)
    return case


def _xml(text: str) -> str:
    """The text without what XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
