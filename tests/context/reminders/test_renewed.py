"""Reminders without a session: what counts as a change, what the rows show, what a folder's instructions say."""

from __future__ import annotations

from pathlib import Path

from codelet import prompt
from codelet.context.reminders import ReminderRow, Reminders
from codelet.context.reminders.instructions import Instructions, Touched
from codelet.context.reminders.sources import NestedClaudeMd
from codelet.context.tokens import estimate_message
from codelet.conversation import Conversation, ReminderChange, renewed
from codelet.events import Notices
from codelet.messages import Message, reminder, user

ZONE = ("environment", "claudeMd")


def standing(kind: str, text: str) -> Message:
    return reminder(kind, prompt.as_reminder(kind, text))


def test_only_what_is_other_than_before_or_stands_elsewhere_is_a_change():
    here, there, other = standing("environment", "E"), standing("claudeMd", "C"), standing("tokenStatus", "T")
    text = there["content"] or ""
    same = {"environment": "E", "claudeMd": "C"}
    assert renewed(ZONE, same, [here, there], [other]) == ((here, there), (other,), [])
    assert renewed(ZONE, {}, [here], []) == ((here,), (), []), "no notice about what was never there"
    moved = renewed(ZONE, same, [here], [there, other])
    assert moved == ((here, there), (other,), [ReminderChange("claudeMd", "replaced", text)])
    assert moved[0][1] is there
    gone = renewed(ZONE, {"environment": "E", "claudeMd": ""}, [here], [there])
    assert gone == ((here,), (), [ReminderChange("claudeMd", "removed")])
    new = renewed(ZONE, same, [here], [])
    assert new == ((here, there), (), [ReminderChange("claudeMd", "added", text)])


def test_a_row_shows_the_text_as_it_stands_what_was_sent_and_the_switch():
    conversation = Conversation()
    reminders = Reminders(conversation, (), Notices(), mask=str)
    told = standing("environment", "Working directory: /w")
    conversation.adopt([told, user("hello")])
    size = estimate_message(told)
    assert reminders.rows() == [ReminderRow("environment", told["content"] or "", size, 0, True)]
    reminders.count()
    reminders.count()
    reminders.off.add("gitStatus")
    conversation.clear()
    assert reminders.rows() == [
        ReminderRow("environment", "", 0, 2 * size, True),
        ReminderRow("gitStatus", "", 0, 0, False),
    ]


async def test_a_folders_instructions_stand_until_the_next_turn_begins(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "CLAUDE.md").write_text("Mind the gap.\n")
    touched = Touched(tmp_path)
    instructions = Instructions(tmp_path)
    source = NestedClaudeMd(instructions, touched)
    await source.begin()
    instructions.text(touched.folders)
    assert await source.text() is None
    touched.note((), tmp_path / "sub")
    for _ in range(2):
        assert (await source.text() or "").endswith("Mind the gap.")
    (tmp_path / "sub" / "CLAUDE.md").write_text("Mind the step.\n")
    assert (await source.text() or "").endswith("Mind the step.")
    await source.begin()
    assert await source.text() is None, "now it is part of claudeMd"
