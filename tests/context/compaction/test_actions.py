"""What a tool call does, told from its name and arguments, whatever the tools of a session are called."""

from __future__ import annotations

from typing import Any

import pytest

from codelet.context.compaction.actions import Action, action_of, is_writer, label_of
from tests.context.compaction.lists import calling

DIFF = "--- a/src/x.py\n+++ b/src/x.py\n@@ -1,2 +1,2 @@\n-old = 1\n+new = 2\n keep\n"


def act(name: str, **arguments: Any) -> Action:
    return action_of(calling(("c7", name, arguments))["tool_calls"][0])


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "subject"),
    [
        ("read", {"path": "a.py"}, "read", "a.py"),
        ("read", {}, "read", ""),
        ("fs_read_text", {"file_path": "a.py"}, "read", "a.py"),
        ("fs_read_text", {"query": "a"}, "other", "a"),
        ("view_file", {"target_file": "a.py"}, "read", "a.py"),
        ("write", {"path": "a.py", "content": "x"}, "write", "a.py"),
        ("write", {"content": "x"}, "write", ""),
        ("read_file", {"filePath": "a.py", "startLine": 1}, "read", "a.py"),
        ("view_file", {"AbsolutePath": "/w/a.py"}, "read", "/w/a.py"),
        ("create_file", {"filePath": "a.py", "content": "x"}, "write", "a.py"),
        ("run_command", {"CommandLine": "make test", "Cwd": "/w"}, "command", "make test"),
        ("delete_file", {"target_file": "a.py", "explanation": "x"}, "write", "a.py"),
        ("delete_file", {"id": 7}, "other", ""),
        ("rename_file", {"old_path": "a.py", "new_path": "b.py"}, "write", "b.py"),
        ("move_file", {"source": "a.py", "destination": "b.py"}, "write", "b.py"),
        ("move_file", {"source": "a.py"}, "other", ""),
        ("str_replace_editor", {"command": "undo_edit", "path": "a.py"}, "write", "a.py"),
        ("Edit", {}, "write", ""),
        ("fs_write_text", {"file": "a.py", "text": "x"}, "write", "a.py"),
        ("rewrite_history", {"query": "x"}, "other", "x"),
        ("apply", {"text": DIFF}, "other", ""),
        ("replace_all", {"text": DIFF}, "write", "src/x.py"),
        ("replace_all", {"text": "no edit at all"}, "other", ""),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, "read", "a.py"),
        ("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "x"}, "write", "a.py"),
        ("bash", {"command": "make test"}, "command", "make test"),
        ("run", {"cmd": ["bash", "-lc", "make test"]}, "command", "make test"),
        ("run", {"cmd": ["/bin/sh", "-c", "ls 'a b'"]}, "command", "ls 'a b'"),
        ("run", {"cmd": ["bash", "-x", "a b"]}, "command", "bash -x 'a b'"),
        ("run", {"cmd": ["env", "-c", "ls"]}, "command", "env -c ls"),
        ("run", {"cmd": ["bash", "-c", "ls", "x"]}, "command", "bash -c ls x"),
        ("run", {"cmd": ["ls", 1]}, "other", ""),
        ("search", {"pattern": "x", "url": "y"}, "other", "x"),
        ("search", {"pattern": "", "url": "y"}, "other", "y"),
        ("search", {"pattern": 5, "description": "z"}, "other", "z"),
    ],
)
def test_kind_and_subject(name: str, arguments: dict[str, Any], kind: str, subject: str):
    action = act(name, **arguments)
    assert (action.call_id, action.name, action.kind, action.subject) == ("c7", name, kind, subject)


def test_what_an_edit_says_and_takes_away():
    edit = act("edit", path="a.py", old="one\ntwo", new="three")
    assert edit.values == ("three",) and edit.written == ("a.py",) and not edit.whole
    assert [pair for one in edit.edits for pair in one.removed] == [("a.py", ("one", "two"))]
    patch = act("bash", command=f"git apply <<'EOF'\n{DIFF}EOF")
    assert (patch.kind, patch.subject, patch.written) == ("write", "src/x.py", ("src/x.py",))
    assert [pair for one in patch.edits for pair in one.removed] == [("src/x.py", ("old = 1",))]
    assert "new = 2" in "\n".join(patch.values) and "old = 1" not in "\n".join(patch.values)
    assert not any("git apply" in value for value in patch.values)
    begun = act("bash", command="cd src && apply_patch '*** Begin Patch\n*** Add File: a.py\n+x = 1\n*** End Patch'")
    assert (begun.written, begun.values) == (("a.py",), ("Add a.py\nx = 1",))
    assert act("bash", command=f"cat <<'EOF'\n{DIFF}EOF").kind == "command"
    assert (
        act("bash", command="patch -p1 < fix.diff").kind == act("bash", command="git apply fix.diff").kind == "command"
    )


def test_a_file_that_is_written_anew_has_nothing_of_its_old_content():
    assert act("write", path="a.py", content="x = 1").whole
    assert act("str_replace_editor", command="create", path="a.py", file_text="x").whole
    assert act("text_editor", command="write", path="a.py", file_text="x").whole
    assert not act("write", path="a.py", content=DIFF).whole
    assert not act("edit", path="a.py", new="x").whole


def test_what_is_done_to_a_whole_file():
    gone, moved = act("delete_file", path="a.py"), act("moveFile", source="a.py", destination="b.py")
    assert (gone.written, gone.deleted, gone.moves) == ((), ("a.py",), False)
    assert (moved.written, moved.deleted, moved.moves) == (("b.py",), ("a.py",), True)
    assert act("str_replace_editor", command="undo_edit", path="a.py").undoes


def test_a_deleted_file_is_no_written_one():
    gone = act(
        "apply_patch", input="*** Begin Patch\n*** Delete File: b.py\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"
    )
    assert (gone.written, gone.deleted) == (("a.py",), ("b.py",))


def test_values_leave_out_the_subject_and_what_is_null():
    assert act("bash", command="ls", cwd="src", note=None, subject="ls").values == ("src",)


@pytest.mark.parametrize(("raw", "kind"), [("not json", "other"), ('"text"', "other"), ("[1]", "other"), ("", "other")])
def test_arguments_that_are_no_object_count_as_one_value(raw: str, kind: str):
    call = {"id": 5, "type": "function", "function": {"name": "tell", "arguments": raw}}
    action = action_of(call)
    assert (action.call_id, action.kind, action.subject) == ("5", kind, "")
    assert action.values == ((raw,) if raw else ())


def test_a_patch_as_bare_text_is_a_write():
    call = {"id": "c", "type": "function", "function": {"name": "apply_patch", "arguments": DIFF}}
    assert (action_of(call).kind, action_of(call).written) == ("write", ("src/x.py",))


def test_a_label_is_one_line_of_bounded_length():
    assert label_of(act("bash", command="ls\n  -l [a]")) == "bash ls -l [a)"
    assert label_of(act("bash")) == "bash"
    assert label_of(act("bash", command="x" * 110)) == "bash " + "x" * 110
    assert label_of(act("bash", command="x" * 111)) == "bash " + "x" * 109 + "…"


@pytest.mark.parametrize("name", ["edit", "Write_File", "multi_edit", "insert_lines"])
def test_what_edits_files_is_known_by_its_name(name: str):
    assert is_writer(name) and not is_writer("grep")


def test_how_a_command_is_run_is_no_text_of_it():
    action = act("shell", command=["bash", "-lc", "make test"], workdir="/srv/app", timeout_ms=120000, why="to see it")
    assert (action.subject, action.values) == ("make test", ("/srv/app", "to see it"))
