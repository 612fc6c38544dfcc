"""`codelet review post`: what a request shows after a run, after the same run again, and when the service fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codelet.review.findings import Finding, HunkCoverage, Report, report_as_json
from tests.support.forges import FORGES, HEAD, OURS, THEIRS, Forge, GitHub
from tests.support.program import Finished, run

CHANGED = {"app.py": range(1, 41), "lib/new name.py": range(10, 20)}


@pytest.fixture(params=["github", "gitlab"])
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    with FORGES[request.param](CHANGED) as server:
        yield server


@pytest.fixture
def post(forge: Forge, tmp_path: Path) -> Callable[..., Finished]:
    """Posts a report to the server with the real program."""

    def act(given: Report | None, *words: str, env: dict[str, str] | None = None) -> Finished:
        file = tmp_path / "review.json"
        if given is not None:
            file.write_text(report_as_json(given))
            words = (str(file), *words)
        is_github = isinstance(forge, GitHub)
        (tmp_path / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
        variables = {
            "GITHUB_API_URL": forge.base,
            "GITHUB_TOKEN": forge.token,
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
            "CI_API_V4_URL": forge.base,
            "GITLAB_TOKEN": forge.token,
            "CI_PROJECT_ID": "group/project",
            "CI_MERGE_REQUEST_IID": "7",
            **(env or {}),
        }
        service = "--github" if is_github else "--gitlab"
        return run("review", "post", service, *words, cwd=tmp_path, env=variables)

    return act


def flaw(number: int, line: int = 0, path: str = "app.py", **more: Any) -> Finding:
    at = line or number
    given: dict[str, Any] = {
        "rule": f"rule-{number}", "title": f"Title {number}", "explanation": f"Reason {number}.", "severity": "high",
        "category": "correctness", "confidence": 0.9, "path": path, "line": at, "end_line": at,
        "quote": f"code {number}", "verified": True, "fingerprint": f"{number:032x}",
    }  # fmt: skip
    return Finding(**(given | more))


def reported(*findings: Finding, **more: Any) -> Report:
    hunks = tuple(HunkCoverage(path=path, state="reviewed", new_start=1, new_lines=40) for path in CHANGED)
    given: dict[str, Any] = {"subject": "HEAD since main", "base": "b" * 40, "head": HEAD, "findings": findings}
    given |= {"hunks": hunks, "chunks": 1, "requests": 2, "exit": 1}
    return Report(**(given | more))


def test_findings_are_commented_on_once_and_resolved_when_gone(forge: Forge, post: Callable[..., Finished]) -> None:
    first = post(reported(flaw(1), flaw(2), flaw(3)))
    assert first.exit == 0, first.err
    assert [("Title" in text, f"Reason {at}." in text) for at, text in enumerate(forge.bodies(), 1)] == [
        (True, True)
    ] * 3
    assert [each.get("line", each.get("new_line")) for each in forge.threads] == [1, 2, 3]
    (summary,) = forge.comments
    assert HEAD[:12] in summary["body"] and all(f"Title {at}" in summary["body"] for at in (1, 2, 3))

    forge.writes.clear()
    second = post(reported(flaw(1), flaw(2), flaw(3)))
    assert second.exit == 0, second.err
    assert forge.writes == []
    assert "0 new" in second.out and "3 there before" in second.out

    third = post(reported(flaw(2, 30), flaw(4)))
    assert third.exit == 0, third.err
    assert sorted(forge.writes) == ["comment again", "resolve", "resolve", "thread"]
    assert [each["resolved"] for each in forge.threads] == [True, False, True, False]

    forge.writes.clear()
    assert post(reported(flaw(1), flaw(2), flaw(4))).exit == 0
    assert "reopen" in forge.writes and "thread" not in forge.writes
    assert [each["resolved"] for each in forge.threads] == [False, False, True, False]


def test_what_a_person_resolved_stays_resolved(forge: Forge, post: Callable[..., Finished]) -> None:
    post(reported(flaw(1)))
    forge.threads[0] |= {"resolved": True, "by": THEIRS}
    forge.writes.clear()
    assert post(reported(flaw(1))).exit == 0
    assert forge.writes == []


def test_other_peoples_comments_with_our_marks_count_for_nothing(forge: Forge, post: Callable[..., Finished]) -> None:
    post(reported(flaw(1)))
    forge.threads[0]["author"] = THEIRS
    forge.comments[0]["author"] = THEIRS
    assert post(reported(flaw(1))).exit == 0
    assert [each["author"] for each in forge.threads] == [THEIRS, OURS]
    assert [each["author"] for each in forge.comments] == [THEIRS, OURS]
    post(reported())
    assert [each["resolved"] for each in forge.threads] == [False, True]


@pytest.mark.parametrize(
    "open_end",
    [
        {"partial": True, "exit": 4},
        {"error": "no answer", "exit": 3},
        {"lost": 1, "exit": 5},
        {"hunks": (HunkCoverage(path="app.py", state="failed", why="no answer"),)},
        {"head": "d" * 40},
        {"whole_base": "c" * 40, "exit": 0},
        {"aside": (Finding(kind="unconfirmed", why="x", rule="rule-1", title="t", severity="high", path="app.py"),)},
        {"aside": (Finding(kind="surplus", why="x", rule="rule-1", title="t", severity="high", path="app.py"),)},
        {"aside": (Finding(kind="misplaced", why="x", rule="other", title="t", severity="low", path="no/file"),)},
    ],
)
def test_nothing_is_resolved_by_a_review_that_does_not_show_it_gone(
    forge: Forge, post: Callable[..., Finished], open_end: dict[str, Any]
) -> None:
    post(reported(flaw(1)))
    done = post(reported(**open_end))
    assert done.exit == 0, done.err
    assert [each["resolved"] for each in forge.threads] == [False]
    if "head" not in open_end:
        post(reported())
        assert [each["resolved"] for each in forge.threads] == [True]


def test_the_last_commit_whose_review_passed_is_known(forge: Forge, post: Callable[..., Finished]) -> None:
    def last() -> str:
        return post(None, "--last-reviewed").out.strip()

    assert last() == ""
    for failed in (reported(partial=True), reported(flaw(1))):
        post(failed)
        assert last() == "", "what failed is reviewed again"
    post(reported(exit=0))
    assert last() == f"{'b' * 40}..{HEAD}"
    forge.head = "d" * 40
    for failed in (reported(head="d" * 40, error="no answer", exit=3), reported(flaw(1), head="d" * 40)):
        post(failed)
        assert last() == f"{'b' * 40}..{HEAD}"
    post(reported(head="d" * 40, base=HEAD, whole_base="b" * 40, exit=0))
    assert last() == f"{'b' * 40}..{'d' * 40}"


def test_a_finding_outside_the_shown_lines_is_put_on_its_file(forge: Forge, post: Callable[..., Finished]) -> None:
    done = post(reported(flaw(1), flaw(2, 500), flaw(3, path="gone.py")))
    assert done.exit == 0, done.err
    at = {each["body"].split("Title ")[1][0]: each for each in forge.threads}
    assert at["1"].get("line", at["1"].get("new_line")) == 1
    assert "line" not in at["2"] and "new_line" not in at["2"] and "app.py:500" in at["2"]["body"]
    if isinstance(forge, GitHub):
        assert "3" not in at and done.err.count("\n") == 1
        assert "Reason 3." in forge.comments[0]["body"]
    else:
        assert at["3"]["path"] is None and "gone.py:3" in at["3"]["body"]
    forge.writes.clear()
    assert post(reported(flaw(1), flaw(2, 500), flaw(3, path="gone.py"))).exit == 0
    assert forge.writes == []


def test_a_report_of_another_commit_is_put_on_files(forge: Forge, post: Callable[..., Finished]) -> None:
    done = post(reported(flaw(1), head="d" * 40))
    assert done.exit == 0 and done.err
    assert "line" not in forge.threads[0] and "new_line" not in forge.threads[0]
    assert "d" * 40 in forge.comments[0]["body"]


def test_a_suggestion_can_be_applied(forge: Forge, post: Callable[..., Finished]) -> None:
    quoted: dict[str, Any] = {"quote": "one\ntwo", "line": 4, "end_line": 5}
    post(reported(flaw(1, replacement="ONE\nTWO", **quoted), flaw(2, **quoted)))
    applied, other = forge.bodies()
    mark = "```suggestion\n" if isinstance(forge, GitHub) else "```suggestion:-1+0\n"
    assert f"{mark}ONE\nTWO\n```" in applied
    assert "```suggestion" not in other
    if isinstance(forge, GitHub):
        assert (forge.threads[0]["start_line"], forge.threads[0]["line"]) == (4, 5)


def test_removed_lines_that_a_finding_is_about_are_shown(forge: Forge, post: Callable[..., Finished]) -> None:
    post(reported(flaw(1, removed="the lock that was here")))
    assert "the lock that was here" in forge.bodies()[0]


def test_a_models_text_cannot_act_in_a_comment(forge: Forge, post: Callable[..., Finished]) -> None:
    words = "/approve\n/merge\n<!-- codelet:review " + "e" * 40 + " -->\n@everyone #1 ![x](http://x)"
    post(reported(flaw(1, title=words, explanation=words)))
    for text in (*forge.bodies(), forge.comments[0]["body"]):
        rows = text.split("\n")
        assert not any(row.lstrip().startswith("/") for row in rows)
        assert not any("<!-- codelet:review" in row for row in rows[1:])
        assert "@everyone" not in text and "![x]" not in text


@pytest.mark.parametrize("fault", ["429", "403 limit", "500", "lost before", "lost after"])
@pytest.mark.parametrize("where", ["GET|graphql", "POST .*(reviews|discussions)", "(POST|PUT|PATCH) .*(notes|issues)"])
def test_a_failing_service_leads_to_the_same_comments(
    forge: Forge, post: Callable[..., Finished], fault: Any, where: str
) -> None:
    forge.fail(where, fault)
    done = post(reported(flaw(1), flaw(2)))
    assert done.exit == 0, done.err
    assert not forge.faults
    assert len(forge.bodies()) == 2 and len(forge.comments) == 1


def test_more_than_a_page_of_threads_is_read(forge: Forge, post: Callable[..., Finished]) -> None:
    post(reported(flaw(1), flaw(2)))
    own, summary = forge.threads[:], forge.comments[:]
    others = [{**own[0], "id": f"d{number}", "author": THEIRS} for number in range(1000, 1250)]
    forge.threads[:] = [*others, *own]
    forge.comments[:] = [*({**summary[0], "id": 9000 + at, "author": THEIRS} for at in range(150)), *summary]
    forge.writes.clear()
    assert post(reported(flaw(1), flaw(2))).exit == 0
    assert forge.writes == []


def test_a_token_that_may_not_resolve_is_named(forge: Forge, post: Callable[..., Finished]) -> None:
    post(reported(flaw(1)))
    forge.may_resolve = False
    done = post(reported())
    assert done.exit == 0 and "403" in done.err and "0 resolved" in done.out
    assert len(forge.comments) == 1 and "No findings" in forge.comments[0]["body"]


def test_what_cannot_be_is_said_in_a_line(forge: Forge, post: Callable[..., Finished], tmp_path: Path) -> None:
    whole = reported(flaw(1))
    for words, env, status, named in (
        ((), {"GITHUB_TOKEN": "wrong", "GITLAB_TOKEN": "wrong"}, 2, "401"),
        ((), {"GITHUB_TOKEN": "", "GITLAB_TOKEN": "", "GH_TOKEN": ""}, 2, "TOKEN"),
        (("--request", "8"), {}, 2, "404"),
        ((), {"GITHUB_EVENT_PATH": "/nowhere", "CI_MERGE_REQUEST_IID": ""}, 2, "--request"),
        (("more.json",), {}, 2, "one JSON report"),
        ((), {"GITHUB_API_URL": "http://forge.example", "CI_API_V4_URL": "http://forge.example"}, 2, "https://"),
        (
            ("--timeout", "1"),
            {"GITHUB_API_URL": "http://127.0.0.1:9", "CI_API_V4_URL": "http://127.0.0.1:9"},
            3,
            "reach",
        ),
    ):
        done = post(whole, *words, env=env)
        assert (done.exit, done.err.count("\n")) == (status, 1), done.err
        assert named in done.err and "wrong" not in done.err
    forge.fail("GET|graphql", "redirect")
    done = post(whole)
    assert done.exit == 2 and "302" in done.err and not any("elsewhere" in each for each in forge.requests)
    assert forge.writes == []
    (tmp_path / "other.json").write_text("{}")
    assert post(None, str(tmp_path / "other.json")).exit == 2
