"""What was lost is put back as it was said: by turn and by who said it, behind the first segments."""

from __future__ import annotations

from codelet.context.archive import Archive
from codelet.context.compaction.report import CompactionReport, Loss
from codelet.context.pins import put_back
from codelet.messages import assistant, segment, user
from tests.context.compaction.lists import segments_of


def test_each_line_stands_once_under_its_turn_and_who_said_it():
    archive = Archive()
    archive.put(2, user("Never use old_port.\nIt is 4711."))
    archive.put(2, assistant("The cause is in src/gate.py.\nIt is mod_7 that fails."))
    archive.put(3, assistant("We take Redis."))
    loss = Loss(
        sentences=("We take Redis.",), paths=("src/gate.py",), names=("mod_7", "old_port"),
    )  # fmt: skip
    report = CompactionReport(2, 100, 1_000, 90, loss=loss)
    body = [segment('<compacted turns="1-4">\n[t1 user]\ngo'), user("And now?")]
    made = put_back(body, report, archive)
    assert made is not None
    assert made[0] == [body[0], made[1], body[1]]
    [_, back] = segments_of(made[0])
    assert (back.first, back.last) == (4, 4)
    assert [(entry.turn, entry.label, entry.lines) for entry in back.entries] == [
        (2, "user", ["Never use old_port."]),
        (2, "", ["The cause is in src/gate.py.", "It is mod_7 that fails."]),
        (3, "", ["We take Redis."]),
    ]
    assert put_back(body, CompactionReport(2, 100, 1_000, 90), archive) is None, "nothing was lost"
    assert put_back(body, report, Archive()) is None, "none of it is known any more"
