"""What the model was shown of a file decides whether it may replace or edit it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codelet.tools.seen import EVERY, ShownLines, count_lines
from codelet.tools.tool import ToolContext
from tests.support.amount import amount
from tests.tools.conftest import Call

Refused = Callable[..., Awaitable[str]]

LINES = "".join(f"line {number}\n" for number in range(1, 5001))


@pytest.fixture
def long(workspace: Path) -> Path:
    path = workspace / "long.txt"
    path.write_text(LINES)
    return path


async def test_a_file_of_which_a_part_was_read_is_not_replaced(long: Path, call: Call, refused: Refused) -> None:
    await call("read", path="long.txt", limit=5)
    told = await refused("write", path="long.txt", content="only five\n")
    assert "1-5 of its 5,000" in told and "edit" in told
    await call("read", path="long.txt", offset=4000)
    assert "1-5, 4000-5000 of its 5,000" in await refused("write", path="long.txt", content="x")
    assert long.read_text() == LINES


async def test_one_that_was_read_by_pages_is(long: Path, call: Call) -> None:
    for offset in (4001, 1, 2001):
        await call("read", path="long.txt", offset=offset)
    assert (await call("write", path="long.txt", content="new\n")).text == "replaced long.txt: 1 lines"
    assert (await call("write", path="long.txt", content="newer\n")).text == "replaced long.txt: 1 lines"
    assert long.read_text() == "newer\n"


async def test_a_page_of_an_older_file_counts_no_more(long: Path, call: Call, refused: Refused) -> None:
    await call("read", path="long.txt", offset=3)
    await call("read", path="long.txt", offset=2003)
    long.write_text(LINES + "one more\n")
    await call("read", path="long.txt", limit=2)
    assert "1-2 of its 5,001" in await refused("write", path="long.txt", content="x")


async def test_lines_that_were_cut_or_are_no_text_do_not_count(workspace: Path, call: Call, refused: Refused) -> None:
    (workspace / "a.txt").write_text(f"short\n{'x' * 3000}\nshort\n")
    assert "more bytes]" in (await call("read", path="a.txt")).text
    assert " 1, 3 of its 3 " in await refused("write", path="a.txt", content="x")
    (workspace / "b.txt").write_bytes("Grüße aus Köln, schöne Grüße\nÄrger ".encode() + b"\xff\xfe\n")
    await call("read", path="b.txt")
    assert " 2 bytes " in await refused("write", path="b.txt", content="x")


async def test_what_the_model_wrote_it_knows(workspace: Path, call: Call) -> None:
    await call("write", path="a.txt", content="one\ntwo\n")
    await call("edit", path="a.txt", edits=[{"old": "two", "new": "2\n3"}])
    await call("write", path="a.txt", content="all new\n")
    assert (workspace / "a.txt").read_text() == "all new\n"


async def test_an_edit_keeps_what_was_shown(long: Path, call: Call, refused: Refused) -> None:
    await call("read", path="long.txt")
    await call("edit", path="long.txt", edits=[{"old": "line 7\n", "new": "line 7\nline 7a\nline 7b\n"}])
    assert "1-2002 of its 5,002" in await refused("write", path="long.txt", content="x")
    await call("read", path="long.txt", offset=2003)
    assert "1-4002 of its 5,002" in await refused("write", path="long.txt", content="x")
    await call("edit", path="long.txt", edits=[{"old": "line 4999\n", "new": ""}])
    await call("read", path="long.txt", offset=4003)
    await call("write", path="long.txt", content="x")
    assert long.read_text() == "x"


async def test_where_nothing_is_lost_nothing_must_be_known(long: Path, workspace: Path, call: Call) -> None:
    (workspace / "empty.txt").touch()
    await call("write", path="empty.txt", content="x\n")
    await call("read", path="long.txt", limit=5)
    assert (await call("write", path="long.txt", content=LINES)).text == "replaced long.txt: 5000 lines"


async def test_what_is_no_text_cannot_have_been_seen(workspace: Path, call: Call, refused: Refused) -> None:
    path = workspace / "a.bin"
    await call("write", path="a.bin", content="x")
    path.write_bytes(b"\0" * 100)
    await call("read", path="a.bin")
    assert "read it again" in await refused("write", path="a.bin", content="x")


@pytest.mark.parametrize(
    ("before", "after", "spans", "kept"),
    [
        ("a\nb\nc\nd\n", "a\nB\nc\nd\n", ((1, 4),), ((1, 5),)),
        ("a\nb\nc\nd\n", "a\nB\nc\nd\n", ((1, 1), (3, 4)), ((1, 1), (3, 4))),
        ("a\nb\nc\nd\n", "a\nd\n", ((4, 4),), ((2, 2),)),
        ("a\nb\nc\nd\n", "x\na\nb\nc\nd\n", ((2, 3),), ((3, 4),)),
        ("a\nb\nc\nd\n", "", (EVERY,), (EVERY,)),
    ],
)
def test_spans_move_with_an_edit(
    before: str, after: str, spans: tuple[tuple[int, int], ...], kept: tuple[tuple[int, int], ...]
) -> None:
    moved = ShownLines(Path("a"), (1, 1), spans).after(before, after, (2, 2))
    lines = count_lines(after)
    assert _numbers(moved.spans, lines) == _numbers(kept, lines)


def _numbers(spans: tuple[tuple[int, int], ...], lines: int) -> set[int]:
    return {number for first, last in spans for number in range(first, min(last, lines) + 1)}


@settings(deadline=None, max_examples=amount(75, 300))
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=12),
    st.integers(0, 11),
    st.integers(0, 4),
    st.lists(st.sampled_from("abcxy"), max_size=4),
    st.sets(st.integers(1, 12)),
)
def test_no_line_counts_as_shown_that_was_not(
    lines: list[str], at: int, gone: int, come: list[str], shown: set[int]
) -> None:
    """Each line carries its number as a name; what the edit brought in is known, the rest as far as it was shown."""
    named = [f"{line}{number}" for number, line in enumerate(lines, 1)]
    fresh = [f"{line}!" for line in come]
    after = [*named[:at], *fresh, *named[at + gone :]]
    spans = tuple((number, number) for number in sorted(shown))
    before_text, after_text = ("".join(f"{line}\n" for line in part) for part in (named, after))
    moved = ShownLines(Path("a"), (1, 1), spans).after(before_text, after_text, (2, 2))
    known = {named[number - 1] for number in shown if number <= len(named)} | set(fresh)
    claimed = {after[number - 1] for number in _numbers(moved.spans, len(after))}
    assert claimed <= known
    assert claimed >= known & set(after) - set(fresh)


class TestEdit:
    """`edit` without a `read`."""

    async def test_what_grep_showed_may_be_edited(self, long: Path, call: Call) -> None:
        await call("grep", pattern="line 4321")
        output = await call("edit", path="long.txt", edits=[{"old": "line 4321\n", "new": "found\n"}])
        assert output.text == "edited long.txt: 1 replacement"
        assert long.read_text() == LINES.replace("line 4321\n", "found\n")

    @pytest.mark.parametrize(
        "command",
        [
            "sed -n 4320,4322p long.txt",
            "cat ./long.txt | tail -3",
            "cd /tmp && ls; cat $OLDPWD/long.txt",
            "grep -n 43 *",
        ],
    )
    async def test_what_a_command_showed_may_be_edited(
        self, command: str, long: Path, workspace: Path, call: Call
    ) -> None:
        (workspace / "other.txt").write_text("43")
        await call("bash", command=command)
        await call("edit", path="long.txt", edits=[{"old": "line 4321\n", "new": "found\n"}])
        assert long.read_text() == LINES.replace("line 4321\n", "found\n")

    @pytest.mark.parametrize(
        "command", ["ls /", "cat longer.txt", "echo long.txt.bak", "echo xlong.txt", "echo long.txt-a"]
    )
    async def test_not_what_it_did_not_name(self, command: str, long: Path, call: Call, refused: Refused) -> None:
        await call("bash", command=command)
        told = await refused("edit", path="long.txt", edits=[{"old": "line 4321\n", "new": ""}])
        assert "was not read" in told

    @pytest.mark.parametrize("how", ["written", "renamed", "times put back"])
    async def test_not_what_changed_since(self, how: str, long: Path, call: Call, refused: Refused) -> None:
        await call("grep", pattern="line 4321")
        before = long.stat()
        other = long.with_name("other")
        other.write_text(LINES.replace("line 1\n", "line one\n"))
        if how == "written":
            long.write_text(LINES.replace("line 1\n", "line one\n"))
        else:
            if how == "times put back":
                os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
            other.replace(long)
        told = await refused("edit", path="long.txt", edits=[{"old": "line 4321\n", "new": ""}])
        assert "read it first" in told

    async def test_nor_what_the_command_itself_changed(self, long: Path, call: Call, refused: Refused) -> None:
        await call("bash", command="sleep 0.05; sed -i 's/line 1$/line one/' long.txt; head -3 long.txt")
        assert "read it first" in await refused("edit", path="long.txt", edits=[{"old": "line 4321\n", "new": ""}])
        await call("bash", command="head -3 long.txt")
        await call("edit", path="long.txt", edits=[{"old": "line 4321\n", "new": ""}])

    async def test_only_where_it_occurs_once(self, long: Path, call: Call, refused: Refused) -> None:
        await call("grep", pattern="line 4321")
        assert "1111 times" in await refused("edit", path="long.txt", edits=[{"old": "line 4", "new": ""}])
        told = await refused("edit", path="long.txt", edits=[{"old": "line 4", "new": "", "all": True}])
        assert "1111 times" in told and "was not read" in told
        assert long.read_text() == LINES

    async def test_a_changed_file_that_was_shown_anew_may_be_edited(self, long: Path, call: Call) -> None:
        await call("read", path="long.txt", limit=3)
        long.write_text(LINES.replace("line 1\n", "line one\n"))
        await call("grep", pattern="line one")
        await call("edit", path="long.txt", edits=[{"old": "line one\n", "new": "line 1\n"}])
        assert long.read_text() == LINES

    async def test_secrets_must_be_read(self, workspace: Path, call: Call, refused: Refused) -> None:
        (workspace / ".env").write_text("KEY=1\n")
        await call("bash", command="ls -a; wc -c .env")
        assert "was not read" in await refused("edit", path=".env", edits=[{"old": "KEY=1", "new": "KEY=2"}])

    async def test_what_the_list_no_longer_holds_is_forgotten(
        self, long: Path, call: Call, refused: Refused, context: ToolContext
    ) -> None:
        await call("grep", pattern="line 4321")
        context.list_changed(body=True)
        assert "was not read" in await refused("edit", path="long.txt", edits=[{"old": "line 4321\n", "new": ""}])

    async def test_a_file_that_is_not_there_is_for_write(self, refused: Refused) -> None:
        told = await refused("edit", path="new.py", edits=[{"old": "a", "new": "x = 1\n"}])
        assert told.startswith("new.py ") and "write" in told and "find" in told
