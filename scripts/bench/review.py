"""The quality of a model's reviews: planted bugs in six languages, and clean changes, one commit for each case.

Use: python -m scripts.bench.review --model M [--only TEXT] [--batch N] [--out FILE.json] [-- WORD…]

The cases are in review_cases/, as diffs with whole context: `!` marks the added line that is the bug. Each batch of N
cases (default 1) is committed in its own repository and reviewed by `codelet review` with the words after --. A finding
in the case's file within three lines of the bug counts as found. Prints recall over the planted bugs, precision over
all findings, the share of found bugs with a finding on the very line, clean changes with a finding, and the cost. Exit
status 1: a review failed, so the figures are not the model's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import repo

CASES = Path(__file__).parent / "review_cases"
NEAR = 3
CLEAN = "clean"
SPENT = {"cost": "cost", "requests": "requests", "seconds": "duration"}


@dataclass(frozen=True)
class Case:
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


Figures = Counter[str]
"""Counts: planted, found, exact (a finding on the very line), findings, right, clean, disturbed."""


def row(figures: Figures) -> dict[str, float | int | None]:
    """The figures by name; a share of nothing is unknown (None)."""

    def share(part: str, whole: str) -> float | None:
        return figures[part] / figures[whole] if figures[whole] else None

    return {
        "planted": figures["planted"],
        "recall": share("found", "planted"),
        "precision": share("right", "findings"),
        "line accuracy": share("exact", "found"),
        "findings": figures["findings"],
        "clean": figures["clean"],
        "clean with findings": figures["disturbed"],
    }


def read_cases(folder: Path = CASES) -> list[Case]:
    """All cases, in order. Raises ValueError for a malformed one."""
    cases = [case for file in sorted(folder.glob("*.txt")) for case in _cases_in(file)]
    return [dataclasses.replace(case, path=f"{number:03}/{case.path}") for number, case in enumerate(cases, 1)]


def _cases_in(file: Path) -> Iterator[Case]:
    for text in file.read_text(encoding="utf-8").split("\n@@ "):
        head, *rows = text.removeprefix("@@ ").rstrip("\n").split("\n")
        name, kind, path = head.split()
        yield _case(name, kind, file.stem, path, rows)


def _case(name: str, kind: str, language: str, path: str, rows: Sequence[str]) -> Case:
    before: list[str] = []
    after: list[str] = []
    faults: list[int] = []
    for row in rows:
        sign, text = row[:1] or " ", row[1:]
        if sign not in " -+!":
            raise ValueError(f"{name}: a row begins with {sign!r}")
        if sign in " -":
            before.append(text)
        if sign in " +!":
            after.append(text)
        if sign == "!":
            faults.append(len(after))
    if len(faults) != (kind != CLEAN):
        raise ValueError(f"{name}: has {len(faults)} faults")
    lines = ["".join(f"{line}\n" for line in side) for side in (before, after)]
    return Case(name, kind, language, path, lines[0], lines[1], faults[0] if faults else None)


def review(cases: Sequence[Case], command: Sequence[str], words: Sequence[str]) -> dict[str, Any]:
    """The report of a review of these cases as one commit."""
    with tempfile.TemporaryDirectory() as place:
        folder = repo.plain(Path(place) / "work", {case.path: case.before for case in cases})
        repo.commit(folder, {case.path: case.after for case in cases})
        full = [*command, "review", "HEAD~1..HEAD", "--output", "json=-", *words]
        done = subprocess.run(full, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    report: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip() else {"exit": done.returncode}
    return report


def judge(case: Case, findings: Sequence[Mapping[str, Any]]) -> Figures:
    """The figures of one case, of the findings in its file."""
    if case.fault is None:
        return Counter(findings=len(findings), clean=1, disturbed=bool(findings))
    near = [each for each in findings if each["line"] - NEAR <= case.fault <= each["end_line"] + NEAR]
    exact = any(each["line"] <= case.fault <= each["end_line"] for each in near)
    return Counter(findings=len(findings), planted=1, found=bool(near), right=len(near), exact=exact)


def measure(
    cases: Sequence[Case], command: Sequence[str], words: Sequence[str], batch: int
) -> tuple[dict[str, dict[str, Figures]], dict[str, Any]]:
    """The figures, in all, by language and by kind of bug, and the spending; an unknown part makes a sum unknown."""
    results: dict[str, dict[str, Figures]] = {name: defaultdict(Counter) for name in ("all", "language", "kind")}
    reports, failed = [], []
    for start in range(0, len(cases), batch):
        some = cases[start : start + batch]
        report = review(some, command, words)
        if report["exit"] not in (0, 1):
            failed += [case.name for case in some]
            continue
        reports.append(report)
        for case in some:
            figures = judge(case, [each for each in report["findings"] if each["path"] == case.path])
            for group, name in (("all", "all"), ("language", case.language), ("kind", case.kind)):
                results[group][name] += figures
    values = {
        "tokens_in": [(each["usage"] or {}).get("total_input") for each in reports],
        "tokens_out": [(each["usage"] or {}).get("output") for each in reports],
        **{name: [each[key] for each in reports] for name, key in SPENT.items()},
    }
    return results, {name: None if None in each else sum(each) for name, each in values.items()} | {"failed": failed}


def show(results: Mapping[str, Mapping[str, Figures]], spent: Mapping[str, Any]) -> None:
    """Print the tables."""
    print(f"{'':24}" + "".join(f"{head:>21}" for head in row(Counter())))
    for group in results.values():
        for name, figures in sorted(group.items()):
            values = (
                "–" if each is None else f"{each:.1%}" if isinstance(each, float) else each
                for each in row(figures).values()
            )
            print(f"{name:24}" + "".join(f"{value:>21}" for value in values))
        print()
    print(
        ", ".join(
            f"{name} {'unknown' if value is None else value}" for name, value in spent.items() if name != "failed"
        )
    )
    if spent["failed"]:
        print(f"not reviewed: {', '.join(spent['failed'])}")


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", required=True, help="as codelet names it; its key is in the environment")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name or kind holds it")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="cases in one review (1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the figures as JSON, too")
    parser.add_argument("words", nargs="*", metavar="WORD", help="further words for codelet review, after --")
    options = parser.parse_args()
    cases = [case for case in read_cases() if options.only in f"{case.name} {case.kind}"]
    command = [sys.executable, "-m", "codelet", "--model", options.model]
    results, spent = measure(cases, command, options.words, options.batch)
    show(results, spent)
    if options.out is not None:
        rows = {group: {name: row(each) for name, each in named.items()} for group, named in results.items()}
        document = {"model": options.model, "cases": len(cases), "results": rows, "spent": spent}
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if spent["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
