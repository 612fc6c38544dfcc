"""A finding is on the lines that its quote names: planted in commits with renames, CRLF, moved blocks, repeats."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path

import pytest

from codelet.review.diff import FileDiff, parse_diff
from codelet.review.findings import Finding
from codelet.review.packing import planned
from codelet.review.placing import placed
from tests.support import repo
from tests.support.amount import amount
from tests.support.planted import Score, plant

DIFF = b"""\
diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -1,10 +1,10 @@ class App:
 def one():
-    lock.acquire()
     return total
\x20
 def two():
-    return 1
+    return   total + 1
+    return total
\x20
 def three():
     return total
     pass
"""


def claim(quote: str, line: int, path: str = "app.py", replacement: str | None = None) -> Finding:
    return Finding(
        rule="some-rule", title="t\x1b[31m", explanation="e\u202e", severity="high", category="correctness",
        confidence=0.5, path=path, line=line, quote=quote, replacement=replacement,
    )  # fmt: skip


def change(data: bytes = DIFF) -> list[FileDiff]:
    return list(parse_diff(BytesIO(data)))


@pytest.mark.parametrize(
    ("quote", "given", "line", "kind"),
    [
        ("    return   total + 1", 5, 5, None),
        ("return total + 1", 5, 5, None),  # spaces count alike
        ("total + 1", 5, 5, None),  # a part of a line
        ("    return total", 6, 6, None),  # repeated: the number decides
        ("    return total", 2, 2, None),  # next to a removed line
        ("    return total", 9, 9, "unchanged"),
        ("    return total", 7, 6, None),  # no such number: the nearest that was added
        ("    return   total + 1\n    return total", 5, 5, None),
        ("    5 +     return   total + 1\n    6 +     return total", 5, 5, None),  # with the gutter
        ("    return 1", 5, 5, None),  # removed: the row after it
        ("    return 1\n    return   total + 1", 5, 5, None),  # removed and added
        ("def two():\n…\n    return total", 4, 4, None),  # rows left out
        ("    return …", 6, 6, None),  # a part left out
        ("return  total + 2", 5, 5, None),  # one edit
        ("return totals", 6, 6, None),
        ("return totals", 3, None, "misplaced"),  # one edit from three rows, and the number is of none of them
        ("    return total + 22", 5, None, "misplaced"),
        ("    return   total + 1\n    return nothing", 5, None, "misplaced"),
        ("", 5, 5, None),  # the number alone
        ("   \n  ", 77, None, "misplaced"),
        ("pass", 10, 10, "unchanged"),
        ("n t", 5, None, "misplaced"),  # too short for a part
    ],
)
def test_the_quote_decides(quote: str, given: int, line: int | None, kind: str | None) -> None:
    one = claim(quote, given)
    finding = placed(one, change())
    state = "unchanged" if finding.unchanged else finding.kind
    assert (finding.line or None, state, finding.severity, finding.explanation) == (line, kind, "high", "e")
    if state == "misplaced":
        assert finding.quote == quote.strip("\n")


def test_the_named_line_wins_over_a_verbatim_one_elsewhere() -> None:
    rows = b"@@ -0,0 +1,4 @@\n+f(\n+)\n+    g(\n+    )\n"
    finding = placed(claim("  )", 4), change(b"--- /dev/null\n+++ b/app.py\n" + rows))
    assert finding.line == 4


@pytest.mark.parametrize("path", ["app.py", "b/app.py", '"app.py"'])
def test_the_path_as_models_write_it(path: str) -> None:
    assert placed(claim("return total + 1", 5, path), change()).line == 5


def test_another_file_has_no_such_line() -> None:
    elsewhere = claim("    return   total + 1", 5, "other.py")
    assert "file" in placed(elsewhere, change()).why


def test_texts_are_clean_and_neighbours_are_kept() -> None:
    finding = placed(claim("return total + 1", 5), change())
    assert (finding.title, finding.explanation) == ("t", "e")
    assert finding.quote == "    return   total + 1"
    assert finding.before == ("    return total", "", "def two():")
    assert finding.after == ("    return total", "", "def three():")


@pytest.mark.parametrize("last", [True, False])
def test_a_replacement_takes_the_place_of_the_lines(last: bool) -> None:
    data = b"--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n a\n+wrong 8\n" + b"\\ No newline at end of file\n" * (not last)
    finding = placed(claim("wrong 8", 2, "x", "right 8\nand 9\n"), change(data))
    assert (finding.replacement, finding.suggestion) == ("right 8\nand 9", "-wrong 8\n+right 8\n+and 9")
    with_returns = placed(claim("wrong 8", 2, "x", "right 8"), change(data.replace(b"8\n", b"8\r\n")))
    assert with_returns.replacement is None
    removed = placed(claim("wrong 8", 2, "x", ""), change(data))
    assert (removed.replacement, removed.suggestion) == ("", "-wrong 8")


def test_a_replacement_that_changes_nothing_is_no_suggestion() -> None:
    finding = placed(claim("return total + 1", 5, replacement="    return   total + 1"), change())
    assert finding.replacement is None and not finding.suggestion


def test_what_nobody_sees_is_quoted_as_it_was_shown() -> None:
    data = "--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n a\n+if admin\u200b: pass  # \u202e\n".encode()
    files = change(data)
    assert "\\u200b" in planned(files).chunks[0].text()
    finding = placed(claim("if admin\\u200b: pass  # \\u202e", 2, "x"), files)
    assert finding.line == 2


def evolve(folder: Path, chance: random.Random) -> None:
    """Change files as developers do: edits, repeats, moved blocks, renames, other line ends, no newline at the end."""
    files = [path for path in folder.rglob("*.txt") if ".git" not in path.parts]
    for path in chance.sample(files, min(len(files), 3)):
        data = path.read_bytes()
        ending = b"\r\n" if b"\r\n" in data else b"\n"
        lines = data.split(ending)
        match chance.choice(("edit", "repeat", "move", "rename", "ends", "tail", "latin")):
            case "edit":
                for _ in range(4):
                    at = chance.randrange(len(lines) + 1)
                    lines[at : at + chance.randrange(3)] = [
                        b"value_%d = %d" % (chance.randrange(9), chance.randrange(99))
                    ]
            case "repeat":
                at, many = (
                    chance.randrange(len(lines) + 1),
                    chance.choice((b"    return result", b"}", b"pass  # again")),
                )
                lines[at:at] = [many, b"step_%d()" % chance.randrange(99), many, b"", many]
            case "move" if len(lines) > 12:
                block = lines[2:9]
                del lines[2:9]
                at = chance.randrange(len(lines))
                lines[at:at] = block
            case "rename":
                lines.insert(1, b"moved_%d" % chance.randrange(999))
                path.unlink()
                path = folder / f"dir {chance.randrange(4)}" / f"{chance.randrange(10**6)} ü.txt"
                path.parent.mkdir(exist_ok=True)
            case "ends":
                ending = b"\n" if ending == b"\r\n" else b"\r\n"
            case "tail":
                lines = lines[:-1] if not lines[-1] else [*lines, b""]
            case "latin":
                lines.insert(len(lines) // 2, b"caf\xe9 = %d" % chance.randrange(99))
        path.write_bytes(ending.join(lines))


def test_planted_findings_stand_on_their_lines(tmp_path: Path) -> None:
    chance = random.Random(20)
    texts = {f"part {n}.txt": "".join(f"start_{n}_{k} = {k % 7}\n" for k in range(30)) for n in range(6)}
    folder = repo.plain(tmp_path / "r", texts)
    score = Score()
    for number in range(amount(10, 400)):
        evolve(folder, chance)
        plant(folder, repo.commit(folder, {}), score, seed=number)
    assert score.wrong == []
    assert sum(score.right.values()) > 5 * score.commits
    assert {label.split(",")[0] for label in score.planted} >= {
        "exact",
        "blanks",
        "gutter",
        "two lines",
        "invented",
        "off",
    }
