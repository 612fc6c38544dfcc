"""The tool `edit`: exact replacements that keep every other byte."""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from codelet.errors import ToolError
from codelet.tools import encoding
from codelet.tools.change import unified
from codelet.tools.planning import make_change, plan_edit
from codelet.tools.tool import ToolContext
from tests.support.amount import amount
from tests.tools.conftest import Call

Refused = Callable[..., Awaitable[str]]


@pytest.fixture
async def file(workspace: Path, call: Call) -> Callable[[bytes], Awaitable[Path]]:
    """Put bytes into a.txt and let the model read it."""

    async def put(data: bytes) -> Path:
        path = workspace / "a.txt"
        path.write_bytes(data)
        await call("read", path="a.txt")
        return path

    return put


Put = Callable[[bytes], Awaitable[Path]]


async def test_one_and_several(file: Put, call: Call) -> None:
    path = await file(b"one\ntwo\nthree\n")
    output = await call("edit", path="a.txt", edits=[{"old": "two", "new": "2"}])
    assert path.read_bytes() == b"one\n2\nthree\n"
    assert output.text == "edited a.txt: 1 replacement"
    assert output.display == "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    output = await call("edit", path="a.txt", edits=[{"old": "one", "new": "uno"}, {"old": "uno\n2", "new": "1"}])
    assert path.read_bytes() == b"1\nthree\n", "a later edit sees what an earlier one made"
    assert output.text == "edited a.txt: 2 replacements"


async def test_all(file: Put, call: Call) -> None:
    path = await file(b"a b a b a")
    output = await call("edit", path="a.txt", edits=[{"old": "a", "new": "aa", "all": True}])
    assert path.read_bytes() == b"aa b aa b aa"
    assert output.text == "edited a.txt: 3 replacements"


async def test_matches_do_not_overlap(file: Put, call: Call) -> None:
    """Three letters hold a pair of them once, five twice: what was replaced is not matched again."""
    path = await file(b"aaa")
    await call("edit", path="a.txt", edits=[{"old": "aa", "new": "b"}])
    assert path.read_bytes() == b"ba"
    path = await file(b"aaaaa")
    await call("edit", path="a.txt", edits=[{"old": "aa", "new": "b", "all": True}])
    assert path.read_bytes() == b"bba"


async def test_all_or_none(file: Put, refused: Refused) -> None:
    path = await file(b"one\ntwo\n")
    text = await refused("edit", path="a.txt", edits=[{"old": "one", "new": "1"}, {"old": "three", "new": "3"}])
    assert text.startswith("edit 2 of 2: ") and "not found" in text
    assert text.endswith("not changed")
    assert path.read_bytes() == b"one\ntwo\n"


async def test_several_matches_are_named(file: Put, refused: Refused) -> None:
    await file(b"x = 1\ny\nx = 1\nz\nx = 1\n")
    text = await refused("edit", path="a.txt", edits=[{"old": "x = 1", "new": "x = 2"}])
    assert "3 times" in text and "1, 3, 5" in text


@pytest.mark.parametrize(
    ("old", "hints"),
    [
        ("def helo(name):", ["closest", "2: def hello(name):"]),
        ("def hello(name):\n  return name", ["line 2", "white space"]),
        ("2\tdef hello(name):\n3\t    return name", ["line numbers"]),
        ("nothing of the kind at all", ["read", "again"]),
    ],
    ids=["typo", "space", "numbers", "nothing"],
)
async def test_hints(old: str, hints: list[str], file: Put, refused: Refused) -> None:
    await file(b"import os\ndef hello(name):\n    return name\n")
    text = await refused("edit", path="a.txt", edits=[{"old": old, "new": "x"}])
    assert [hint for hint in hints if hint not in text] == []


