"""A finding is never lost: without a place, on unchanged lines, or not confirmed, it is listed and never green."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codelet.review.formats import FORMATS
from codelet.review.formats.sentences import NOTHING
from codelet.review.review_prompt import NOWHERE
from tests.review.conftest import DOUBLED, FLOORED
from tests.support import repo
from tests.support.reviews import REFUTED, asked, finding, found, is_confirmation, model, report, review
from tests.support.script import HttpError, Reply
from tests.support.server import ModelServer, Recorded

AGAIN = NOWHERE.partition("\n")[0]
ELSEWHERE = {
    "invented": finding("    return x ** 2", 6, severity="critical"),
    "half invented": finding("    return w * h * 2\n    print(w)", 2, severity="critical", title="Both"),
    "another file": finding("def caller():", 1, "lib/other.py", severity="critical"),
    "no file": finding("x = 1", 1, "  ", severity="critical"),
}


def reviewed(folder: Path, *claims: dict[str, Any], words: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    with ModelServer(model(found(*claims))) as server:
        done = review(server, folder, "HEAD", "--output", "json", *words)
    return done.exit, report(done)


@pytest.mark.parametrize("how", ELSEWHERE)
def test_without_a_place_a_grave_finding_makes_the_review_incomplete(changed: Path, how: str) -> None:
    claim = ELSEWHERE[how]
    exit_status, came = reviewed(changed, claim)
    assert (exit_status, came["exit"], came["partial"], came["findings"]) == (5, 5, True, [])
    assert came["error"]
    (aside,) = came["aside"]
    assert (aside["kind"], aside["severity"], aside["title"]) == ("misplaced", "critical", claim["title"])
    assert (aside["explanation"], aside["quote"], aside["line"]) == (claim["explanation"], claim["quote"], None)
    assert aside["path"] == claim["path"].strip()


POINTED_AT = {
    "removed": ("    return x / 2", 6, 6),
    "removed and added": ("    return x / 2\n    return x // 2", 6, 6),
    "cut short": ("    return x // …", 6, 6),
    "blanks": ("    return x /  / 2", 6, 6),
    "one edit": ("    return w * h * 2;", 2, 2),
    "rows left out": ("def area(w, h):\n...\n    return w * h * 2", 1, 1),
    "with signs": ("-    return w * h\n+    return w * h * 2", 2, 2),
    "with context": ("def area(w, h):\n    return w * h * 2\n\n", 1, 1),
    "with gutters": ("    1   def area(w, h):\n    2 +     return w * h * 2", 1, 1),
    "the number alone": ("", 6, 6),
}


@pytest.mark.parametrize("how", POINTED_AT)
def test_however_a_row_is_quoted_the_finding_has_its_place(changed: Path, how: str) -> None:
    quote, number, line = POINTED_AT[how]
    exit_status, came = reviewed(changed, finding(quote, number, severity="critical", title="Bad"))
    assert exit_status == 1
    (one,) = came["findings"]
    assert (one["line"], one["severity"], one["unchanged"], one["verified"]) == (line, "critical", False, True)
    removed = {"removed": "    return x / 2", "removed and added": "    return x / 2", "with signs": "    return w * h"}
    assert one["removed"] == removed.get(how, "")


def test_what_is_nowhere_is_asked_for_once_more(changed: Path) -> None:
    """In the same conversation: what has a place then is reported, what has none is listed."""
    wrong = [ELSEWHERE["invented"], ELSEWHERE["half invented"], DOUBLED]
    right = ELSEWHERE["invented"] | {"quote": "    return x // 2"}

    def answer(request: Recorded) -> Reply:
        return Reply(found(*wrong) if AGAIN not in asked(request) else found(right))

    with ModelServer(model(answer)) as server:
        done = review(server, changed, "HEAD", "--output", "json")
        again = next(each for each in server.requests if AGAIN in asked(each))
    assert [each["role"] for each in again.messages if each["role"] != "system"] == ["user", "assistant", "user"]
    came = report(done)
    assert sorted(each["line"] for each in came["findings"]) == [2, 6]
    assert [(each["kind"], each["title"]) for each in came["aside"]] == [("misplaced", "Both")]
    assert done.exit == 5


def test_an_entry_that_cannot_be_read_is_listed_and_makes_the_review_incomplete(changed: Path) -> None:
    exit_status, came = reviewed(changed, FLOORED, {"severity": "P1", "note": "unclear"})
    assert (exit_status, [each["line"] for each in came["findings"]]) == (5, [6])
    assert [(each["kind"], each["severity"]) for each in came["aside"]] == [("malformed", "high")]
    assert "unclear" in came["aside"][0]["explanation"]
    assert reviewed(changed, FLOORED, {"severity": "low", "note": "unclear"})[0] == 0


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_lists_it(changed: Path, form: str) -> None:
    with ModelServer(model(found(ELSEWHERE["invented"] | {"title": "It is too large"}))) as server:
        done = review(server, changed, "HEAD", "--output", form)
    assert done.exit == 5
    for known in ("It is too large", "critical", "It goes wrong for every input.", "return x ** 2", "app.py"):
        wanted = "blocker" if (known, form) == ("critical", "gitlab") else known
        wanted = "ERROR" if (known, form) == ("critical", "rdjson") else wanted
        assert wanted in done.out.replace("\\*", "*")
    assert NOTHING not in done.out


def test_precedence_and_what_is_below_the_gate(changed: Path) -> None:
    grave, small = ELSEWHERE["invented"], ELSEWHERE["invented"] | {"severity": "medium"}
    assert reviewed(changed, DOUBLED, grave)[0] == 5, "5 comes before 1"
    exit_status, came = reviewed(changed, DOUBLED, small)
    assert (exit_status, came["partial"], came["set_aside"]["misplaced"]) == (1, False, 1)
    exit_status, came = reviewed(changed, small)
    assert (exit_status, came["partial"], came["set_aside"]["misplaced"]) == (0, False, 1)
    assert reviewed(changed, small, words=("--fail-on", "medium"))[0] == 5
    assert reviewed(changed, grave, words=("--fail-on", "never"))[0] == 0
    exit_status, came = reviewed(changed, grave | {"confidence": 0.2}, words=("--min-confidence", "0.5"))
    assert (exit_status, came["set_aside"]["below"]) == (0, 1), "one with a place would not be reported either"


def test_text_names_what_has_no_place_at_any_severity(changed: Path) -> None:
    with ModelServer(model(found(ELSEWHERE["invented"] | {"severity": "low"}))) as server:
        done = review(server, changed, "HEAD")
    assert done.exit == 0
    assert "low  app.py  Wrong: return x ** 2\n" in done.out and "| " in done.out and "1 low" in done.out


def test_a_baseline_does_not_take_it(changed: Path, tmp_path: Path) -> None:
    words = ("--baseline", str(tmp_path / "known"), "--update-baseline")
    with ModelServer(model(found(ELSEWHERE["invented"]))) as server:
        for _ in range(2):
            assert review(server, changed, "HEAD", *words).exit == 5
    assert json.loads((tmp_path / "known").read_text())["findings"] == []


def test_on_an_unchanged_row_it_keeps_its_severity(tmp_path: Path) -> None:
    """A change can make a row wrong that it does not touch."""
    rows = "take(lock)\nfree(lock)\n\n\nfree(lock)\n"
    folder = repo.plain(tmp_path / "r", {"app.py": rows})
    repo.commit(folder, {"app.py": "take(lock)\nif done(): free(lock)\n\n\nfree(lock)\n"})
    double = finding("free(lock)", 5, severity="critical")
    exit_status, came = reviewed(folder, double)
    (one,) = came["findings"]
    assert (exit_status, one["severity"], one["line"], one["unchanged"]) == (1, "critical", 5, True)
    assert not any(came["set_aside"].values())
    with ModelServer(model(found(double), REFUTED)) as server:
        assert review(server, folder, "HEAD").exit == 0, "the second look decides"
    with ModelServer(model(found(double))) as server:
        outputs = [word for form in FORMATS for word in ("--output", f"{form}={tmp_path}/{form}")]
        review(server, folder, "HEAD", *outputs)
    for form in FORMATS:
        assert "unchanged" in (text := (tmp_path / form).read_text()) or "does not touch" in text


def test_a_finding_without_a_confirmation_is_listed(changed: Path) -> None:
    with ModelServer(model(found(DOUBLED), lambda request: HttpError(500))) as server:
        done = review(server, changed, "HEAD", "--output", "json", "--output", f"text={changed.parent}/text")
        assert any(map(is_confirmation, server.requests))
    (aside,) = report(done)["aside"]
    assert (done.exit, report(done)["partial"], aside["kind"]) == (5, True, "unconfirmed")
    assert (aside["line"], aside["quote"], aside["explanation"]) == (2, DOUBLED["quote"], DOUBLED["explanation"])
    text = (changed.parent / "text").read_text()
    assert f"high  app.py:2  {DOUBLED['title']}" in text and DOUBLED["explanation"] in text


@pytest.mark.parametrize("path", ["app.py", "./deep/app.py", "deep/app.py", "b/src/deep/app.py", "src/deep/app.py"])
def test_the_end_of_a_path_names_its_file(tmp_path: Path, path: str) -> None:
    folder = repo.plain(tmp_path / "r", {"src/deep/app.py": "x = 1\n", "src/other.py": "y = 1\n"})
    repo.commit(folder, {"src/deep/app.py": "x = eval(1)\n", "src/other.py": "y = 2\n"})
    exit_status, came = reviewed(folder, finding("x = eval(1)", 1, path))
    assert (exit_status, [each["path"] for each in came["findings"]]) == (1, ["src/deep/app.py"])


def test_the_end_of_two_paths_names_neither(tmp_path: Path) -> None:
    folder = repo.plain(tmp_path / "r", {"one/app.py": "x = 1\n", "two/app.py": "x = 1\n"})
    repo.commit(folder, {"one/app.py": "x = 2\n", "two/app.py": "x = 2\n"})
    assert reviewed(folder, finding("x = 2", 1, "app.py"))[0] == 5
