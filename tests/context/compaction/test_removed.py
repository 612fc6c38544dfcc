"""Lines that an edit removed are never shown as current."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelet.context.compaction.engine import compact
from codelet.context.compaction.reading import as_changed
from codelet.context.tokens import estimate_message
from scripts.bench.context.readers import read_all
from tests.context.compaction.lists import Message, coding_session, says, segments_of, user
from tests.context.compaction.planted import GOOD, did

OLD = "    if retry_count < LIMIT_OF_RETRIES:"
NEW = "    if retry_count <= LIMIT_OF_RETRIES:"
PATCH = f"*** Begin Patch\n*** Update File: src/a.py\n@@\n def go():\n-{OLD}\n+{NEW}\n*** End Patch"
DIFF = (
    f"diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n def go():\n-{OLD}\n+{NEW}\n"
)
BLOCK = f"src/a.py\n```python\n<<<<<<< SEARCH\n{OLD}\n=======\n{NEW}\n>>>>>>> REPLACE\n```"
EDITS = {
    "codelet": ("edit", {"path": "src/a.py", "old": OLD, "new": NEW}),
    "new text first": ("edit", {"path": "src/a.py", "newText": NEW, "oldText": OLD}),
    "old_string": ("Edit", {"file_path": "src/a.py", "old_string": OLD, "new_string": NEW}),
    "old_str": ("str_replace_editor", {"command": "str_replace", "path": "src/a.py", "old_str": OLD, "new_str": NEW}),
    "several": ("MultiEdit", {"file_path": "src/a.py", "edits": [{"old_string": OLD, "new_string": NEW}]}),
    "search": ("edit", {"path": "src/a.py", "search": OLD, "replace": NEW}),
    "patch": ("apply_patch", {"input": PATCH}),
    "a patch among other words": ("send_patch", {"change": PATCH, "note": "as asked", "attempt": 1}),
    "a list of words": ("shell", {"command": ["apply_patch", PATCH]}),
    "unified": ("patch", {"path": "src/a.py", "diff": DIFF}),
    "fenced": ("apply_patch", {"input": f"**Update: `src/a.py`**\n\n```diff\n@@\n-{OLD}\n+{NEW}\n```"}),
    "blocks": ("replace_in_file", {"path": "src/a.py", "diff": BLOCK}),
    "blocks with dashes": (
        "replace_in_file",
        {"path": "src/a.py", "diff": f"------- SEARCH\n{OLD}\n=======\n{NEW}\n+++++++ REPLACE"},
    ),
    "names in one word": ("replace_string_in_file", {"filePath": "src/a.py", "oldString": OLD, "newString": NEW}),
    "the whole file": ("write", {"path": "src/a.py", "content": f"def go():\n{NEW}\n"}),
    "sed": ("bash", {"command": "sed -i 's/retry_count < LIMIT/retry_count <= LIMIT/' src/a.py"}),
}


def session(*middle: Message) -> list[Message]:
    """A file is read, something happens, and much follows."""
    read = did("r", "read", {"path": "src/a.py"}, f"def go():\n{OLD}\n        again()")
    return [user("Mend the retries."), *read, *middle, *coding_session(8)[1:]]


def failed(steps: list[Message]) -> list[Message]:
    """Steps whose result is marked as a failure where only its own words say so."""
    steps[1]["failed"] = not steps[1]["content"].startswith("{")
    return steps


def shown(messages: list[Message]) -> list[str]:
    """The lines of the summaries that are not the user's words, those of the newest changes among them."""
    segments = segments_of(messages)
    return [line.strip() for s in segments for e in s.entries if e.label != "user" for line in e.lines]


@pytest.mark.parametrize("form", EDITS)
@pytest.mark.parametrize("target", [2_500, 5_000])
def test_of_an_edit_the_new_text_is_told_and_the_old_text_is_not(form: str, target: int):
    done = session(*did("e", *EDITS[form], "edited src/a.py: 1 replacement"), says("Mended."))
    lines = shown(compact(done, target).messages)
    assert OLD.strip() not in lines
    assert NEW.strip() in lines or form == "sed"


