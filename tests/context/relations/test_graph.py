"""The points of a file: every part is capped, and the graph is bounded."""

from __future__ import annotations

import json
from typing import Any

from codelet.call_record import CallRecord, CallStatus, FileFact
from codelet.context.relations.graph import MOST_FILES, Bearing, Relations
from codelet.context.relations.session_files import SessionFiles
from codelet.messages import Message, assistant, tool_call, tool_result, user
from codelet.prompt import INTERRUPTED

CAPS = Bearing(recent=10, changed=5, named=10, refers=5, referred=5)


def worked() -> Relations:
    relations = Relations()
    for number in range(20):
        relations.touch(f"old/file{number}.py")
    relations.touch("src/caller.py", ["src/core"])
    relations.touch("src/core.py", ["src/util"], changed=True)
    for name in "abc":
        relations.touch(f"docs/{name}.md")
    relations.ask("now mend src/core.py")
    return relations


def test_each_part_says_its_own():
    relations = worked()
    assert relations.bearing("src/core.py") == Bearing(recent=7, changed=5, named=10), "it is in use itself"
    assert relations.bearing("src/caller.py") == Bearing(recent=6, refers=5)
    assert relations.bearing("src/util.py") == Bearing(referred=5), "not touched, but imported by a file in use"
    assert relations.bearing("src/util/__init__.py") == Bearing(referred=5)
    assert relations.bearing("old/file3.py") == relations.bearing("other/util_2.py") == Bearing()
    relations.ask("")
    assert relations.bearing("src/util.py") == Bearing(), "no file in use imports it any more"
    relations.ask("what about util?")
    assert relations.bearing("src/util.py") == Bearing(named=5)


def test_every_part_is_capped():
    relations = Relations()
    names = [f"src/m{number}" for number in range(50)]
    for _ in range(3):
        for name in names:
            relations.touch(f"{name}.py", names, changed=True)
    relations.ask(" ".join(f"{name}.py" for name in names) * 3)
    for name in (*names, "src/never"):
        found, most = relations.bearing(f"{name}.py"), CAPS
        assert (found.recent, found.changed) <= (most.recent, most.changed) and found.named <= most.named
        assert found.refers <= most.refers and found.referred <= most.referred
        assert found.total == found.recent + found.changed + found.named + found.refers + found.referred


def test_the_oldest_files_go():
    relations = Relations()
    for number in range(MOST_FILES + 7):
        relations.touch(f"f{number}.py")
    relations.touch("f9.py")
    assert len(relations.files) == MOST_FILES
    assert (relations.files[0], relations.files[-1]) == ("f7.py", "f9.py")


def call(number: int, name: str, answer: str, **arguments: object) -> list[Message]:
    made = tool_call(f"c{number}", name, json.dumps(arguments))
    return [assistant("", [made]), tool_result(f"c{number}", answer)]


def test_the_list_is_read_once_and_outlives_a_compaction():
    files = SessionFiles()
    first = [user("go"), *call(1, "read", "import pkg.b\n", path="/work/src/a.py")]
    assert files.of(first, root="/work").files == ["src/a.py"]
    second = [user("summary"), *call(2, "write", "wrote c.py", path="src/c.py", content="import pkg.d")]
    relations = files.of(second, root="/work")
    assert relations.files == ["src/a.py", "src/c.py"]
    assert files.of([*first, *second], root="/work").files == ["src/a.py", "src/c.py"], "nothing is read twice"
    assert relations.bearing("pkg/b.py").referred and relations.bearing("pkg/d.py").referred
    assert relations.bearing("src/c.py").changed and not relations.bearing("src/a.py").changed


def test_what_failed_or_still_runs_is_no_touch():
    files = SessionFiles()
    running = [user("go"), *call(1, "read", INTERRUPTED, path="a.py")]
    assert files.of(running).files == []
    assert files.of([user("go"), *call(1, "read", "x = 1", path="a.py")]).files == ["a.py"]
    assert files.of(call(2, "edit", "Error: old text not found in b.py", path="b.py", edits=[])).files == ["a.py"]


def test_a_record_says_which_files_a_call_touched_whatever_its_answer_looks_like():
    def record(number: int, *facts: FileFact, status: CallStatus = "done", **more: Any) -> CallRecord:
        return CallRecord(id=f"c{number}", tool="read", title="", status=status, files=facts, **more)

    messages = [
        *call(1, "read", "Error: not found", path="a.py"),
        *call(2, "read", "a.py\nb.py", path="src"),
        *call(3, "fetch", "import pkg.d", page=7),
        *call(4, "edit", "a hook wrote this", path="/work/e.py", edits=[{"old": "x", "new": "import pkg.f"}]),
        *call(5, "edit", "looks fine", path="g.py", edits=[]),
    ]
    records = [
        record(1, FileFact("read", "a.py")),
        record(2, FileFact("listed", "src")),
        record(3, FileFact("read", "pages/h.py")),
        record(4, FileFact("changed", "e.py")),
        record(5, status="failed"),
    ]
    relations = SessionFiles().of(messages, root="/work", records=records)
    assert relations.files == ["a.py", "pages/h.py", "e.py"]
    assert relations.bearing("e.py").changed and relations.bearing("pkg/f.py").referred
    patch = "apply_patch <<'E'\n*** Begin Patch\n*** Update File: i.py\n+x\n*** End Patch\nE"
    patched = call(6, "bash", "done", command=patch)
    assert SessionFiles().of(patched, records=[record(6, commands=(patch,))]).files == ["i.py"]
