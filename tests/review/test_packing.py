"""Every hunk of a change is in a chunk or has a reason not to be, and sizes are kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codelet.context.tokens.exact import count_tokens
from codelet.review.diff import FileDiff, FileState, Hunk, parse_diff
from codelet.review.packing import ended, planned, why_left_out
from tests.support.amount import amount
from tests.support.diffs import large_diff
from tests.support.program import ROOT


def hunk(body: bytes, start: int = 1) -> Hunk:
    signs = Counter(line[:1] for line in body.split(b"\n"))
    return Hunk(
        old_start=start, old_lines=signs[b" "] + signs[b"-"], new_start=start, new_lines=signs[b" "] + signs[b"+"],
        section=b"", body=body, added=signs[b"+"], removed=signs[b"-"],
    )  # fmt: skip


def file(path: str, *bodies: bytes, state: FileState = "changed") -> FileDiff:
    return FileDiff(path=path, state=state, hunks=tuple(hunk(body, 1 + 100 * n) for n, body in enumerate(bodies)))


LINES = st.lists(st.sampled_from([b" a", b"+b", b"-c", b"+" + b"x" * 90, b"-" + b"y" * 3_000, b" \xe9\r"]), min_size=1)


@settings(max_examples=amount(60, 2_000), deadline=None)
@given(st.lists(st.lists(LINES, max_size=4), max_size=6), st.sampled_from([60, 200, 6_000]))
def test_every_line_of_every_hunk_is_in_one_chunk(bodies: list[list[list[bytes]]], most: int) -> None:
    files = [file(f"f{n}.py", *(b"\n".join(lines) for lines in hunks)) for n, hunks in enumerate(bodies)]
    plan = planned(files, most=most)
    assert [chunk.number for chunk in plan.chunks] == list(range(1, len(plan.chunks) + 1))
    sent: dict[int, list[bytes]] = defaultdict(list)
    for chunk in plan.chunks:
        assert chunk.tokens <= most or len(chunk.pieces) == 1
        for piece in chunk.pieces:
            sent[piece.number].append(piece.hunk.body)
            numbers = [line.number for line in piece.lines if line.sign != "-"]
            assert numbers == list(range(piece.hunk.new_start, piece.hunk.new_start + piece.hunk.new_lines))
    given_bodies = [b"\n".join(lines) for hunks in bodies for lines in hunks]
    entries = [number for number, entry in enumerate(plan.hunks) if entry.added + entry.removed or entry.new_lines]
    assert [b"\n".join(sent[number]) for number in sorted(sent)] == given_bodies
    assert sorted(sent) == entries


def test_a_line_too_long_to_send_leaves_its_hunk_truncated() -> None:
    plan = planned([file("a.js", b"+" + b"x" * 5_000, b"+short")])
    states = [ended(plan.hunks[piece.number], [piece]) for chunk in plan.chunks for piece in chunk.pieces]
    assert [each.state for each in states] == ["truncated", "reviewed"]
    assert "2,000 characters" in states[0].why


def test_a_broken_hunk_is_truncated_however_it_is_split() -> None:
    broken = hunk(b"\n".join([b"+line"] * 90)).replace(flaw="the diff ends inside this hunk")
    plan = planned([FileDiff(path="a", hunks=(broken,))], most=100)
    pieces = [piece for chunk in plan.chunks for piece in chunk.pieces]
    assert len(pieces) > 2
    assert ended(plan.hunks[0], pieces).state == "truncated"
    empty = planned([FileDiff(path="a", hunks=(broken.replace(body=b""),))])
    assert (empty.chunks, [entry.state for entry in empty.hunks]) == ((), ["truncated"])


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (file("web/package-lock.json", b"+x"), "lock file"),
        (file("vendor/lib/a.go", b"+x"), "vendored"),
        (file("static/app.min.js", b"+x"), "generated"),
        (FileDiff(path="lib", submodule=True), "submodule"),
        (FileDiff(path="a.png", binary=True), "binary"),
        (FileDiff(path="b.py", old_path="a.py", state="renamed"), "renamed"),
        (FileDiff(path="run", modes=("100644", "100755")), "mode"),
        (FileDiff(path="empty", state="added"), "empty"),
    ],
)
def test_what_is_left_out_says_why(one: FileDiff, why: str) -> None:
    assert why in (why_left_out(one) or "")
    plan = planned([one])
    assert plan.chunks == ()
    assert [entry.state for entry in plan.hunks] == ["skipped"]


def test_generated_files_are_reviewed_where_that_is_asked_for() -> None:
    assert len(planned([file("yarn.lock", b"+x")], generated=True).chunks) == 1


@pytest.mark.parametrize(
    ("data", "binary"),
    [(b"\0\1\2abc", True), (b"a" * 99 + b"\0", False), ("a b".encode("utf-16-le"), True), (b"", False)],
)
def test_a_few_control_characters_make_no_binary(data: bytes, binary: bool) -> None:
    assert ((why_left_out(file("x.dat", data)) or "") == "a binary file") is binary


def test_tokens_of_ordinary_code_are_estimated_on_the_large_side() -> None:
    sources = sorted((ROOT / "codelet" / "review").glob("*.py"))
    files = [file(path.name, b"+" + path.read_bytes().strip().replace(b"\n", b"\n+")) for path in sources]
    for chunk in planned(files, most=4_000).chunks:
        assert 0.6 * chunk.tokens < count_tokens(chunk.text()) < chunk.tokens


def test_a_large_diff_is_accounted_for_whole() -> None:
    """A tenth of 5,000 files and 500,000 lines."""
    files = amount(500, 5_000)
    plan = planned(list(parse_diff(BytesIO(large_diff(files=files, hunks=4, lines=25)))))
    assert len(plan.hunks) == files * 4
    assert sum(entry.added + entry.removed for entry in plan.hunks) == files * 100
    assert {piece.number for chunk in plan.chunks for piece in chunk.pieces} == set(range(files * 4))
