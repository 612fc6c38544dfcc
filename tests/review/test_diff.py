"""Diffs as git and diff write them: every file, every name, every byte of a hunk."""

from __future__ import annotations

import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codelet.errors import UsageError
from codelet.review.diff import FileDiff, parse_diff
from tests.support import repo
from tests.support.amount import amount

ODD_NAMES = [
    "with space.txt",
    'quo"te.txt',
    "new\nline.txt",
    "tab\there.txt",
    "ümläut.txt",
    "b/é.py",
    'a/q"uote.py',
    "a b/c d.txt",
    "-dash",
    "b/x",
]


def diff_of(folder: Path, *words: str) -> bytes:
    return subprocess.run(["git", "diff", "--no-color", *words], cwd=folder, check=True, capture_output=True).stdout


def parsed(data: bytes) -> list[FileDiff]:
    return list(parse_diff(BytesIO(data)))


def new_side(file: FileDiff) -> bytes:
    """The new file, of a diff that shows all of it."""
    text = last = b""
    for line in file.hunks[0].body.split(b"\n"):
        if line[:1] in (b" ", b"+"):
            text += line[1:] + b"\n"
        elif line[:1] == b"\\" and last[:1] != b"-":
            text = text.removesuffix(b"\n")
        last = line
    return text


@pytest.mark.parametrize("words", [(), ("--no-prefix",), ("--src-prefix=i/", "--dst-prefix=w/")])
def test_names_of_any_kind_come_out_as_they_are(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = repo.plain(tmp_path / "r", dict.fromkeys(ODD_NAMES, "one\n"))
    repo.write(folder, dict.fromkeys(ODD_NAMES, "two\n"))
    assert sorted(file.path for file in parsed(diff_of(folder, *words))) == sorted(ODD_NAMES)


def test_added_removed_and_renamed_files_with_odd_names(tmp_path: Path) -> None:
    body = "".join(f"line {number}\n" for number in range(20))
    folder = repo.plain(tmp_path / "r", {"old name.txt": body, "gone\n.txt": "x\n"})
    (folder / "old name.txt").rename(folder / 'new "name".txt')
    (folder / "gone\n.txt").unlink()
    repo.write(folder, {"fresh ü.txt": "y\n", "empty": ""})
    repo.git(folder, "add", "-A")
    found = {file.path: file for file in parsed(diff_of(folder, "--cached", "-M"))}
    assert {path: file.state for path, file in found.items()} == {
        'new "name".txt': "renamed", "gone\n.txt": "removed", "fresh ü.txt": "added", "empty": "added",
    }  # fmt: skip
    assert found['new "name".txt'].old_path == "old name.txt"
    assert not found['new "name".txt'].hunks


def test_binaries_modes_and_submodules_are_told_apart(tmp_path: Path) -> None:
    folder = repo.plain(tmp_path / "r", {"tool": "#!/bin/sh\n", "image": b"\x00\x01\x02"})
    inner = repo.plain(tmp_path / "inner")
    (folder / "tool").chmod(0o755)
    repo.write(folder, {"image": b"\x00\x01\x03"})
    repo.git(folder, "add", "-A")
    repo.git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    found = {file.path: file for file in parsed(diff_of(folder, "--cached"))}
    assert found["image"].binary
    assert found["tool"].modes == ("100644", "100755")
    assert found["sub"].submodule
    patch = {file.path: file for file in parsed(diff_of(folder, "--cached", "--binary"))}
    assert patch["image"].binary
    assert set(patch) == set(found)


@settings(max_examples=amount(50, 2_000), deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"--- a/x", b"+++ b/y", b"@@ -1 +1 @@", b"diff --git a/q b/q", b"\xe9\r", b""])),
    st.lists(st.sampled_from([b"a", b"--- a/x", b"+++ b/y", b"-- z", b"\xff", b"index 1..2", b"", b"c\r"])),
    st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_what_stands_in_a_file_is_never_taken_for_a_header(
    tmp_path_factory: pytest.TempPathFactory, old: list[bytes], new: list[bytes], ends: bool, ended: bool
) -> None:
    folder = tmp_path_factory.mktemp("d")
    texts = [b"\n".join(lines) + b"\n" * end for lines, end in ((old, ended), (new, ends))]
    (folder / "one").write_bytes(texts[0])
    (folder / "two").write_bytes(texts[1])
    data = (
        diff_of(folder, "--no-index", "--text", "-U1000", "one", "two") if texts[0] == texts[1] else _no_index(folder)
    )
    files = parsed(data)
    assert len(files) == (texts[0] != texts[1])
    if files and files[0].hunks:
        assert new_side(files[0]) == texts[1]
        assert not files[0].hunks[0].flaw


