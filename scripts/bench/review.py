"""How good a model's reviews are: planted faults in six languages, and clean changes, one commit a case.

Use: python -m scripts.bench.review --model M [--only TEXT] [--batch N] [--out FILE.json] [-- WORD…]
     python -m scripts.bench.review --sent    no model: whether what is sent suffices to find bugs off the added rows

The cases stand in review_cases/, as diffs with whole context: `!` marks an added line that is the fault. Each batch of
N cases (one unless told) is committed in a repository of its own and reviewed by `codelet review`; words behind -- go
to it. A finding in a case's file within three lines of the fault has found it. What is printed: recall over the planted
faults, precision over all findings, how many of the faults that were found stand on their very line, how many clean
changes got a finding, and what it cost. Exit status 1: a review failed, so the figures are not those of the model.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import repo

CASES = Path(__file__).parent / "review_cases"
NEAR = 3
CLEAN = "clean"


@dataclass(frozen=True)
class Case:
    """One change to one file. `fault` is the number of its faulty line on the new side, None where it is clean.

    `path` begins with a folder of the case's own, which says nothing of what is wrong.
    """

    name: str
    kind: str
    language: str
    path: str
    before: str
    after: str
    fault: int | None


@dataclass
class Result:
    """What the reviews of some cases came to. `exact` counts the faults that a finding has on their very line."""

    planted: int = 0
    found: int = 0
    exact: int = 0
    findings: int = 0
    right: int = 0
    clean: int = 0
    disturbed: int = 0

    def row(self) -> dict[str, float | int | None]:
        """The figures by name; a share of nothing is None."""
        return {
            "planted": self.planted,
            "recall": _share(self.found, self.planted),
            "precision": _share(self.right, self.findings),
            "line accuracy": _share(self.exact, self.found),
            "findings": self.findings,
            "clean": self.clean,
            "clean with findings": self.disturbed,
        }


@dataclass
class Spent:
    """What all reviews took; a cost or a usage that is unknown once is unknown in all."""

    tokens_in: int | None = 0
    tokens_out: int | None = 0
    cost: float | None = 0.0
    requests: int = 0
    seconds: float = 0.0
    failed: list[str] = field(default_factory=list)

    def add(self, report: Mapping[str, Any]) -> None:
        """Count one report in."""
        usage = report["usage"] or {}
        self.tokens_in = _sum(self.tokens_in, usage.get("total_input"))
        self.tokens_out = _sum(self.tokens_out, usage.get("output"))
        self.cost = None if self.cost is None or report["cost"] is None else self.cost + report["cost"]
        self.requests += report["requests"]
        self.seconds += report["duration"]


def read_cases(folder: Path = CASES) -> list[Case]:
    """All cases, in order. Raises ValueError for one that is badly written."""
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


def judge(case: Case, findings: Sequence[Mapping[str, Any]], result: Result) -> None:
    """Count what was found of a case, of the findings in its file."""
    result.findings += len(findings)
    if case.fault is None:
        result.clean += 1
        result.disturbed += bool(findings)
        return
    near = [each for each in findings if each["line"] - NEAR <= case.fault <= each["end_line"] + NEAR]
    result.planted += 1
    result.found += bool(near)
    result.right += len(near)
    result.exact += any(each["line"] <= case.fault <= each["end_line"] for each in near)


def measure(
    cases: Sequence[Case], command: Sequence[str], words: Sequence[str], batch: int
) -> tuple[dict[str, dict[str, Result]], Spent]:
    """The results, in all, by language and by kind of fault, and what they took."""
    results: dict[str, dict[str, Result]] = {name: defaultdict(Result) for name in ("all", "language", "kind")}
    spent = Spent()
    for start in range(0, len(cases), batch):
        some = cases[start : start + batch]
        report = review(some, command, words)
        if report["exit"] not in (0, 1):
            spent.failed += [case.name for case in some]
            continue
        spent.add(report)
        for case in some:
            own = [each for each in report["findings"] if each["path"] == case.path]
            for result in (results["all"]["all"], results["language"][case.language], results["kind"][case.kind]):
                judge(case, own, result)
    return results, spent


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def show(results: Mapping[str, Mapping[str, Result]], spent: Spent) -> None:
    """Print the tables."""
    heads = list(Result().row())
    print(f"{'':24}" + "".join(f"{head:>21}" for head in heads))
    for group in results.values():
        for name, result in sorted(group.items()):
            cells = (_cell(value) for value in result.row().values())
            print(f"{name:24}" + "".join(f"{cell:>21}" for cell in cells))
        print()
    cost = "cost unknown" if spent.cost is None else f"${spent.cost:.4f}"
    tokens = "tokens unknown" if spent.tokens_in is None else f"{spent.tokens_in:,} tokens in, {spent.tokens_out:,} out"
    print(f"{spent.requests} requests, {tokens}, {cost}, {spent.seconds:.0f} s")
    if spent.failed:
        print(f"not reviewed: {', '.join(spent.failed)}")


def _cell(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1%}" if isinstance(value, float) else f"{value}"


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", help="as codelet names it; its key is in the environment")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name or kind holds it")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="cases in one review (1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the figures as JSON, too")
    parser.add_argument("words", nargs="*", metavar="WORD", help="further words for codelet review, behind --")
    parser.add_argument("--sent", action="store_true", help="check without a model whether what is sent suffices")
    options = parser.parse_args()
    if options.sent:
        from scripts.bench.review_sent import main as check_what_is_sent

        return check_what_is_sent()
    if options.model is None:
        parser.error("--model is needed")
    cases = [case for case in read_cases() if options.only in f"{case.name} {case.kind}"]
    command = [sys.executable, "-m", "codelet", "--model", options.model]
    results, spent = measure(cases, command, options.words, options.batch)
    show(results, spent)
    if options.out is not None:
        rows = {group: {name: result.row() for name, result in each.items()} for group, each in results.items()}
        document = {"model": options.model, "cases": len(cases), "results": rows, "spent": vars(spent)}
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if spent.failed else 0


if __name__ == "__main__":
    sys.exit(main())
