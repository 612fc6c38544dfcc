"""Whole runs of `codelet review` with a scripted model on loopback: outputs, baselines, ignore comments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codelet.review.formats import FORMATS
from tests.support import repo
from tests.support.program import Finished, run
from tests.support.reviewing import Fault, reviewer
from tests.support.server import ModelServer

FAULTS = [
    Fault("eval(", replacement="    use(order)"),
    Fault("document.write", rule="cross-site-scripting", title="Text becomes markup", severity="medium"),
]
SHOP = "def place(order):\n    return order\n\n\ndef cancel(order):\n    return order\n"
SHOP_WITH_FAULT = SHOP.replace("    return order\n", "    eval(order)\n    return order\n", 1)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reviewer(FAULTS)) as running:
        yield running


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A branch with a bug in one file and none in another."""
    folder = repo.plain(tmp_path / "work", {"shop.py": SHOP, "lib.js": "export const a = 1;\n"})
    repo.git(folder, "checkout", "-q", "-b", "topic")
    repo.commit(folder, {"shop.py": SHOP_WITH_FAULT, "lib.js": "export const a = 2;\n"})
    return folder


def review(server: ModelServer, work: Path, *arguments: str, stdin: bytes | None = None) -> Finished:
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    variables = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
    return run("review", *arguments, cwd=work, home=home, env=variables, stdin=stdin)


