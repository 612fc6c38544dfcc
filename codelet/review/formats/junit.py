"""JUnit XML, as test reports of CI servers take it: a test case for each file and for each notice.

A finding at or above `--fail-on` is a failure, one below it passes with its text as output; a hunk that was not
reviewed is an error. Skipped, ignored and known ones are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from codelet.review.findings import Gate, HunkCoverage, Report, weight
from codelet.review.formats import sentences
from codelet.review.formats.sentences import Notice

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """The report as one suite of test cases."""
    cases = [*_file_cases(report), *(_notice_case(each, report.gate) for each in sentences.notices(report))]
    for aside in report.aside:
        if aside.kind in ("ignored", "known"):
            name = f"{sentences.finding_place(aside)} {aside.rule} ({aside.kind})"
            cases.append(_case(name, aside.path, "skipped", f"{aside.title}\n{aside.why}", aside.kind))
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    totals = {"tests": str(len(cases)), "failures": str(counts["failure"]), "errors": str(counts["error"])}
    facts = {"name": "codelet review", "time": f"{report.duration:.3f}", **totals}
    root = Element("testsuites", facts)
    suite = SubElement(root, "testsuite", {**facts, "skipped": str(counts["skipped"])})
    properties = SubElement(suite, "properties")
    for name, value in {
        "subject": report.subject,
        "outcome": report.outcome,
        "result": sentences.result_sentence(report),
        "coverage": sentences.coverage_sentence(report),
        "complete": "yes" if sentences.is_whole(report) else "no",
        "exit": str(report.exit),
    }.items():
        SubElement(properties, "property", {"name": name, "value": _xml(value)})
    suite.extend(cases)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _file_cases(report: Report) -> Iterator[Element]:
    """Yield a case for each file that was reviewed as a whole, or skipped."""
    by_path: dict[str, list[HunkCoverage]] = {}
    for hunk in report.hunks:
        by_path.setdefault(hunk.path, []).append(hunk)
    for path, hunks in by_path.items():
        if all(hunk.state == "skipped" for hunk in hunks):
            text = "\n".join(f"{sentences.hunk_place(hunk)}: {hunk.why}" for hunk in hunks)
            yield _case("reviewed", path, "skipped", text, "skipped")
        elif all(hunk.state in ("skipped", "reviewed") for hunk in hunks):
            yield _case("reviewed", path)


def _notice_case(notice: Notice, gate: Gate) -> Element:
    is_grave = gate.fail_on is not None and weight(notice.severity) >= weight(gate.fail_on)
    if notice.kind == "finding":
        tag = "failure" if is_grave else "system-out"
    elif notice.kind == "nothing":
        tag = "skipped"
    else:  # an error if it makes the review incomplete
        tag = "error" if is_grave or notice.kind in ("unconfirmed", "unreviewed", "run") else "system-out"
    path = notice.path or "codelet.review"
    where = sentences.place(path, notice.line, notice.end_line)
    kind = notice.severity if notice.kind == "finding" else notice.kind
    return _case(f"{where} {notice.rule}", path, tag, f"{where}\n{notice.text}", kind, notice.title)


def _case(name: str, path: str, tag: str = "", text: str = "", kind: str = "", message: str | None = None) -> Element:
    case = Element("testcase", {"name": _xml(name), "classname": _xml(sentences.on_one_line(path))})
    if tag:
        facts = {"message": _xml(message or text.split("\n")[0]), "type": kind} if tag != "system-out" else {}
        SubElement(case, tag, facts).text = _xml(text)
    return case


def _xml(text: str) -> str:
    """The text without what XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