DONE = did("e", *EDITS["codelet"], "edited src/a.py: 1 replacement")
FENCED = f"```diff\n-{OLD}\n+{NEW}\n```"
FAILED = [
    "src/a.py: the old text does not occur in it",
    '{"success": false, "error": "the search text was not there"}',
    '{"ok": false}',
    '{"error": "no such file", "path": "src/a.py"}',
]
WENT_WELL = [
    "The content was successfully saved to src/a.py.\n\nThe file as it is now:\nraise error: not found",
    "The following files were successfully edited:\nsrc/a.py\nsrc/error.py",
    "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess. Updated the following files:\nM src/error.py",
    "The file has been updated. Here is a snippet:\n12\tif error: fail()",
    '{"success": true, "error": null, "path": "src/a.py"}',
    '{"ok": true, "message": "no errors, nothing failed"}',
    '{"errors": [], "path": "src/error.py"}',
    "Edit applied successfully.\n\nLSP errors detected in this file, please fix:\nERROR [3:1] cannot find name",
    "The patch was applied. 2 errors are reported for src/a.py",
    "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n if limit is not None and not failed:",
]
BY_GIT = ["git checkout src/a.py", "git checkout HEAD~1 src/a.py"]


@pytest.mark.parametrize(
    ("current", "steps"),
    [
        *((NEW, did("d", "bash", {"command": "git diff"}, text)) for text in (DIFF, BLOCK, FENCED)),
        *((NEW, [says(text)]) for text in (DIFF, BLOCK, FENCED)),
        *((NEW, did("e", *EDITS["codelet"], answer)) for answer in WENT_WELL),
        *((OLD, failed(did("e", *EDITS["codelet"], answer))) for answer in FAILED),
        *((None, DONE + did("g", "bash", {"command": command}, f"Updated\n{GOOD}")) for command in BY_GIT),
        (NEW, DONE + did("g", "bash", {"command": "git checkout src/c.py"}, f"Updated\n{GOOD}")),
        (OLD, DONE + did("f", "edit", {"path": "src/a.py", "old": NEW, "new": OLD}, "edited src/a.py")),
    ],
)
def test_of_two_texts_the_current_one_is_told(current: str | None, steps: list[Message]):
    """A diff that is shown, edits that went well or failed, and edits that were taken back."""
    lines = shown(compact(session(*steps), 5_000).messages)
    assert (NEW.strip() in lines) == (current is NEW)
    assert current is None or (OLD.strip() in lines) == (current is OLD)


def test_part_of_a_line_that_was_put_in_goes_with_the_line():
    def edit(number: int, old: str, new: str, path: str = "src/a.py") -> list[Message]:
        arguments = {"file_path": path, "old_string": old, "new_string": new}
        return did(f"e{number}", "search_replace", arguments, "The file has been updated.")

    first, second = edit(1, "free_from = cents(40);", "free_from = eur_45(TAX);"), "const free_in: Map = { DE: 49 };"
    done = edit(2, "export const free_from = eur_45(TAX);", second)
    lines = shown(compact(session(*first, *done), 5_000).messages)
    assert second in lines and "free_from = eur_45(TAX);" not in lines
    elsewhere = edit(2, "export const free_from = eur_45(TAX);", second, "src/b.py")
    assert "free_from = eur_45(TAX);" in shown(compact(session(*first, *elsewhere), 5_000).messages)


def test_numbered_lines_parts_of_lines_and_lines_of_earlier_summaries_go_too():
    numbered = did("n", "read", {"path": "src/a.py"}, f"12\t{OLD}\n13\t        again()")
    edit = {"path": "src/a.py", "old": "count < LIMIT_OF", "new": "count <= LIMIT_OF"}
    messages = session(*numbered, *did("e", "edit", edit, "edited src/a.py"))
    assert not [line for line in shown(compact(messages, 5_000).messages) if "count < LIMIT_OF" in line]
    once = compact(session(), 5_000).messages
    assert OLD.strip() in shown(once)
    again = [*once, *DONE, *coding_session(9)[1:]]
    for target in (4_000, 6_000):
        assert OLD.strip() not in shown(compact(again, target).messages)


