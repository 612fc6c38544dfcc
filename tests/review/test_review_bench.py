"""The measure of reviews: its cases are sound, and its figures are right for a scripted model, which is no live one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from scripts.bench.review import CLEAN, Case, read_cases
from scripts.bench.review_checks import Fact, look, missing_facts, sent_cases
from tests.support.program import CODELET, ROOT, run
from tests.support.reviewing import asked, is_confirmation, rows_of
from tests.support.script import Reply, Tokens
from tests.support.server import ModelServer, Recorded


def test_there_are_enough_cases_of_every_sort() -> None:
    cases = list(read_cases())
    assert len(cases) >= 60 and len({case.name for case in cases}) == len(cases)
    languages = Counter(case.language for case in cases)
    assert len(languages) == 6 and min(languages.values()) >= 10
    clean = Counter(case.language for case in cases if case.kind == CLEAN)
    assert len(clean) == 6 and min(clean.values()) >= 2
    assert len({case.kind for case in cases}) >= 20


def test_each_fault_is_a_line_that_the_change_adds() -> None:
    for case in read_cases():
        assert case.before != case.after
        if case.fault is not None:
            line = case.after.split("\n")[case.fault - 1]
            assert line.strip() and case.after.count(f"{line}\n") > case.before.count(f"{line}\n"), case.name


def scripted(cases: list[Case]) -> Callable[[Recorded], Reply]:
    """A model that misses every bug in C, is a line off in Go, and takes offence at clean Python."""
    by_path = {case.path: case for case in cases}

    def claims(question: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        rows = [(path, number, text) for path, number, sign, text in rows_of(question) if sign != "-"]
        for path, number, text in rows:
            case = by_path[path]
            clean_python = case.fault is None and case.language == "python" and number == 1
            line = None if case.fault is None else case.fault - (1 if case.language == "go" else 0)
            if clean_python or (number == line and case.language != "c"):
                found.append({"rule": case.kind, "title": "Wrong", "explanation": "Why.", "severity": "high",
                              "confidence": 0.9, "path": path, "line": number, "quote": text})  # fmt: skip
        return found

    def answer(recorded: Recorded) -> Reply:
        question = asked(recorded)
        said = {"holds": True} if is_confirmation(question) else {"findings": claims(question)}
        return Reply(json.dumps(said), usage=Tokens(total_input=1000, output=10))

    return answer


def test_the_figures_of_a_scripted_model(tmp_path: Path) -> None:
    cases = list(read_cases())
    with ModelServer(scripted(cases)) as server:
        environment = {"CODELET_API_BASE": server.openai, "OPENAI_API_KEY": "key"}
        words = ("--model", "openai/scripted", "--batch", "63", "--", "--min-severity", "info")
        command = (CODELET[0], "-m", "scripts.bench.review")
        done = run(*words, cwd=ROOT, home=tmp_path, env=environment, command=command)
    assert done.exit == 0, done.err
    figures = json.loads(done.out)
    results = figures["results"]
    assert results["language"]["c"]["recall"] == 0.0 and results["language"]["c"]["precision"] is None
    assert results["language"]["go"]["recall"] > 0.5 and results["language"]["go"]["line accuracy"] == 0.0
    assert results["language"]["rust"] == {
        "planted": 8, "recall": 1.0, "precision": 1.0, "line accuracy": 1.0, "findings": 8, "clean": 2,
        "clean with findings": 0,
    }  # fmt: skip
    assert results["language"]["python"]["precision"] < 1.0
    everything = results["all"]["all"]
    assert everything["planted"] == sum(case.fault is not None for case in cases)
    assert everything["recall"] == (everything["planted"] - results["language"]["c"]["planted"]) / everything["planted"]
    assert figures["spent"]["tokens_in"] == 1000 * len(server.requests)
    assert figures["spent"]["cost"] is None, "there is no price for this model"


def test_a_fact_that_is_not_sent_is_missed(tmp_path: Path) -> None:
    """The checker without a model: a case that suffices, and one with a missing fact."""
    assert len(sent_cases()) >= 30
    case = next(each for each in sent_cases() if each.name == "deleted module")
    assert missing_facts(case, tmp_path / "a") == []
    wrong = case._replace(facts=(*case.facts, Fact("no such row"), look("none", "def ok")))
    assert missing_facts(wrong, tmp_path / "b") == ["no such row", "none"]
