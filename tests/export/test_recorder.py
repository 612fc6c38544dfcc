"""What an export says besides the list: kept from what was resumed as long as it holds, and made once."""

from __future__ import annotations

from pathlib import Path

from codelet.call_record import CallRecord
from codelet.context.compaction.segments import ParsedSegment, SegmentEntry, render
from codelet.export.document import MOST_ITEMS, Document, Segment
from codelet.export.encode import Encoder
from codelet.export.history import LongTermSummary
from codelet.export.recorder import Recorder, restore
from codelet.loop.session import Session
from codelet.messages import assistant, user
from codelet.providers import open_provider
from codelet.providers.protocol import ProviderOptions


def idle_session(folder: Path) -> Session:
    options = ProviderOptions("http://127.0.0.1:9/v1", "test-key")
    return Session(open_provider("openai/scripted", options), workspace=folder, bare=True)


def test_an_entry_is_made_once_so_that_it_is_encoded_once(tmp_path: Path):
    session, recorder = idle_session(tmp_path), Recorder(archive=True)
    session.conversation.record(CallRecord(id="c", tool="read", title="a.py", status="done"))
    session.compactor.archive.put(1, user("old"))
    first, second = recorder.snapshot(session), recorder.snapshot(session)
    assert first.calls and first.archive and second.calls and second.archive
    assert (second.calls[0] is first.calls[0], second.archive[0] is first.archive[0]) == (True, True)


def test_what_compaction_took_out_is_saved_on_request_only(tmp_path: Path):
    session = idle_session(tmp_path)
    session.compactor.archive.put(1, user("old"))
    assert Recorder().snapshot(session).archive is None
    archive = Recorder(archive=True).snapshot(session).archive or ()
    assert [entry["message"]["content"] for entry in archive] == ["old"]


def test_the_size_and_the_place_where_it_stopped_hold_until_the_list_changes(tmp_path: Path):
    stopped = {"done": ["a"], "half_done": [], "not_done": [], "messages": None}
    carried = Document(
        timestamp=1.0, token_count=77_777, messages=(user("go"), assistant("part")), interruption=stopped
    )
    session, recorder = idle_session(tmp_path), Recorder(carried)
    restore(session, carried)
    same = recorder.snapshot(session)
    assert (same.token_count, same.interruption) == (77_777, stopped)
    session.conversation.append(user("more"))
    changed = recorder.snapshot(session)
    assert changed.token_count < 77_777
    assert changed.interruption is not None and changed.interruption["messages"] is not None


def test_only_the_newest_items_are_saved_and_the_user_is_told():
    notices: list[str] = []
    segment: Segment = {"first": 1, "last": 1, "text": "x"}
    document = Document(timestamp=1.0, token_count=1, messages=(), segments=(segment,) * (MOST_ITEMS + 1))
    data = b"".join(Encoder(None, notices.append).parts(document))
    assert data.count(b'"text":"x"') == MOST_ITEMS
    assert notices == ["saved with changes: segments: only the newest 100,000 of 100,001"]


def summary_after(*segments: list[SegmentEntry]) -> str:
    """The long-term summary after compactions of turns up to the last entry of each."""
    summary, text = LongTermSummary(Document(timestamp=1.0, token_count=1, messages=())), ""
    for entries in segments:
        last = entries[-1].turn
        told = render(ParsedSegment(1, last, entries=entries), note=True)
        text = summary.follow([{"first": 1, "last": last, "text": told}])
    return text


def test_a_compaction_adds_what_no_earlier_one_told():
    one, two, rest = SegmentEntry(1, "user", ["one"]), SegmentEntry(2, "user", ["two"]), SegmentEntry(2, "", ["rest"])
    assert summary_after([one, two]) == "[t1 user] one\n[t2 user] two"
    assert summary_after([one, two], [two, rest]) == "[t1 user] one\n[t2 user] two\n[t2] rest"
    later = SegmentEntry(3, "user", ["three"])
    assert summary_after([one, two], [one, two, later]) == "[t1 user] one\n[t2 user] two\n[t3 user] three"
