"""Check that no finding is lost, however a model points at it and writes its answer.

Use: python -m scripts.bench.review_places CASES [CASES …]

CASES is a folder with a folder for each case: `before/` (files), `change.diff`, and `expected.json` with `expected`: a
list of `path` and `line`. Each case is committed and reviewed by the real program with a scripted model that reports a
critical bug in every way of pointing that the case permits, and in every form of an answer. Every finding must be
reported on a line or listed, and no run may end with 0. Exit status 1: one was lost.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from codelet.review.diff import FileDiff, HunkLine, lines_of, parse_diff
from tests.support import repo
from tests.support.reviews import finding, found, is_closing, is_confirmation, review
from tests.support.script import Reply
from tests.support.server import ModelServer, Recorded

Claim = dict[str, Any]


def ways_to_point(files: list[FileDiff], path: str, line: int | None) -> Iterator[tuple[str, Claim]]:
    """The ways to point at a bug that a change permits, by name, each as a finding."""
    file = next(each for each in files if each.path == path)
    rows = [row for hunk in file.hunks for row in lines_of(hunk)]
    new = [row for row in rows if row.sign != "-"]
    at = next((row for row in new if row.number == line), new[0])

    def claim(quote: str, where: str = path, number: int = at.number) -> Claim:
        return finding(quote, number, where, severity="critical", title="The bug")

    yield "the very row", claim(at.text)
    yield "a row with its gutter", claim(f"{at.number:>5} {at.sign} {at.text}")
    beside = [row for row in new if abs(row.number - at.number) <= 1]
    yield "a row with its neighbours", claim("\n".join(row.text for row in beside))
    yield "one space too many", claim(at.text.replace(" ", "  ") + " ;"[: 2 * at.text.endswith("?")])
    yield "one edit", claim(f"{at.text}~")
    if len(at.text.strip()) > 12:
        yield "cut short", claim(f"{at.text[: len(at.text) * 2 // 3]}…")
    for name, sign in (("a removed row", "-"), ("an unchanged row", " ")):
        if (row := next((each for each in rows if each.sign == sign and each.text.strip()), None)) is not None:
            yield name, claim(row.text, number=row.number)
    if mixed := _mixed(rows):
        yield "removed and added rows", claim("\n".join(row.text for row in mixed))
    yield "the path without its first folder", claim(at.text, path.partition("/")[2] or path)
    yield "the path with folders before it", claim(at.text, f"/work/repo/{path}")
    yield "a file that is not in the change", claim("int caller(void) {", "src/caller.c")
    other = next((each for each in files if each.path != path and each.hunks), None)
    if other is not None:
        own = next((row for row in lines_of(other.hunks[0]) if row.sign == "+"), lines_of(other.hunks[0])[0])
        yield "a file of another part", claim(own.text, other.path, own.number)


def _mixed(rows: list[HunkLine]) -> list[HunkLine]:
    for one, other in pairwise(rows):
        if (one.sign, other.sign) == ("-", "+"):
            return [one, other]
    return []


def forms_of_answers(claim: Claim) -> Iterator[tuple[str, str]]:
    """Deviations from the requested form, by name."""
    changed = {
        "upper case": {"severity": "CRITICAL"}, "P0": {"severity": "P0"}, "blocker": {"severity": "blocker"},
        "a number as severity": {"severity": 0}, "per cent": {"confidence": 95}, "a percentage": {"confidence": "95%"},
        "digits in a string": {"line": str(claim["line"])}, "a range": {"line": f"{claim['line']}-{claim['line']}"},
        "no line": {"line": None}, "no quote": {"quote": ""},
    }  # fmt: skip
    for name, fields in changed.items():
        yield name, found(claim | fields)
    yield "no confidence", found({key: value for key, value in claim.items() if key != "confidence"})
    yield "no rule", found({key: value for key, value in claim.items() if key not in ("rule", "category")})
    yield "a comma too many", found(claim)[:-2] + ",]}"
    yield "a bare list", json.dumps([claim])
    yield "a bare object", json.dumps(claim)
    yield "a think block", f"<think>Is it {{x}}? {found()}</think>{found(claim)}"
    yield "words before it", f"I looked at {{x}} and [y].\n\n```json\n{found(claim)}\n```"
    yield "over 200", found(claim, *[claim | {"severity": "low", "title": f"T{n}", "quote": ""} for n in range(210)])
    renamed = {"file": claim["path"], "description": "It fails.", "level": "critical", "snippet": claim["quote"]}
    yield "other names", json.dumps({"issues": [renamed | {"start_line": claim["line"]}]})


def is_kept(folder: Path, answer: str, is_wanted: Callable[[dict[str, Any]], bool]) -> tuple[bool, str]:
    """Review the last commit with that answer: whether the finding is in the report, and where."""

    def model(request: Recorded) -> Reply:
        if is_closing(request):
            return Reply('{"summary": "x"}')
        return Reply(json.dumps({"holds": True}) if is_confirmation(request) else answer)

    with ModelServer(model) as server:
        done = review(server, folder, "HEAD", "--output", "json", "--chunk-tokens", "150")
    report = json.loads(done.out)
    placed = [each for each in report["findings"] if is_wanted(each)]
    listed = [each for each in report["aside"] if each["kind"] in ("misplaced", "malformed", "unconfirmed")]
    state = "placed" if placed else "listed" if listed else "lost"
    return (bool(placed) and done.exit in (1, 5)) or (bool(listed) and done.exit == 5), state


def check(case: Path, work: Path, counts: Counter[str]) -> list[str]:
    """Review a case in all ways; those that lost the finding."""
    folder = repo.plain(work / case.name, {"README": "x\n"})
    for file in sorted((case / "before").rglob("*")):
        if file.is_file():
            repo.write(folder, {str(file.relative_to(case / "before")): file.read_bytes()})
    repo.commit(folder, {}, "Before")
    diff = (case / "change.diff").read_bytes()
    subprocess.run(["git", "apply", "--index", "-"], cwd=folder, input=diff, check=True)
    repo.commit(folder, {}, "Change")
    files = list(parse_diff([diff]))
    expected = json.loads((case / "expected.json").read_text())["expected"][0]
    claims = list(ways_to_point(files, expected["path"], expected["line"]))
    tried = [(name, found(claim)) for name, claim in claims] + list(forms_of_answers(claims[0][1]))
    lost = []
    for name, answer in tried:
        good, state = is_kept(folder, answer, lambda each: each["severity"] == "critical")
        counts[state] += 1
        if not good:
            lost.append(f"{case.name}: {name}: {state}")
    return lost


def main() -> int:
    """Check all cases; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="+", type=Path)
    folders = [case for given in parser.parse_args().cases for case in sorted(given.iterdir()) if case.is_dir()]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work:
        lost = [name for case in folders for name in check(case, Path(work), counts)]
    print(f"{len(folders)} cases, {counts.total()} answers: {counts['placed']} placed, {counts['listed']} listed")
    print("\n".join(lost) or "none lost, none ended with 0")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
