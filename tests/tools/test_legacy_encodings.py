"""Files that are not UTF-8 and have no mark: nothing of them is lost, and no new text depends on a guess."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.tools.conftest import Call

Refused = Callable[..., Awaitable[str]]

TEXTS = {
    "cp1252": "// don’t pay 5 € at the café\n",
    "latin-1": "// Grüße aus Köln, à bientôt\n",
    "cp1251": "// see also: настройка here\n",
    "shift_jis": "// settings: 設定 of the program\n",
    "euc_jp": "// settings: 設定 of the program\n",
    "gbk": "// settings: 配置文件 of the program\n",
}


@pytest.fixture(params=sorted(TEXTS))
async def legacy(request: pytest.FixtureRequest, workspace: Path, call: Call) -> tuple[Path, bytes]:
    """A file in an old encoding that the model has read, and its first line."""
    head = TEXTS[request.param].encode(request.param)
    path = workspace / "a.c"
    path.write_bytes(head + b"int x = 1;\n")
    output = await call("read", path="a.c")
    assert "not UTF-8" in output.text
    assert "not UTF-8" in output.caveat
    return path, head


@pytest.mark.parametrize("new", ["é", "й", "€", "µs ©", "設定"])
async def test_only_ascii_is_put_into_a_guessed_encoding(
    new: str, legacy: tuple[Path, bytes], call: Call, refused: Refused
) -> None:
    path, head = legacy
    text = await refused("edit", path="a.c", edits=[{"old": "int x = 1;", "new": f"int x = 1; // {new}"}])
    assert f"U+{ord(new[0]):04X}" in text
    assert path.read_bytes() == head + b"int x = 1;\n"
    await call("edit", path="a.c", edits=[{"old": "int x = 1;", "new": "int x = 2;"}])
    assert path.read_bytes() == head + b"int x = 2;\n"


async def test_what_old_has_may_stay(legacy: tuple[Path, bytes], call: Call) -> None:
    path, head = legacy
    shown = (await call("read", path="a.c")).text.split("\n")[0].partition("\t")[2]
    await call("edit", path="a.c", edits=[{"old": f"{shown}\nint", "new": f"/* new */ {shown}\nlong"}])
    assert path.read_bytes() == b"/* new */ " + head + b"long x = 1;\n"


async def test_write_keeps_the_bytes_or_refuses(legacy: tuple[Path, bytes], call: Call, refused: Refused) -> None:
    path, head = legacy
    shown = (await call("read", path="a.c")).text.split("\n")[0].partition("\t")[2]
    assert "UTF-8" in await refused("write", path="a.c", content="// ñ\n")
    assert path.read_bytes() == head + b"int x = 1;\n"
    await call("write", path="a.c", content=f"{shown}\nint y;\n")
    assert path.read_bytes() == head + b"int y;\n"


async def test_every_byte_is_a_character_and_the_same_byte_again(workspace: Path, call: Call) -> None:
    data = b"".join(b"some words %c and a few more\n" % byte for byte in range(0x80, 0x100))
    (workspace / "a.txt").write_bytes(data + b"x\n")
    text = (await call("read", path="a.txt")).text
    assert "some words € and" in text
    assert "\N{REPLACEMENT CHARACTER}" not in text
    await call("edit", path="a.txt", edits=[{"old": "\nx\n", "new": "\ny\n"}])
    assert (workspace / "a.txt").read_bytes() == data + b"y\n"


async def test_a_large_file_is_named_too(workspace: Path, call: Call) -> None:
    """One that is too large to be edited is decoded as far as it is shown."""
    (workspace / "a.txt").write_bytes("café\n".encode("latin-1") * 2_200_000)
    output = await call("read", path="a.txt", limit=2)
    assert output.text.startswith("1\tcafé\n2\tcafé\n")
    assert "not UTF-8" in output.caveat


@pytest.mark.parametrize("codec", ["shift_jis", "euc_jp", "gbk"])
async def test_few_letters_are_not_taken_for_damaged_utf_8(codec: str, workspace: Path, call: Call) -> None:
    """Two bytes of these encodings can be one letter of UTF-8 by chance: more than that has to be right."""
    (workspace / "a.txt").write_bytes(b"some words\n" + b"\xc4\xa3" + "設".encode(codec) + b"\nmore words\n")
    assert "not UTF-8" in (await call("read", path="a.txt")).caveat


async def test_mostly_foreign_letters_are_not_just_called_binary(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_bytes("настройка программы\n".encode("cp1251"))
    assert "iconv" in (await call("read", path="a.txt")).text


@pytest.mark.parametrize("program", ["ripgrep", "built-in"])
async def test_grep_finds_plain_words_in_any_encoding(
    program: str, workspace: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    """Lines that are not UTF-8 are searched byte by byte, and shown as `read` shows them."""
    (workspace / "a.txt").write_bytes("first\ncafé au lait: 5 €\nlast\n".encode("cp1252"))
    (workspace / "b.txt").write_text("café au lait: 5 €\n")
    if program == "built-in":
        monkeypatch.setenv("PATH", str(workspace / "none"))
    text = (await call("grep", pattern="au lait", glob="*.txt")).text
    assert text.splitlines() == ["a.txt:2:café au lait: 5 €", "b.txt:1:café au lait: 5 €"]
    around = (await call("grep", pattern="au lait", around=1, glob="a.*")).text
    assert around.splitlines() == ["a.txt-1-first", ":2:café au lait: 5 €", "-3-last"]
