"""Measurements of reviews: what a model finds, and what holds without one.

Use: python -m scripts.bench.review                      31 bugs: whether the facts that a reader needs are sent
     python -m scripts.bench.review --places CASES …      whether a finding is ever lost
     python -m scripts.bench.review --history REPOSITORY …  requests for real commits, and places of planted findings
     python -m scripts.bench.review --model M [--only TEXT] [--batch N] [-- WORD…]

The first two are in review_checks. History plans each of the newest 500 commits (--commits) with one parent as
`codelet review COMMIT` does, and plants four findings in its added lines (tests/support/planted.py). Exit status 1: a
fact is missing, a finding is lost or not on its line, fewer than 95 % of a repository's commits take one request, or a
review failed.

With a model: the cases in review_cases/ are diffs with whole context, where `!` marks the added line that is the bug.
Each batch of N cases (default 1) is committed in its own repository and reviewed by `codelet review` with the words
after --. A finding in the case's file within three lines of the bug counts as found. Prints as JSON, in all and by
language and kind of bug: recall over the planted bugs, precision over all findings, the share of found bugs with a
finding on the very line, clean changes with a finding, and the cost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from codelet.review.packing import planned
from codelet.review.reviewed_change import Wanted, change_from_git
from scripts.bench.review_checks import check_places, check_sent
from tests.support import repo
from tests.support.planted import Score, plant

CASES = Path(__file__).parent / "review_cases"
NEAR = 3
CLEAN = "clean"
Figures = Counter[str]
"""Counts: planted, found, exact (a finding on the very line), findings, right, clean, disturbed."""


class Case(NamedTuple):
    """One change to one file. `fault` is the number of the line with the bug on the new side, None for a clean change.

    `path` begins with the case's folder, which says nothing of what is wrong.
    """

    name: str
    kind: str
    language: str
    path: str
    before: str
    after: str
    fault: int | None


def read_cases() -> Iterator[Case]:
    """All cases, in order. Raises ValueError for a malformed one."""
    texts = [(file.stem, text) for file in sorted(CASES.glob("*.txt")) for text in file.read_text().split("\n@@ ")]
    for number, (language, text) in enumerate(texts, 1):
        head, *rows = text.removeprefix("@@ ").rstrip("\n").split("\n")
        name, kind, path = head.split()
        signed = [(row[:1] or " ", f"{row[1:]}\n") for row in rows]
        after = [each for each in signed if each[0] != "-"]
        faults = [place for place, (sign, _) in enumerate(after, 1) if sign == "!"]
        if {sign for sign, _ in signed} - {*" -+!"} or len(faults) != (kind != CLEAN):
            raise ValueError(f"{name}: wrong signs, or {len(faults)} faults")
        before = "".join(line for sign, line in signed if sign in " -")
        fault = faults[0] if faults else None
        yield Case(name, kind, language, f"{number:03}/{path}", before, "".join(line for _, line in after), fault)


def judge(case: Case, findings: Sequence[Mapping[str, Any]]) -> Figures:
    """The figures of one case, of the findings in its file."""
    if case.fault is None:
        return Counter(findings=len(findings), clean=1, disturbed=bool(findings))
    near = [each for each in findings if each["line"] - NEAR <= case.fault <= each["end_line"] + NEAR]
    exact = any(each["line"] <= case.fault <= each["end_line"] for each in near)
    return Counter(findings=len(findings), planted=1, found=bool(near), right=len(near), exact=exact)


def row(figures: Figures) -> dict[str, float | int | None]:
    """The figures by name; a share of nothing is unknown (None)."""

    def share(part: str, whole: str) -> float | None:
        return figures[part] / figures[whole] if figures[whole] else None

    return {
        "planted": figures["planted"], "recall": share("found", "planted"), "precision": share("right", "findings"),
        "line accuracy": share("exact", "found"), "findings": figures["findings"], "clean": figures["clean"],
        "clean with findings": figures["disturbed"],
    }  # fmt: skip


def measure(model: str, only: str, batch: int, words: Sequence[str]) -> dict[str, Any]:
    """The figures, in all, by language and by kind of bug, and the spending; an unknown part makes a sum unknown."""
    cases = [case for case in read_cases() if only in f"{case.name} {case.kind}"]
    results: dict[str, dict[str, Figures]] = {name: defaultdict(Counter) for name in ("all", "language", "kind")}
    spent: dict[str, list[float | None]] = defaultdict(list)
    failed: list[str] = []
    for start in range(0, len(cases), batch):
        some = cases[start : start + batch]
        with tempfile.TemporaryDirectory() as place:
            folder = repo.plain(Path(place) / "work", {case.path: case.before for case in some})
            repo.commit(folder, {case.path: case.after for case in some})
            command = [sys.executable, "-m", "codelet", "--model", model, "review", "HEAD", "--output", "json=-"]
            done = subprocess.run([*command, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=-1, check=False)
        if done.returncode not in (0, 1):
            failed += [case.name for case in some]
            continue
        report = json.loads(done.stdout)
        usage = report["usage"] or {}
        for name, value in (("tokens_in", usage.get("total_input")), ("tokens_out", usage.get("output")),
                            *((each, report[each]) for each in ("cost", "requests", "duration"))):  # fmt: skip
            spent[name].append(value)
        for case in some:
            figures = judge(case, [each for each in report["findings"] if each["path"] == case.path])
            for group, name in (("all", "all"), ("language", case.language), ("kind", case.kind)):
                results[group][name] += figures
    rows = {group: {name: row(each) for name, each in sorted(named.items())} for group, named in results.items()}
    sums = {name: None if None in values else sum(filter(None, values)) for name, values in spent.items()}
    return {"model": model, "cases": len(cases), "results": rows, "spent": sums, "failed": failed}


def history(repository: Path, most: int) -> bool:
    """Plan the newest commits; whether 95 % take one request, and every planted finding is on its line."""
    listing = ("git", "rev-list", "--min-parents=1", "--max-parents=1", f"--max-count={most}", "HEAD")
    commits = subprocess.run(listing, cwd=repository, check=True, capture_output=True, text=True).stdout.split()
    score, requests = Score(), Counter[int]()
    for number, commit in enumerate(commits):
        change = asyncio.run(change_from_git(Wanted(kind="commits", name=commit), repository))
        requests[len(planned(change.files).chunks)] += 1
        plant(repository, commit, score, seed=number, most=4)
    asked = requests.total() - requests[0]
    share = requests[1] / max(1, asked)
    print(f"{repository.resolve().name}: one request for {requests[1]} of {asked} commits ({share:.1%})")
    print(f"  {score.planted.total()} findings planted, {len(score.wrong)} not on their line", *score.wrong[:20])
    return share >= 0.95 and not score.wrong


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", nargs="+", type=Path, metavar="CASES")
    parser.add_argument("--history", nargs="+", type=Path, metavar="REPOSITORY")
    parser.add_argument("--commits", type=int, default=500, metavar="N")
    parser.add_argument("--model", help="as codelet names it; its key is in the environment")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name or kind holds it")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="cases in one review (1)")
    parser.add_argument("words", nargs="*", metavar="WORD", help="further words for codelet review, after --")
    options = parser.parse_args()
    if options.places:
        return int(not check_places(options.places))
    if options.history:
        good = [history(each, options.commits) for each in options.history]
        return int(not all(good))
    if options.model is None:
        return int(not check_sent())
    figures = measure(options.model, options.only, options.batch, options.words)
    print(json.dumps(figures, indent=1))
    return int(bool(figures["failed"]))


if __name__ == "__main__":
    sys.exit(main())