def _no_index(folder: Path) -> bytes:
    command = ["git", "diff", "--no-index", "--no-color", "--text", "-U1000", "one", "two"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout


def test_a_diff_of_diff_u_with_times(tmp_path: Path) -> None:
    repo.write(tmp_path, {"old/my file.c": "a\nb\n", "new/my file.c": "a\nc\n"})
    command = ["diff", "-ru", "old", "new"]
    data = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout
    (file,) = parsed(data)
    assert file.path == "new/my file.c"
    assert (file.hunks[0].added, file.hunks[0].removed) == (1, 1)


def test_a_diff_that_ends_inside_a_hunk_says_so(tmp_path: Path) -> None:
    folder = repo.plain(tmp_path / "r", {"a": "1\n2\n3\n"})
    repo.write(folder, {"a": "1\n2\n3\n4\n5\n"})
    data = diff_of(folder)
    (file,) = parsed(data[: data.rindex(b"+5")])
    assert file.hunks[0].flaw


def test_a_line_that_belongs_to_no_hunk_breaks_it_and_is_not_swallowed() -> None:
    data = b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\nrubbish\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"
    first, second = parsed(data)
    assert first.hunks[0].flaw
    assert not second.hunks[0].flaw
    assert second.path == "y"


def test_lines_that_no_header_counts_are_told() -> None:
    data = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n+c\n"
    (file,) = parsed(data)
    assert file.hunks[0].flaw


HEADERS = (
    "@@ -0000000001,0 +0000000001,1 @@",
    "@@ -1,0  +1,1 @@",
    "@@ -1,0 +1,1",
    "@@\t-1,0 +1,1 @@",
    "@@@ -1 -1 +1 @@@",
    "",
)


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("names", ["--- a/e.py\n+++ b/e.py\n", "diff --git a/e.py b/e.py\n--- a/e.py\n+++ b/e.py\n"])
def test_lines_below_a_header_that_is_none_are_told(names: str, header: str) -> None:
    """`git apply` takes the first of them: what it puts into the file must not pass for a file without a change."""
    [file] = parsed(f"{names}{header}\n+evil()\n".encode())
    [hunk] = file.hunks
    assert "without a header" in hunk.flaw


def test_a_hunk_below_no_names_is_told() -> None:
    [file] = parsed(b"diff --git a/e.py b/e.py\n@@ -1,0 +1,1 @@\n+evil()\n")
    assert [bool(hunk.flaw) for hunk in file.hunks] == [True]


@pytest.mark.parametrize("claim", ["index 1111111..2222222 160000", "new file mode 160000\nindex 0000000..2222222"])
def test_only_what_git_says_of_a_submodule_is_one(claim: str) -> None:
    head = f"diff --git a/e.py b/e.py\n{claim}\n--- a/e.py\n+++ b/e.py\n@@ -0,0 +1,1 @@\n"
    [file] = parsed(f"{head}+evil()\n".encode())
    assert not file.submodule and file.hunks
    [file] = parsed(f"{head}+Subproject commit {'1' * 40}\n".encode())
    assert file.submodule


def test_mails_of_format_patch_are_whole(tmp_path: Path) -> None:
    """Between two of them stand a signature, headers, a message, `---` and a table of the changed files."""
    folder = repo.plain(tmp_path / "r")
    for text in ("# Other", "# Another\n"):
        repo.commit(folder, {"README.md": text})
    mails = subprocess.run(
        ["git", "format-patch", "-2", "--stdout"], cwd=folder, check=True, capture_output=True
    ).stdout
    files = parsed(mails)
    assert [file.path for file in files] == ["README.md", "README.md"]
    assert not any(hunk.flaw for file in files for hunk in file.hunks)
    lines = mails.replace(b"\n---\n", b"\n+hidden\n").replace(b"\nFrom ", b"\nfrom ")
    assert any(hunk.flaw for file in parsed(lines) for hunk in file.hunks)


MERGE = b"diff --cc a.py\nindex 1,2..3\n--- a/a.py\n+++ b/a.py\n@@@ -1,2 -1,2 +1,3 @@@\n  x\n++y\n"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"hello\n", "no diff"),
        (b"\x1b[1mdiff --git a/x b/x\x1b[m\n", "coloured"),
        (b"{}", "no diff"),
        (MERGE, "all its parents"),
    ],
)
def test_what_is_no_diff_is_an_error(data: bytes, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parsed(data)


def test_no_bytes_are_no_files() -> None:
    assert parsed(b"") == []


def test_line_ends_that_a_program_changed_on_the_way(tmp_path: Path) -> None:
    folder = repo.plain(tmp_path / "r", {"a b": "1\n"})
    repo.write(folder, {"a b": "2\n"})
    (file,) = parsed(diff_of(folder).replace(b"\n", b"\r\n"))
    assert file.path == "a b"
    assert file.hunks[0].added == 1