async def test_what_makes_no_sense(file: Put, refused: Refused) -> None:
    await file(b"one\n")
    assert "edits is empty" in await refused("edit", path="a.txt", edits=[])
    assert "old is empty" in await refused("edit", path="a.txt", edits=[{"old": "", "new": "x"}])
    assert "the same" in await refused("edit", path="a.txt", edits=[{"old": "one", "new": "one"}])
    assert "surrogate" in await refused("edit", path="a.txt", edits=[{"old": "one", "new": "\ud83d"}])
    assert "lacks 'new'" in await refused("edit", path="a.txt", edits=[{"old": "one"}])


async def test_arguments_as_several_models_send_them(file: Put, call: Call) -> None:
    path = await file(b"one\n")
    await call("edit", path="a.txt", edits='[{"old": "one", "new": "two"}]')
    assert path.read_bytes() == b"two\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.txt", "edits": {"old": "one", "new": "two"}},
        {"path": "a.txt", "edits": '{"old": "one", "new": "two"}'},
        {"file_path": "a.txt", "old_string": "one", "new_string": "two"},
        {"file_path": "a.txt", "old_string": "one", "new_string": "two", "replace_all": True},
        {"filePath": "a.txt", "edits": [{"old_string": "one", "new_string": "two", "replace_all": False}]},
    ],
)
async def test_the_names_of_other_tools_are_understood(file: Put, call: Call, arguments: dict[str, object]) -> None:
    path = await file(b"one\n")
    await call("edit", **arguments)
    assert path.read_bytes() == b"two\n"
    assert (await call("read", file_path="a.txt")).text == "1\ttwo"
    assert (await call("bash", cmd="echo hi")).text == "hi\n[exit code 0]"


async def test_names_that_fit_nothing_are_told(file: Put, refused: Refused) -> None:
    await file(b"one\n")
    assert "unknown argument 'file_path'" in await refused("read", path="a.txt", file_path="a.txt")
    assert "unknown argument 'old_string'" in await refused("read", path="a.txt", old_string="x")
    assert "lacks 'new'" in await refused("edit", path="a.txt", old_string="one")


async def test_it_must_have_been_read_and_be_unchanged(workspace: Path, call: Call, refused: Refused) -> None:
    path = workspace / "a.txt"
    path.write_text("one\n")
    edits = [{"old": "one", "new": "two"}]
    assert "was not read" in await refused("edit", path="a.txt", edits=edits)
    await call("read", path="a.txt")
    path.write_text("one\nmore\n")
    assert "changed since" in await refused("edit", path="a.txt", edits=edits)
    await call("read", path="a.txt")
    await call("edit", path="a.txt", edits=edits)
    assert path.read_text() == "two\nmore\n"
    await call("edit", path="a.txt", edits=[{"old": "two", "new": "three"}])
    path.unlink()
    assert "does not exist" in await refused("edit", path="a.txt", edits=edits)


async def test_a_change_between_plan_and_write_is_seen(file: Put, context: ToolContext) -> None:
    path = await file(b"one\n")
    change = plan_edit(context, "a.txt", [{"old": "one", "new": "two"}])
    path.write_bytes(b"other\n")
    with pytest.raises(ToolError, match="changed since"):
        make_change(change, context)
    assert path.read_bytes() == b"other\n"


async def test_binary_and_large_files(workspace: Path, context: ToolContext, refused: Refused) -> None:
    edits = [{"old": "a", "new": "b"}]
    for name, data in [("bin", b"a\0b"), ("large", b"a" * (11 << 20))]:
        path = workspace / name
        path.write_bytes(data)
        context.seen[path.resolve()] = (path.stat().st_size, path.stat().st_mtime_ns)
    assert "not text" in await refused("edit", path="bin", edits=edits)
    assert "too many" in await refused("edit", path="large", edits=edits)


ENCODINGS = {
    "utf-8": ("utf-8", b""),
    "bom": ("utf-8", b"\xef\xbb\xbf"),
    "utf-16-le": ("utf-16-le", b"\xff\xfe"),
    "utf-16-be": ("utf-16-be", b"\xfe\xff"),
    "utf-32-le": ("utf-32-le", b"\xff\xfe\0\0"),
}