def document(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def test_every_format_in_one_run(server: ModelServer, work: Path) -> None:
    words = [word for name in FORMATS for word in ("--output", f"{name}=../out.{name}")]
    done = review(server, work, "--base", "main", *words)
    assert (done.exit, done.err) == (1, "")
    assert "shop.py:2  Input is run as code" in done.out
    for name in FORMATS:
        text = (work.parent / f"out.{name}").read_text()
        assert "shop.py" in text and "Input is run as code" in text
    assert len(server.requests) == 2, "one chunk and one confirmation, however many formats"
    assert not [path.name for path in work.parent.iterdir() if path.name.startswith(".")], "no other file is left"


def test_a_diff_through_a_pipe_to_sarif(server: ModelServer, work: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    repo.git(tmp_path, "clone", "-q", str(work), str(clone))
    diff = repo.git(clone, "diff", "origin/main", "origin/topic") + "\n"
    done = review(server, clone, "--diff", "-", "--output", "sarif=out.sarif", stdin=diff.encode())
    assert done.exit == 1
    result = document(clone / "out.sarif")["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2
    assert result["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"] == "    use(order)\n"


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_a_format_on_stdout_stands_there_alone(server: ModelServer, work: Path, form: str) -> None:
    done = review(server, work, "--base", "main", "--output", f"{form}=-")
    assert done.exit == 1
    if form == "github":
        assert all(line.startswith("::") for line in done.out.splitlines())
        assert "::error file=shop.py,line=2,endLine=2,title=Input is run as code" in done.out
    else:
        assert isinstance(done.json(), dict)


@pytest.mark.parametrize("form", ["json", "markdown"])
def test_in_a_pipeline_no_line_of_a_report_is_a_command(server: ModelServer, work: Path, form: str) -> None:
    line = "::set-output name=x::eval(order) ##vso[task.setvariable]"
    repo.commit(work, {"shop.py": f"{SHOP}{line}\n"})
    home = work.parent / "home"
    home.mkdir()
    model = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
    runner = {"CI": "true", "GITHUB_ACTIONS": "true"}
    done = run("review", "--base", "main", "--output", f"{form}=-", cwd=work, home=home, env=model | runner)
    assert done.exit == 1 and "set-output" in done.out
    assert "##vso[" not in done.out and not any(row.lstrip().startswith("::") for row in done.out.splitlines())
    if form == "json":
        assert done.json()["findings"][0]["quote"] == line  # type: ignore[index]


def test_an_unknown_format_asks_nobody_and_names_those_there_are(server: ModelServer, work: Path) -> None:
    done = review(server, work, "--base", "main", "--output", "yaml=out.yaml")
    assert done.exit == 2
    assert "'yaml'" in done.err and "sarif" in done.err
    assert server.requests == []


def test_a_report_is_replaced_whole_and_one_that_cannot_be_is_said(server: ModelServer, work: Path) -> None:
    target = work.parent / "out.json"
    target.write_text("an older report")
    link = work.parent / "link.json"
    link.symlink_to(target)
    done = review(server, work, "--base", "main", "--output", f"json={target}", "--output", f"markdown={link}")
    assert document(target)["exit"] == 1
    assert done.exit == 5, "a report that was asked for is missing"
    assert str(link) in done.err


def test_nothing_is_new_after_lines_moved_and_a_new_fault_is(server: ModelServer, work: Path) -> None:
    known = ("--base", "main", "--baseline", "../known.json")
    assert review(server, work, *known, "--update-baseline").exit == 1
    repo.commit(work, {"shop.py": '"""A shop."""\n\nimport os\n\n\n' + SHOP_WITH_FAULT})
    again = review(server, work, *known, "--output", "json=-")
    assert (again.exit, again.json()["findings"]) == (0, [])
    assert again.json()["set_aside"] == dict.fromkeys(again.json()["set_aside"], 0) | {"known": 1}
    two = SHOP_WITH_FAULT.replace("    eval(order)\n", "    eval(order)\n    eval(order)\n")
    repo.commit(work, {"shop.py": '"""A shop."""\n\n\n' + two})
    beside = review(server, work, *known, "--output", "json=-", "--update-baseline")
    assert beside.exit == 1
    assert [each["line"] for each in beside.json()["findings"]] == [6]  # type: ignore[attr-defined]
    assert review(server, work, *known).exit == 0, "now it is known, too"
    repo.git(work, "mv", "shop.py", "store.py")
    repo.commit(work, {})
    assert review(server, work, *known).exit == 0, "under another name as well"


def test_a_known_finding_is_not_asked_about_again(server: ModelServer, work: Path) -> None:
    known = ("--base", "main", "--baseline", "../known.json")
    review(server, work, *known, "--update-baseline")
    before = len(server.requests)
    review(server, work, *known)
    assert len(server.requests) == before + 1


def test_a_baseline_that_is_missing_or_wrong_asks_nobody(server: ModelServer, work: Path) -> None:
    missing = review(server, work, "--base", "main", "--baseline", "none.json")
    (work / "wrong.json").write_text("{}")
    wrong = review(server, work, "--base", "main", "--baseline", "wrong.json")
    alone = review(server, work, "--base", "main", "--update-baseline")
    assert (missing.exit, wrong.exit, alone.exit) == (2, 2, 2)
    assert "--update-baseline" in missing.err and "--update-baseline" not in wrong.err
    assert "needs --baseline" in alone.err
    assert server.requests == []


def test_an_ignore_comment_with_a_reason_sets_a_finding_aside(server: ModelServer, work: Path) -> None:
    line = "    eval(order)  # codelet: ignore[code-injection] orders are ours\n"
    repo.commit(work, {"shop.py": SHOP_WITH_FAULT.replace("    eval(order)\n", line)})
    done = review(server, work, "--base", "main", "--output", "json=-", "--output", "sarif=../out.sarif")
    report = done.json()
    assert (done.exit, report["findings"]) == (0, [])
    why = "orders are ours (the comment is new in this change)"
    assert [(each["kind"], each["why"]) for each in report["aside"]] == [("ignored", why)]  # type: ignore[attr-defined]
    result = document(work.parent / "out.sarif")["runs"][0]["results"][0]
    assert result["suppressions"][0]["justification"] == why
    repo.commit(work, {"shop.py": SHOP_WITH_FAULT.replace("    eval(order)\n", line.partition("]")[0] + "]\n")})
    assert review(server, work, "--base", "main").exit == 1, "without a reason it counts for nothing"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A branch with thirty changed files, a bug in every third one."""
    before = {f"part{number:02}/mod.py": SHOP for number in range(30)}
    folder = repo.plain(tmp_path / "large", before)
    repo.git(folder, "checkout", "-q", "-b", "topic")
    changed = SHOP.replace("return order", "return order.copy()") * 3
    after = {
        name: (SHOP_WITH_FAULT + SHOP_WITH_FAULT if index % 3 == 0 else changed) for index, name in enumerate(before)
    }
    repo.commit(folder, after | {"logo.png": b"\0\1"})
    return folder


def test_the_requests_of_a_review_share_a_cached_prefix(server: ModelServer, tmp_path: Path) -> None:
    """OpenAI's cache: one key for all, and a mark behind what all requests begin with."""
    text = "def place(order):\n    return order\n" * 12
    folder = repo.plain(tmp_path / "six", {f"shop{number}.py": text for number in range(6)})
    repo.commit(folder, {f"shop{number}.py": text.replace("order", "item") for number in range(6)})
    home = tmp_path / "home"
    home.mkdir()
    variables = {
        "CODELET_API_BASE": server.openai,
        "CODELET_MODEL": "openai/responses/gpt-6.1-sol",
        "OPENAI_API_KEY": "key",
    }
    done = run("review", "HEAD", "--chunk-tokens", "300", "--no-verify", cwd=folder, home=home, env=variables)
    assert (done.exit, done.err) == (0, "")
    bodies = [request.json for request in server.requests]
    assert len(bodies) >= 6
    assert len({body["prompt_cache_key"] for body in bodies}) == 1
    assert len({json.dumps([body["tools"], body["input"][0]]) for body in bodies}) == 1
    assert "prompt_cache_breakpoint" in bodies[0]["input"][0]["content"][-1]