def test_lines_with_aligned_words_and_lines_too_long_for_one_go_with_the_edit_that_removed_them():
    aligned = "RETRY_LIMIT      = 5   # of_the_old_kind"
    long = "call(" + ", ".join(f"argument_{n}" for n in range(60)) + ", last_name_of_old)"
    seen = f"def go():\n    first()\n    {aligned}\n    {long}\n    last()"
    read = [user("Mend the retries."), *did("r", "read", {"path": "src/a.py"}, seen)]
    edit = {"path": "src/a.py", "old": f"    first()\n    {aligned}\n    {long}\n    last()", "new": "    again()"}
    done = did("e", "edit", edit, "edited src/a.py: 1 replacement")
    for target in (5_000, 9_000):
        there = " ".join(shown(compact([*read, *coding_session(8)[1:]], target).messages))
        assert "of_the_old_kind" in there and "argument_37" in there
        lines = " ".join(shown(compact([*read, *done, *coding_session(8)[1:]], target).messages))
        assert "of_the_old_kind" not in lines and "argument_" not in lines and "last_name_of_old" not in lines


def test_lists_of_points_and_ruby_are_no_diffs():
    for text in (
        "- first\n- second\n+ third",
        "@@count = 0\n-x",
        "--- a title ---\n- one",
        "<<<<<<< SEARCH\nnever closed",
    ):
        assert as_changed(text) == (text, set())


def plain_edits(arguments: object) -> list[tuple[str, str]]:
    """The pairs of old and new text in arguments, read without the code under test."""
    values = arguments if isinstance(arguments, dict) else {}
    names = (("old", "new"), ("oldText", "newText"), ("old_string", "new_string"), ("search", "replace"))
    found = [(values[old], str(values.get(new, ""))) for old, new in names if isinstance(values.get(old), str)]
    if "```diff" in (patch := str(values.get("input"))):
        old, new = (
            "\n".join(line[1:] for line in patch.split("\n") if line[:1] in ("", sign, " ")) for sign in ("-", "+")
        )
        found.append((old, new))
    return found


def outdated(messages: list[Message]) -> set[str]:
    """The lines of a single file that an edit removed last, found without the code under test."""
    answers = {message["tool_call_id"]: str(message["content"]) for message in messages if message["role"] == "tool"}
    paths: dict[str, str] = {}
    gone: set[str] = set()
    files: dict[str, set[str]] = {}

    def see(text: str, path: str) -> set[str]:
        lines = {line.strip() for line in text.split("\n")}
        for line in lines:
            files.setdefault(line, set()).add(path)
        return lines

    for message in messages:
        for call in message.get("tool_calls") or ():
            arguments = json.loads(call["function"]["arguments"] or "{}")
            path = paths[call["id"]] = str(arguments.get("path", "")) if isinstance(arguments, dict) else ""
            answer = answers.get(call["id"], "")
            edits = plain_edits(arguments)
            if edits and ("Could not find" in answer or "failed" in answer[:60]):
                continue
            for old, new in edits:
                gone = (gone | see(old, path)) - see(new, path)
            if not edits and isinstance(arguments, dict):
                gone -= see("\n".join(value for value in arguments.values() if isinstance(value, str)), path)
        gone -= see(str(message.get("content") or ""), paths.get(str(message.get("tool_call_id")), ""))
    return {line for line in gone if len(line) >= 8 and len(files[line] - {""}) == 1}


def test_in_real_sessions_no_removed_line_is_shown_as_current(shared: Path):
    checked = 0
    for transcript in read_all(shared / "transcripts"):
        messages = transcript.messages
        size = sum(map(estimate_message, messages))
        for stop in (len(messages) * 2 // 3, len(messages)) if size > 20_000 else ():
            removed = outdated(messages[:stop])
            checked += len(removed)
            for share in (4, 8):
                wrong = removed.intersection(shown(compact(messages[:stop], size // share).messages))
                assert not wrong, (transcript.name, stop, share, sorted(wrong)[:5])
    assert checked > 300
