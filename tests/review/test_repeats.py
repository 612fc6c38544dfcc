"""Findings that are known again: fingerprints, baselines and comments in the code, on real changes by git."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.review.diff import parse_diff
from codelet.review.findings import Finding
from codelet.review.repeats import Baseline, NewSides, fingerprinted, open_baseline, read_baseline, without_ignored
from tests.support import repo

BEFORE = "import os\n\n\ndef first(order):\n    return order\n\n\ndef last(order):\n    return order\n"
AFTER = BEFORE.replace("    return order\n", "    eval(order)\n    return order\n", 1)


def sides_of(folder: Path, base: str, head: str = "HEAD") -> NewSides:
    command = ["git", "-c", "core.quotePath=true", "diff", "-M", base, head]
    raw = subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout
    return NewSides(parse_diff(BytesIO(raw)))


def planted(sides: NewSides, path: str, quote: str, number: int = 0, rule: str = "code-injection") -> Finding:
    """A finding on the n-th line that holds the quote, as the core would place it."""
    lines = sides.lines(path)
    line = [at for at, text in lines.items() if quote in text][number]
    return Finding(
        rule=rule,
        title="Input is run as code",
        explanation="Here.",
        severity="high",
        category="security",
        confidence=0.9,
        path=path,
        line=line,
        end_line=line,
        quote=lines[line],
        before=tuple(lines[number] for number in range(line - 3, line) if number in lines),
        after=tuple(lines[number] for number in range(line + 1, line + 4) if number in lines),
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return repo.plain(tmp_path / "work", {"shop.py": BEFORE, "README.md": "# Shop\n"})


def committed(folder: Path, files: Mapping[str, str]) -> NewSides:
    """The change from the first commit to a new one with these files."""
    repo.commit(folder, files)
    return sides_of(folder, repo.git(folder, "rev-list", "--max-parents=0", "HEAD"))


def baseline_of(findings: list[Finding], sides: NewSides) -> Baseline:
    """The baseline that a run would write, read back from its text."""
    return read_baseline(Baseline().updated(fingerprinted(findings, sides), sides).text().encode(), "baseline")


def new_ones(baseline: Baseline, findings: list[Finding], sides: NewSides) -> list[int]:
    """The lines of the findings that are reported as new."""
    run = Baseline(baseline.entries)  # an entry is one finding of a run
    kept, _ = run.new_findings(fingerprinted(findings, sides), sides)
    return [each.line for each in kept]


def test_nothing_is_new_when_lines_moved(work: Path) -> None:
    sides = committed(work, {"shop.py": AFTER})
    baseline = baseline_of([planted(sides, "shop.py", "eval")], sides)
    moved = committed(work, {"shop.py": AFTER.replace("import os\n", '"""A shop."""\n\nimport os\nimport sys\n')})
    again = planted(moved, "shop.py", "eval")
    assert again.line == 8
    assert new_ones(baseline, [again], moved) == []
    kept, aside = baseline.new_findings(fingerprinted([again], moved), moved)
    assert (kept, [(each.kind, each.line) for each in aside]) == ([], [("known", 8)])


def test_indentation_counts_for_nothing(work: Path) -> None:
    sides = committed(work, {"shop.py": AFTER})
    baseline = baseline_of([planted(sides, "shop.py", "eval")], sides)
    deeper = committed(work, {"shop.py": AFTER.replace("    eval(order)", "        eval(order)")})
    assert new_ones(baseline, [planted(deeper, "shop.py", "eval")], deeper) == []


@pytest.mark.parametrize(
    ("change", "new"),
    [
        pytest.param(
            ("    eval(order)\n", "    eval(order)\n    eval(order)\n"), 1, id="the same line right next to it"
        ),
        pytest.param(("    eval(order)\n", "    log(order)\n    eval(order)\n"), 0, id="another line before"),
        pytest.param(("    eval(order)\n", "    eval(order)\n    log(order)\n"), 0, id="another line behind"),
        pytest.param(
            ("    return order\n\n\ndef last(order):\n", "    return order\n\n\ndef last(order):\n    eval(order)\n"),
            1,
            id="the same line elsewhere",
        ),
        pytest.param(("    eval(order)\n", "    eval(order[0])\n"), 1, id="another line instead"),
    ],
)
def test_a_new_fault_beside_an_old_one_is_reported(work: Path, change: tuple[str, str], new: int) -> None:
    sides = committed(work, {"shop.py": AFTER})
    baseline = baseline_of([planted(sides, "shop.py", "eval")], sides)
    later = committed(work, {"shop.py": AFTER.replace(*change, 1)})
    count = sum("eval" in text for text in later.lines("shop.py").values())
    findings = [planted(later, "shop.py", "eval", number) for number in range(count)]
    assert len(new_ones(baseline, findings, later)) == new


def test_what_is_named_or_quoted_in_other_words_is_known_unless_it_is_another_bug(work: Path) -> None:
    """Models choose another rule, quote more rows, and begin a row earlier, at each run."""
    sides = committed(work, {"shop.py": AFTER})
    known = planted(sides, "shop.py", "eval")
    baseline = baseline_of([known], sides)
    wider = known.replace(
        line=known.line - 1, quote=f"{known.before[-1]}\n{known.quote}", before=known.before[:-1], rule="path-traversal"
    )
    again = [known.replace(rule="command-injection"), wider, known.replace(title="Another", severity="low")]
    for each in again:
        assert new_ones(baseline, [each], sides) == [], each.rule
    other = [known.replace(rule="slow-code"), known.replace(rule="path-traversal", severity="critical")]
    for each in other:
        assert new_ones(baseline, [each], sides) == [known.line], each.rule
    one, other_rule = fingerprinted([known, known.replace(rule="path-traversal")], sides)
    assert one.fingerprint == other_rule.fingerprint, "services know it by that"


def test_a_renamed_file_is_known_again(work: Path) -> None:
    sides = committed(work, {"shop.py": AFTER})
    baseline = baseline_of([planted(sides, "shop.py", "eval")], sides)
    repo.git(work, "mv", "shop.py", "store.py")
    renamed = committed(work, {})
    assert renamed.files["store.py"].old_path == "shop.py"
    assert new_ones(baseline, [planted(renamed, "store.py", "eval")], renamed) == []


def test_a_file_that_the_branch_made_and_renamed_is_known_again(work: Path) -> None:
    sides = committed(work, {"new.py": AFTER.replace("import os", "import sys")})
    baseline = baseline_of([planted(sides, "new.py", "eval")], sides)
    repo.git(work, "mv", "new.py", "newer.py")
    renamed = committed(work, {})
    assert renamed.files["newer.py"].old_path is None, "to git it is a new file"
    assert new_ones(baseline, [planted(renamed, "newer.py", "eval")], renamed) == []
    copied = committed(work, {"new.py": AFTER.replace("import os", "import sys")})
    both = [planted(copied, "new.py", "eval"), planted(copied, "newer.py", "eval")]
    assert len(new_ones(baseline, both, copied)) == 1, "one entry is one finding"


def test_fingerprints_tell_equal_places_apart_and_need_no_other_finding(work: Path) -> None:
    twice = "def a():\n    eval(x)\n\n\ndef a():\n    eval(x)\n\n\ndef a():\n"
    sides = committed(work, {"twice.py": twice})
    both = [planted(sides, "twice.py", "eval", number) for number in (0, 1)]
    prints = [each.fingerprint for each in fingerprinted(both, sides)]
    assert len(set(prints)) == 2
    assert [fingerprinted([each], sides)[0].fingerprint for each in both] == prints, "as on another runner"


def test_an_update_keeps_what_is_there_and_drops_what_went(work: Path) -> None:
    faults = AFTER.replace("def last(order):\n", "def last(order):\n    exec(order)\n")
    sides = committed(work, {"shop.py": faults, "other.py": "eval(1)\n"})
    known = [planted(sides, "shop.py", "eval"), planted(sides, "shop.py", "exec"), planted(sides, "other.py", "eval")]
    baseline = baseline_of(known, sides)
    assert len(baseline.entries) == 3
    head = repo.git(work, "rev-parse", "HEAD")
    repo.commit(work, {"shop.py": faults.replace("    exec(order)\n", "    compile(order)\n")})
    later = sides_of(work, head)
    compiled = fingerprinted([planted(later, "shop.py", "compile")], later)
    kept, _ = baseline.new_findings(compiled, later)
    updated = baseline.updated(kept, later)
    assert sorted((entry.path, entry.rule) for entry in updated.entries) == [
        ("other.py", "code-injection"),
        ("shop.py", "code-injection"),
        ("shop.py", "code-injection"),
    ], "exec went with its line, compile came, eval and the other file were not in this change"
    assert updated.updated(kept, later).entries != ()


def test_a_baseline_holds_no_code(work: Path) -> None:
    sides = committed(work, {"shop.py": AFTER.replace("order)", "'hunter2')")})
    text = Baseline().updated(fingerprinted([planted(sides, "shop.py", "eval")], sides), sides).text()
    assert "hunter2" not in text and "eval" not in text
    assert json.loads(text)["version"] == 1


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"nonsense", "JSON is malformed"),
        (b"[]", "is no baseline"),
        (b'{"version": 9, "tool": "codelet review", "findings": []}', "another version"),
        (b'{"version": 1, "tool": "codelet review", "findings": [{}]}', "`$.findings[0]`"),
        (b"[" * 100_000, "is no baseline"),
    ],
)
def test_what_is_no_baseline_is_refused_by_name(data: bytes, wrong: str) -> None:
    with pytest.raises(UsageError, match="here: ") as caught:
        read_baseline(data, "here")
    assert wrong in str(caught.value)


def test_a_baseline_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--update-baseline"):
        open_baseline(tmp_path / "none.json")
    assert open_baseline(tmp_path / "none.json", may_be_missing=True).entries == ()


@pytest.mark.parametrize(
    ("path", "lines", "ignored"),
    [
        ("a.py", "eval(x)  # codelet: ignore[code-injection] checked above", True),
        ("a.py", "# codelet: ignore[code-injection] checked above\neval(x)", True),
        ("a.py", "# codelet: ignore[code-injection] checked\n# by hand\neval(x)", True),
        ("a.js", "// codelet: ignore[dead-code, code-injection] a test needs it\neval(x)", True),
        ("a.c", "eval(x); /* codelet: ignore[code-injection] vetted */", True),
        ("a.html", "<!-- codelet: ignore[code-injection] vetted -->\n<b onclick='eval(x)'>", True),
        ("a.jsx", "{/* codelet: ignore[code-injection] vetted */}\n<b onClick={() => eval(x)}>", True),
        ("a.sql", "-- codelet: ignore[code-injection] vetted\nselect eval(x)", True),
        ("a.py", "eval(x)  # codelet: ignore[code-injection]", False),
        ("a.c", "eval(x); /* codelet: ignore[code-injection] */", False),
        ("a.py", "eval(x)  # codelet: ignore[dead-code] another rule", False),
        ("a.py", "# codelet: ignore[code-injection] too far away\n\neval(x)", False),
        ("a.py", "y = 1  # codelet: ignore[code-injection] of another line\nz = 2\neval(x)", False),
        ("a.py", "codelet: ignore[code-injection] no comment\neval(x)", False),
    ],
)
def test_ignore_comments(work: Path, path: str, lines: str, ignored: bool) -> None:
    sides = committed(work, {path: f"{lines}\n"})
    kept, aside = without_ignored([planted(sides, path, "eval(x)")], sides)
    assert (len(kept), len(aside)) == ((0, 1) if ignored else (1, 0))
    if aside:
        assert aside[0].kind == "ignored" and aside[0].why and "*/" not in aside[0].why
    elif lines.endswith(("injection]", "injection] */")):
        assert "gives no reason" in kept[0].explanation


@pytest.mark.parametrize(
    ("names", "ignored"), [("*", True), ("security", True), ("code-injection", True), ("performance", False)]
)
def test_a_comment_may_name_a_category_or_all(work: Path, names: str, ignored: bool) -> None:
    text = AFTER.replace("    eval(order)\n", f"    eval(order)  # codelet: ignore[{names}] it is fixed text\n")
    sides = committed(work, {"shop.py": text})
    kept, aside = without_ignored([planted(sides, "shop.py", "eval")], sides)
    assert (len(kept), len(aside)) == (int(not ignored), int(ignored))