@pytest.mark.parametrize(("codec", "bom"), ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
async def test_encoding_bom_line_ends_and_last_line_stay(
    codec: str, bom: bytes, end: str, file: Put, call: Call
) -> None:
    text = "Straße eins\nzwei\ndrei ohne Ende"
    path = await file(bom + text.replace("\n", end).encode(codec))
    await call("edit", path="a.txt", edits=[{"old": "Straße eins\nzwei", "new": "größer\n2\n3"}])
    assert path.read_bytes() == bom + "größer\n2\n3\ndrei ohne Ende".replace("\n", end).encode(codec)


async def test_mixed_line_ends_stay(file: Put, call: Call) -> None:
    path = await file(b"a\r\nb\nc\r\nd\r\ne\nf\rg")
    await call("edit", path="a.txt", edits=[{"old": "b\nc", "new": "B\nC"}])
    await call("edit", path="a.txt", edits=[{"old": "d", "new": "D\nD"}])
    assert path.read_bytes() == b"a\r\nB\nC\r\nD\r\nD\r\ne\nf\rg"


async def test_new_lines_end_as_most_lines_of_the_file(file: Put, call: Call) -> None:
    for before, after in (
        (b"a\r\nb\nc\nd\n", b"a\r\nB\nB\nc\nd\n"),
        (b"a\r\nb\nc\r\nd\n", b"a\r\nB\nB\nc\r\nd\n"),
        (b"a\r\nb\nc\r\n", b"a\r\nB\r\nB\nc\r\n"),
    ):
        path = await file(before)
        await call("edit", path="a.txt", edits=[{"old": "b", "new": "B\nB"}])
        assert path.read_bytes() == after


async def test_stray_bytes_stay(file: Put, call: Call) -> None:
    path = await file("Grüße – aus Köln\nÄrger ".encode() + b"\xff\xfe\n")
    output = await call("edit", path="a.txt", edits=[{"old": "Köln", "new": "Ulm"}])
    assert path.read_bytes() == "Grüße – aus Ulm\nÄrger ".encode() + b"\xff\xfe\n"
    assert output.display is not None


async def test_owner_stays(file: Put, call: Call) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file away")
    path = await file(b"one\n")
    os.chown(path, 1234, 2345)
    await call("read", path="a.txt")
    await call("edit", path="a.txt", edits=[{"old": "one", "new": "two"}])
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


@given(st.binary(max_size=200) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "ignore")))
@settings(deadline=None, max_examples=amount(75, 300))
def test_whatever_is_text_comes_back_as_it_was(data: bytes) -> None:
    decoded = encoding.decode_text(data)
    if decoded is None:
        assert encoding.is_binary(data) or encoding.with_bom(data)
        return
    text, form = decoded
    assert encoding.encode_text(text, form) == data


@given(
    st.sampled_from(list(ENCODINGS.values())),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=50),
)
@settings(deadline=None, max_examples=amount(50, 200))
def test_bytes_with_a_mark_come_back_as_they_were(how: tuple[str, bytes], text: str) -> None:
    codec, bom = how
    assume(bom)
    data = bom + text.encode(codec)
    decoded = encoding.decode_text(data)
    assert decoded is not None
    assert decoded[0] == text
    assert encoding.encode_text(*decoded) == data


PIECES = st.lists(st.sampled_from(["a", "b", "é", "\n", "\r\n", "\r", "\t", "word", "✓"]), max_size=30).map("".join)


NEW = st.lists(st.sampled_from(["a", "é", "\n", "\t", "word", "✓"]), max_size=20).map("".join)


