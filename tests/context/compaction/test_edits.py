"""What diffs, patches and blocks remove from a text, what of it still holds, and which files they change."""

from __future__ import annotations

import pytest

from codelet.context.compaction.edits import EditedText, is_old, shows_edit, texts_in, without_removed

CASES: dict[str, tuple[str, EditedText]] = {
    "two hunks and text behind them": (
        (
            "before\n"
            "--- a/x.py\n"
            "+++ b/x.py\n"
            "@@ -1,3 +1,2 @@ def f\n"
            " one\n"
            "-two\n"
            " three\n"
            "@@ -9 +8,2 @@\n"
            "-nine\n"
            "+eight\n"
            "+ate\n"
            "behind\n"
            "-not a hunk"
        ),
        EditedText(
            ["before", "one", "three", "eight", "ate", "behind", "-not a hunk"],
            removed=[("x.py", ["two", "nine"])],
            written=["x.py"],
        ),
    ),
    "a hunk cut short": (
        ("@@ -1,5 +1,5 @@\n one\n-two\nno sign here\n-still text"),
        EditedText(["one", "no sign here", "-still text"], removed=[("", ["two"])]),
    ),
    "no newline at the end": (
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\nafter"),
        EditedText(["b", "after"], removed=[("", ["a"])]),
    ),
    "an empty line of a hunk": (
        ("@@ -1,2 +1,1 @@\n\n-gone\nafter"),
        EditedText(["", "after"], removed=[("", ["gone"])]),
    ),
    "lines of a hunk that look like heads": (
        ("@@ -1,2 +1,2 @@\n--- a\n+++ b\n-c\n+d\nafter"),
        EditedText(["++ b", "d", "after"], removed=[("", ["-- a", "c"])]),
    ),
    "a new file": (
        ("--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+one"),
        EditedText(["one"], written=["new.py"]),
    ),
    "a deleted file": (
        ("--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-one"),
        EditedText([], removed=[("old.py", ["one"])], deleted=["old.py"]),
    ),
    "git's head": (
        ("diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"),
        EditedText(["index 1..2 100644", "b"], removed=[("x", ["a"])], written=["x"]),
    ),
    "windows": (
        ("@@ -1 +1 @@\r\n-a\r\n+b\r\nc\r"),
        EditedText(["b", "c"], removed=[("", ["a"])]),
    ),
    "a patch": (
        (
            "*** Begin Patch\n"
            "*** Update File: a.py\n"
            "@@ def f\n"
            " one\n"
            "-two\n"
            "+three\n"
            "*** Add File: b.py\n"
            "+new\n"
            "*** Delete File: c.py\n"
            "*** End Patch\n"
            "-after"
        ),
        EditedText(
            ["Update a.py", "one", "three", "Add b.py", "new", "Delete c.py", "-after"],
            removed=[("a.py", ["two"])],
            written=["a.py", "b.py"],
            deleted=["c.py"],
        ),
    ),
    "a patch that moves": (
        ("*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n-one\n+two\n*** End Patch"),
        EditedText(["Update a.py", "two"], removed=[("b.py", ["one"])], written=["b.py"], deleted=["a.py"]),
    ),
    "a fence": (
        ("text\n```diff\n--- a.py\n+++ a.py\n@@\n-one\n+two\n three\n```\n-after"),
        EditedText(["text", "two", "three", "-after"], removed=[("", ["one"])]),
    ),
    "a list behind a counted hunk": (
        ("@@ -1,2 +1,3 @@\n-one\n+two\n+three\n four\n- a point\n+ another\n five"),
        EditedText(["two", "three", "four", "- a point", "+ another", " five"], removed=[("", ["one"])]),
    ),
    "a loose hunk": (
        ("@@ ... @@\n-one\n+two"),
        EditedText(["two"], removed=[("", ["one"])]),
    ),
    "combined": (
        ("@@@ -1,2 -1,2 +1,2 @@@\n  same\n- mine\n -theirs\n++both\nafter\n-x"),
        EditedText(["same", "both", "after", "-x"], removed=[("", ["mine", "theirs"])]),
    ),
    "a list in a combined hunk": (
        ("@@@ -1,2 -1,2 +1,2 @@@\n  - point\n--old\n++- new"),
        EditedText(["- point", "- new"], removed=[("", ["old"])]),
    ),
    "another file behind a combined hunk": (
        ("@@@ -1 -1 +1 @@@\n--old\n++new\n--- a/y.py\n+++ b/y.py\n-gone\n+here"),
        EditedText(["new", "here"], removed=[("", ["old"]), ("y.py", ["gone"])], written=["y.py"]),
    ),
    "another file behind a loose hunk": (
        ("@@ ... @@\n-one\n+two\n--- a/y.py\n+++ b/y.py\n@@ -1 +1 @@\n-gone\n+here"),
        EditedText(["two", "here"], removed=[("", ["one"]), ("y.py", ["gone"])], written=["y.py"]),
    ),
    "plain": (
        ("3c3\n< old\n---\n> new\n\\ No newline\n5d4\n< five\nafter\n< not"),
        EditedText(["new", "after", "< not"], removed=[("", ["old", "five"])]),
    ),
    "a block": (
        ("<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\nafter"),
        EditedText(["new", "after"], removed=[("", ["old"])]),
    ),
    "two middles": (
        ("<<<<<<< SEARCH\nold\n=======\nnew\n=======\nmore\n>>>>>>> REPLACE"),
        EditedText(["new", "=======", "more"], removed=[("", ["old"])]),
    ),
    "a block without an end": (
        ("<<<<<<< SEARCH\nold\nolder"),
        EditedText(["old", "older"]),
    ),
    "a block in a block": (
        ("<<<<<<< SEARCH\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE"),
        EditedText(["new"], removed=[("", ["<<<<<<< SEARCH", "old"])]),
    ),
    "a conflict": (
        ("<<<<<<< HEAD\nmine\n=======\ntheirs\n>>>>>>> other\nafter"),
        EditedText(["<<<<<<< HEAD", "mine", "=======", "theirs", ">>>>>>> other", "after"]),
    ),
    "nothing": (
        ("plain text\n- a list\n+ another\n"),
        EditedText(["plain text", "- a list", "+ another", ""]),
    ),
    "a frame": (
        ("```\nplain\n```"),
        EditedText(["```", "plain", "```"]),
    ),
    "names without hunks": (
        ("--- a/x.py\n+++ b/x.py\ntext\n-x"),
        EditedText(["text", "-x"], written=["x.py"]),
    ),
    "names in a patch": (
        ("*** Begin Patch\n*** Update File: a.py\n--- not a name\n+++ not either\n-x"),
        EditedText(["Update a.py"], removed=[("a.py", ["x"])], written=["a.py"]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_an_edit_removes_and_what_still_holds(name: str) -> None:
    text, expected = CASES[name]
    assert without_removed(text) == expected


def test_what_an_edit_replaces_comes_before_what_it_puts_in() -> None:
    arguments = {
        "new": "b",
        "old": "a",
        "count": 2,
        "none": None,
        "more": [{"newText": "d", "old_text": ["c", {"x": "e"}]}],
    }
    assert list(texts_in({"new": "a", "replace_all": True, "line": 3})) == [(False, "a"), (False, "3")]
    assert list(texts_in(arguments)) == [
        (True, "a"), (False, "b"), (False, "2"), (True, "c"), (True, "e"), (False, "d")
    ]  # fmt: skip
    assert [is_old(name) for name in ("old", "OLD_STRING", "search-block", "new", "older")] == [True] * 3 + [False] * 2


def test_most_texts_need_no_look() -> None:
    for text in ("@@ -1 +1 @@", "<<<<<<< SEARCH", "*** Update File: a", "```diff", "1c1\n< a", "1a1\n> b"):
        assert shows_edit(text)
    for text in ("", "< a", "a > b", "- a list", "<<<<< five"):
        assert not shows_edit(text)