@given(before=PIECES, middle=PIECES, after=PIECES, new=NEW)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=amount(37, 150))
def test_all_outside_of_the_replaced_text_stays(
    context: ToolContext, workspace: Path, before: str, middle: str, after: str, new: str
) -> None:
    """Whatever the line ends: the model sends LF, and only what it named changes."""
    before, after = before + "<", ">" + after  # no line end is torn apart at the seams
    old = "X" + middle.replace("\r\n", "\n") + "Y"
    path = workspace / "p.txt"
    path.write_text(before + "X" + middle + "Y" + after, newline="")
    context.seen[path.resolve()] = (path.stat().st_size, path.stat().st_mtime_ns)
    make_change(plan_edit(context, "p.txt", [{"old": old, "new": "N" + new + "N"}]), context)
    result = path.read_bytes().decode()
    assert result.startswith(before + "N")
    assert result.endswith("N" + after)
    inside = result[len(before) : len(result) - len(after)]
    assert inside.replace("\r\n", "\n") == "N" + new + "N"


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "x y"]), max_size=14)


@given(old=LINES, new=LINES, end=st.booleans())
@settings(deadline=None, max_examples=amount(50, 200))
def test_a_diff_gives_the_new_text(old: list[str], new: list[str], end: bool) -> None:
    before = "\n".join(old) + ("\n" if old and end else "")
    after = "\n".join(new) + ("\n" if new else "")
    assert patched(before, unified(before, after, "f")) == after


def patched(text: str, diff: str) -> str:
    """The text after a unified diff, applied by the numbers in its heads."""
    lines = text.split("\n")
    source = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    result: list[str] = []
    at, last = 0, ""
    for line in diff.split("\n")[2:-1]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            first = int(start) - 1 if count != "0" else int(start)
            result += source[at:first]
            at = first
        elif line.startswith("\\"):
            if last != "-":
                result[-1] = result[-1].removesuffix("\n")
        else:
            last = line[0]
            if last == "-":
                assert source[at].removesuffix("\n") == line[1:]
            elif last == " ":
                assert source[at].removesuffix("\n") == line[1:]
                result.append(source[at])
            else:
                result.append(line[1:] + "\n")
            at += last != "+"
    return "".join(result + source[at:])


async def test_a_touched_file_counts_as_read(file: Put, call: Call, refused: Refused) -> None:
    """Another time stamp and the same bytes: a checkout, a copy over itself, a sync."""
    path = await file(b"one\n")
    os.utime(path, ns=(1, 1))
    await call("edit", path="a.txt", edits=[{"old": "one", "new": "two"}])
    os.utime(path, ns=(2, 2))
    await call("write", path="a.txt", content="six\n")
    os.utime(path, ns=(3, 3))
    await call("edit", path="a.txt", edits=[{"old": "six", "new": "ten"}])
    assert path.read_bytes() == b"ten\n"
    path.write_bytes(b"one\n")
    os.utime(path, ns=(4, 4))
    assert "changed since" in await refused("edit", path="a.txt", edits=[{"old": "one", "new": "two"}])
    assert "changed since" in await refused("write", path="a.txt", content="two\n")


async def test_a_large_file_of_small_replacements(file: Put, call: Call) -> None:
    """The work grows with the number of replacements, not with its square (40,000 took half a minute)."""
    path = await file(b"x = 1\r\n" * 40_000)
    begun = time.process_time()  # clock: the bound is ten times what it takes
    await call("edit", path="a.txt", edits=[{"old": "x", "new": "y\nz", "all": True}])
    assert time.process_time() - begun < 8
    assert path.read_bytes() == b"y\r\nz = 1\r\n" * 40_000


@pytest.mark.parametrize("form", ["NFD", "NFC"])
async def test_the_unicode_normalization_of_a_file_is_kept(form: Literal["NFC", "NFD"], file: Put, call: Call) -> None:
    other: Literal["NFC", "NFD"] = "NFC" if form == "NFD" else "NFD"
    text = "name = 'Café Ångström'\nkeep = 1\n"
    path = await file(unicodedata.normalize(form, text).encode())
    edits = [{"old": unicodedata.normalize(other, "Café Ångström"), "new": unicodedata.normalize(other, "Größe")}]
    await call("edit", path="a.txt", edits=edits)
    assert path.read_text() == unicodedata.normalize(form, "name = 'Größe'\nkeep = 1\n")
