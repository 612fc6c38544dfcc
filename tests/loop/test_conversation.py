"""The conversation in any order of what can be done to it, and what a message is, whatever it says."""

from __future__ import annotations

import json
import time
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from codelet import prompt
from codelet.context import CompactionOptions
from codelet.context.compaction.engine import compact
from codelet.conversation import NESTED, Conversation, Parts, Placement, Zones
from codelet.events import Interrupted
from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.export.recorder import Recorder, restore
from codelet.loop.session import Session
from codelet.messages import (
    Message,
    assistant,
    kind_of,
    newest_prompt,
    reminder,
    reminder_type,
    segment,
    tool_call,
    tool_result,
    unpaired,
    user,
    with_kinds,
)
from tests.context.scripted import ScriptedProvider, compactions, fill, session_of, turn
from tests.support.amount import amount

TEXTS = st.sampled_from(["", "one", "two", "one\nmore"])
HEAD = st.dictionaries(st.sampled_from(Zones().head), st.one_of(st.none(), TEXTS))
TAIL = st.dictionaries(st.sampled_from(Zones().tail), st.one_of(st.none(), TEXTS))
LOOKALIKE = '<compacted turns="1-40">\nplease explain this tag'
AS_REMINDER = "<system-reminder>\n<!-- type:gitStatus -->\nclean\n</system-reminder>"


class Told:
    """What a conversation told of its changes."""

    def __init__(self) -> None:
        self.said: list[bool] = []

    def list_changed(self, *, body: bool) -> None:
        self.said.append(body)

    def take(self) -> list[bool]:
        said, self.said = self.said, []
        return said


def ids(messages) -> list[int]:
    return [id(message) for message in messages]


class Machine(RuleBasedStateMachine):
    """One conversation beside a plain model of it: the very messages that must stand in its body."""

    @initialize(placement=st.sampled_from(["tail", "prepend"]))
    def begin(self, placement: Placement) -> None:
        self.told = Told()
        self.conversation = Conversation(self.told, placement=placement)
        self.body: list[Message] = []
        self.points: list[tuple[str, list[Message], list[Message]]] = []
        self.open: list[str] = []
        self.number = 0

    @rule(text=TEXTS)
    def say(self, text: str) -> None:
        self.number += 1
        asked = f"{self.number} {text}"
        self.points.append((asked, list(self.body), self.conversation.sent()))
        del self.points[:-50]
        self.open = []
        self.conversation.checkpoint(asked)
        self.put(user(asked))
        assert self.conversation.latest is not None and self.conversation.latest.prompt == asked

    @rule(count=st.integers(0, 3))
    def reply(self, count: int) -> None:
        self.number += 1
        self.open = [f"c{self.number}.{place}" for place in range(count)]
        calls = [tool_call(name, "read", "{}") for name in self.open]
        self.put(assistant("hm", calls), *(tool_result(name, prompt.INTERRUPTED) for name in self.open))

    def put(self, *messages: Message) -> None:
        place = self.conversation.append(*messages)
        self.body.extend(messages)
        assert ids(self.conversation.messages[place:]) == ids(messages)
        assert self.told.take() == []

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 9), failed=st.booleans())
    def answer(self, which: int, failed: bool) -> None:
        name = self.open.pop(which % len(self.open))
        place = next(n for n, message in enumerate(self.body) if message.get("tool_call_id") == name)
        self.conversation.answer(name, "found", failed=failed)
        self.body[place] = self.conversation.body[place]
        assert self.body[place] == tool_result(name, "found", failed=failed)
        assert self.told.take() == []
        with pytest.raises(KeyError):
            self.conversation.answer(name, "again", failed=False)

    @rule(calls=st.integers(1, 3))
    def reply_without_its_results(self, calls: int) -> None:
        message = assistant(None, [tool_call(f"x{place}", "read", "{}") for place in range(calls)])
        with pytest.raises(ValueError, match="x0"):
            self.conversation.append(message)

    @rule(head=HEAD, tail=TAIL)
    def renew(self, head: dict[str, str | None], tail: dict[str, str | None]) -> None:
        before, where = self.conversation.head, self.conversation.placement
        in_front = {**head, **tail} if where == "prepend" else head
        if where == "prepend":
            in_front.pop("nestedClaudeMd", None)
        behind = {kind: tail[kind] for kind in tail if where == "tail" or kind in NESTED}
        self.conversation.renew(in_front, behind)
        standing = {reminder_type(m): m for m in (*self.conversation.head, *self.conversation.tail)}
        for kind, text in {**in_front, **behind}.items():
            assert (kind in standing) == bool(text)
            assert not text or standing[kind]["content"] == prompt.as_reminder(kind, text)
        changed = ids(before) != ids(self.conversation.head)
        assert self.told.take() == [False] * changed
        again = self.conversation.sent()
        assert self.conversation.renew(in_front, behind) == [] and self.told.take() == []
        assert ids(again) == ids(self.conversation.sent()), "the same objects while the texts are the same"

    @rule(keep=st.integers(0, 6))
    def rewrite(self, keep: int) -> None:
        """What a compaction does: a segment in the place of what is old."""
        start = next((n for n in range(max(0, len(self.body) - keep), len(self.body)) if is_prompt(self.body[n])), None)
        self.body = [segment(LOOKALIKE), *(self.body[start:] if start is not None else [])]
        self.open = [name for name in self.open if any(m.get("tool_call_id") == name for m in self.body)]
        self.conversation.rewrite(self.body)
        assert self.told.take() == [True]

    @rule()
    def back(self) -> None:
        asked = self.conversation.back()
        if not self.points:
            assert asked is None and self.told.take() == []
            return
        expected, self.body, sent = self.points.pop()
        self.open = []
        assert asked == expected
        assert ids(self.conversation.sent()) == ids(sent)
        assert self.told.take() == [True]

    @rule()
    def adopt_what_was_saved(self) -> None:
        saved = json.loads(json.dumps(self.conversation.sent()))
        kinds = [kind_of(message) for message in self.conversation.sent()]
        other = Conversation(placement=self.conversation.placement)
        other.adopt(saved)
        assert other.sent() == saved and [kind_of(message) for message in other.sent()] == kinds
        parts = (self.conversation.head, self.conversation.body, self.conversation.tail)
        if self.body:
            assert [list(part) for part in (other.head, other.body, other.tail)] == [list(part) for part in parts]

    @invariant()
    def it_is_what_it_should_be(self) -> None:
        conversation = self.conversation
        assert ids(conversation.body) == ids(self.body)
        assert ids(conversation.sent()) == ids([*conversation.head, *conversation.body, *conversation.tail])
        assert conversation.messages is self.conversation.messages
        assert ids(conversation.messages) == ids([*conversation.head, *conversation.body])
        assert len(conversation.messages) == len(conversation.head) + len(conversation.body)
        assert unpaired(conversation.sent()) == []

    @invariant()
    def each_reminder_stands_once_in_its_zone(self) -> None:
        front = [reminder_type(message) for message in self.conversation.head]
        back = [reminder_type(message) for message in self.conversation.tail]
        zone = Zones().head if self.conversation.placement == "tail" else Zones().prepended
        assert front == [kind for kind in zone if kind in front]
        assert back == [kind for kind in Zones().tail if kind in back]
        assert not set(front) & set(back)

    @invariant()
    def slices_are_those_of_a_list(self) -> None:
        messages, listed = self.conversation.messages, list(self.conversation.messages)
        first = len(self.conversation.head)
        for start, stop in ((None, None), (first, None), (first + 1, -1), (1, first + 1), (-2, None), (5, 2)):
            assert ids(messages[start:stop]) == ids(listed[start:stop])
        assert [messages[place] for place in range(-len(listed), 0)] == listed
        assert messages[::-1] == listed[::-1]


def is_prompt(message: Message) -> bool:
    return kind_of(message) == "prompt"


Machine.TestCase.settings = settings(max_examples=amount(60, 2_000), stateful_step_count=30, deadline=None)
TestMachine = Machine.TestCase


def test_each_reminder_that_changes_is_told_in_front_and_behind():
    conversation = Conversation()
    conversation.append(user("one"))
    told = conversation.renew({"environment": "here"}, {"tokenStatus": "9 %"})
    assert [change.kind for change in told] == ["environment", "tokenStatus"]
    assert conversation.renew({"environment": "here"}, {"tokenStatus": "9 %"}) == []
    told = conversation.renew({}, {"tokenStatus": "10 %"})
    assert [change.kind for change in told] == ["tokenStatus"]


def test_a_snapshot_tells_whether_the_body_is_still_the_same():
    conversation = Conversation()
    conversation.append(user("one"), assistant("two"))
    seen = conversation.snapshot()
    conversation.renew({"environment": "here"}, {"gitStatus": "clean"})
    assert conversation.same_body(seen.body), "reminders are no part of it"
    conversation.append(user("meanwhile"))
    assert not conversation.same_body(seen.body) and [m["content"] for m in seen.body] == ["one", "two"]
    other = Conversation()
    other.append(user("one"), assistant("two"))
    assert other.messages == conversation.messages[1:3] and not other.same_body(seen.body), "the very messages count"


def test_session_messages_cannot_be_replaced(tmp_path: Path):
    session = session_of(ScriptedProvider(), tmp_path)
    with pytest.raises(AttributeError):
        session.messages = []  # what a list held by several owners made possible
    assert not hasattr(session.messages, "append")


def test_the_kind_is_told_by_how_a_message_was_made_and_from_outside_by_its_text():
    assert [kind_of(m) for m in (user(LOOKALIKE), segment("x"), assistant(LOOKALIKE))] == [
        "prompt",
        "segment",
        "assistant",
    ]
    assert reminder_type(reminder("gitStatus", "x")) == "gitStatus" and reminder_type(user(AS_REMINDER)) is None
    plain = [
        {"role": "user", "content": AS_REMINDER},
        {"role": "user", "content": LOOKALIKE},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": LOOKALIKE}]},
        {"role": "assistant", "content": LOOKALIKE},
    ]
    known = with_kinds(plain)
    assert [kind_of(m) for m in known] == ["reminder", "segment", "prompt", "prompt", "assistant"]
    assert known == plain and known[2] is plain[2] and type(plain[0]) is dict
    assert ids(with_kinds(known)) == ids(known)
    assert [kind_of(m) for m in with_kinds(plain, {LOOKALIKE})][1] == "prompt"
    assert json.dumps(known) == json.dumps(plain), "nobody who writes a message sees its kind"


def test_compact_takes_lists_from_outside_and_gives_their_own_messages_back():
    said = "\n".join(f"line {n} of value_{n}" for n in range(400))
    given = [
        {"role": "user", "content": AS_REMINDER},
        {"role": "user", "content": '<compacted turns="1-40">\nchanged: src/a.py (t3)'},
        *({"role": role, "content": f"{n} {said}"} for n in range(4) for role in ("user", "assistant")),
    ]
    made = compact(given, 4_000)
    assert made.report.tier > 1 and made.messages[0] is given[0]
    assert {fate.turn for fate in made.report.turns} == {41, 42, 43, 44}
    whole = compact(given, 10**6)
    assert ids(whole.messages) == ids(given)


async def long_session(tmp_path: Path) -> tuple[Session, ScriptedProvider]:
    provider = ScriptedProvider()
    session = session_of(provider, tmp_path, window=16_000, compaction=CompactionOptions(entries=30, keep_last=1))
    return session, provider


async def test_a_prompt_that_looks_like_a_segment_is_one_prompt_everywhere(tmp_path: Path):
    session, provider = await long_session(tmp_path)
    await fill(session, provider, 2)
    await turn(session, LOOKALIKE)
    row = session.context()[-2]
    assert (row.source, row.turn) == ("user", 3)
    assert session.compactor.shares()[-1].used > 0 and session.compactor.shares()[2].used == 0
    assert session.rewind() == LOOKALIKE
    await turn(session, LOOKALIKE)
    saved = to_json(Recorder().snapshot(session), mask=None)
    resumed = session_of(provider, tmp_path, window=16_000)
    snapshot = from_json(saved)
    restore(resumed, snapshot)
    assert [row.source for row in resumed.context()] == [row.source for row in session.context()]
    assert to_json(Recorder(snapshot).snapshot(resumed).replace(timestamp=snapshot.timestamp), mask=None) == saved
    assert resumed.rewind() == LOOKALIKE
    assert compactions(await fill(session, provider, 9), "done")
    texts = [m["content"] for m in session.messages if kind_of(m) == "segment"]
    assert len(texts) == 1 and "please explain this tag" in texts[0], "what the user said stands in the summary"
    assert [row.turn for row in session.context()][-1] == 12


async def test_keep_last_counts_a_prompt_that_looks_like_a_segment(tmp_path: Path):
    session, provider = await long_session(tmp_path)
    await fill(session, provider, 7)
    await turn(session, LOOKALIKE)
    newest = list(session.messages[-2:])
    await fill(session, provider, 1)
    async with aclosing(session.compact()) as stream:
        assert [event.phase async for event in stream][-1] == "done"
    assert not any(message is newest[0] for message in session.messages), "keep-last 1 keeps the turn after it"


def test_a_file_that_does_not_list_its_segments_is_understood_by_their_text():
    document = {"version": "1.0", "timestamp": 1.0, "tokenCount": 1}
    listed = [{"role": "user", "content": LOOKALIKE}, {"role": "user", "content": AS_REMINDER}]
    plain = from_json(json.dumps({**document, "messages": listed}).encode())
    assert [kind_of(message) for message in plain.messages] == ["segment", "reminder"]
    document["segments"] = []
    told = from_json(json.dumps({**document, "messages": listed}).encode())
    assert [kind_of(message) for message in told.messages] == ["prompt", "reminder"]
    pinned = from_json(json.dumps({**document, "pins": [0], "messages": listed}).encode())
    assert [kind_of(message) for message in pinned.messages] == ["segment", "reminder"], "as 0.1.0 left it unlisted"


def test_a_list_from_outside_is_taken_apart_and_goes_out_whole():
    parts = Parts.of(
        [reminder("environment", "e"), user("hi"), reminder("gitStatus", "g"), reminder("tokenStatus", "t")]
    )
    assert (len(parts.head), len(parts.body), len(parts.tail)) == (1, 1, 2)
    assert [m["content"] for m in parts.sent()] == ["e", "hi", "g", "t"] and len(parts.messages) == 2


@pytest.mark.parametrize("placement", ["tail", "prepend"])
def test_who_measured_the_list_is_told_where_its_head_changed(placement: Placement):
    told = Told()
    conversation = Conversation(told, placement=placement)
    conversation.append(user("go"))
    assert told.take() == []
    for head, changed in (
        ({"claudeMd": "one"}, True),
        ({"claudeMd": "one"}, False),
        ({}, False),
        ({"claudeMd": "two"}, True),
        ({"environment": "here"}, True),
        ({"claudeMd": None, "environment": "here"}, True),
    ):
        conversation.renew(head, {})
        assert told.take() == [False] * changed, head
    conversation.renew({}, {"tokenStatus": "9 %"})
    assert told.take() == [], "the tail is nobody's"
    assert [reminder_type(message) for message in conversation.sent()] == [
        "environment",
        None,
        *["tokenStatus"] * (placement == "tail"),
    ]
    assert conversation.rewrites == 0
    conversation.rewrite([])
    assert (told.take(), conversation.rewrites, conversation.body) == ([True], 1, [])


def test_one_goes_back_prompt_by_prompt():
    told = Told()
    conversation = Conversation(told)
    assert (conversation.latest, conversation.back()) == (None, None)
    for number in range(1, 54):
        conversation.checkpoint(f"prompt {number}")
        conversation.append(user(f"prompt {number}"), assistant("done"))
    assert conversation.latest is not None
    assert conversation.latest.prompt == "prompt 53"
    assert conversation.back() == "prompt 53"
    assert told.take() == [True]
    assert len(conversation.body) == 2 * 52
    while conversation.back():
        pass
    assert len(conversation.body) == 2 * 3, "the newest 50 are kept"
    conversation.checkpoint("more")
    told.take()
    conversation.clear()
    assert told.take() == [True]
    assert (list(conversation.sent()), conversation.latest) == ([], None)


def test_one_goes_back_several_prompts_at_once_and_knows_when_each_came():
    conversation = Conversation()
    begun = time.time()  # clock: each prompt is noted with its time
    for number in (1, 2, 3):
        conversation.checkpoint(f"prompt {number}", number)
        conversation.append(user(f"prompt {number}"), assistant("done"))
    assert [(point.prompt, point.turn) for point in conversation.checkpoints] == [
        ("prompt 1", 1), ("prompt 2", 2), ("prompt 3", 3)
    ]  # fmt: skip
    assert begun <= conversation.checkpoints[0].at <= conversation.checkpoints[2].at <= time.time()  # clock: the same
    assert [conversation.back(prompts) for prompts in (0, -1, 4)] == [None] * 3
    assert len(conversation.body) == 6
    assert conversation.back(2) == "prompt 2"
    assert [message["content"] for message in conversation.body] == ["prompt 1", "done"]
    assert [point.prompt for point in conversation.checkpoints] == ["prompt 1"]


def test_a_list_that_is_taken_over_can_be_gone_back_in():
    conversation = Conversation()
    messages = [user("one"), assistant("1"), user("two"), assistant("2")]
    conversation.adopt(messages)
    assert [(point.prompt, point.turn, point.at) for point in conversation.checkpoints] == [
        ("one", 0, 0.0),
        ("two", 0, 0.0),
    ], "when each came, nobody knows"
    assert conversation.back() == "two"
    assert conversation.body == messages[:2]
    assert conversation.back() == "one"
    assert (conversation.body, conversation.back()) == ([], None)
    conversation.adopt(messages, before=[user("as it was"), assistant("then")])
    assert conversation.back() == "two"
    assert [message["content"] for message in conversation.body] == ["as it was", "then"]
    assert conversation.back() == "one"
    conversation.adopt([], before=messages)
    assert conversation.latest is None


def test_a_prompt_without_text_is_gone_back_to_as_an_empty_one():
    conversation = Conversation()
    conversation.adopt([user("one"), assistant("1"), {"role": "user", "content": None}])
    assert (conversation.back(), len(conversation.body)) == ("", 2)


def test_what_an_early_end_left_is_forgotten_with_the_list_that_it_is_about():
    conversation = Conversation()
    conversation.checkpoint("go")
    for change in (conversation.back, conversation.clear, lambda: conversation.adopt([user("one"), assistant("1")])):
        conversation.interruption = Interrupted(done=(), half_done=("a",), not_done=())
        change()
        assert conversation.interruption is None


def test_what_takes_a_place_in_the_body_is_found_behind_the_head():
    conversation = Conversation()
    conversation.append(user("one"), assistant("two"))
    conversation.renew({"environment": "here", "claudeMd": "rules"}, {})
    other = user("another")
    assert conversation.messages[conversation.replace(0, other)] is other
    assert [message["content"] for message in conversation.body] == ["another", "two"]


def test_an_answer_that_was_cut_off_is_taken_out():
    told = Told()
    conversation = Conversation(told)
    assert not conversation.drop_partial()
    cut = assistant(f"half\n\n{prompt.INTERRUPTED_TEXT}")
    conversation.append(user("go"), assistant("whole"))
    assert not conversation.drop_partial()
    conversation.append(user(f"again\n\n{prompt.INTERRUPTED_TEXT}"))
    assert not conversation.drop_partial(), "what a person says is never taken out"
    conversation.append(cut)
    assert told.take() == []
    assert conversation.drop_partial()
    assert [message["role"] for message in conversation.body] == ["user", "assistant", "user"]
    assert told.take() == [True]


def test_the_ids_of_a_list_that_is_taken_over_are_known():
    conversation = Conversation()
    calls = [tool_call("a", "read", "{}"), tool_call("b", "read", "{}")]
    asked = {**assistant("look"), "tool_calls": calls}
    conversation.adopt([user("go"), asked, tool_result("a", "1"), tool_result("b", "2"), assistant("done")])
    assert conversation.call_ids == {"a", "b"}


def test_only_the_newest_calls_are_answered():
    conversation = Conversation()
    asked = {**assistant("look"), "tool_calls": [tool_call("a", "read", "{}"), tool_call("b", "read", "{}")]}
    waiting = [tool_result(name, prompt.INTERRUPTED) for name in "ab"]
    conversation.append(user("go"), asked, *waiting)
    conversation.answer("b", "two", failed=False)
    assert [message["content"] for message in conversation.body[2:]] == [prompt.INTERRUPTED, "two"]
    with pytest.raises(KeyError):
        conversation.answer("b", "two again", failed=False)
    conversation.append(assistant("done"))
    with pytest.raises(KeyError):
        conversation.answer("a", "too late", failed=False)
    assert conversation.body[2]["content"] == prompt.INTERRUPTED


def test_calls_and_results_enter_a_list_together():
    conversation = Conversation()
    asked = {**assistant("look"), "tool_calls": [tool_call("a", "read", "{}")]}
    with pytest.raises(ValueError, match="together: a"):
        conversation.append(user("go"), asked)
    assert list(conversation.messages) == []
    assert conversation.append(user("go"), asked, tool_result("a", "1")) == 0
    assert conversation.append(assistant("done")) == 3


def test_the_live_list_is_read_as_any_sequence():
    body = [user("one"), assistant("two"), user("three")]
    parts = Parts.of([reminder("claudeMd", "rules"), *body])
    everything = [*parts.head, *body]
    messages = parts.messages
    assert (len(messages), len(parts.head)) == (4, 1)
    places = (None, -9, -4, -2, 0, 1, 2, 4, 9)
    for start in places:
        for stop in places:
            for step in (None, 1, 2, -1):
                chosen = slice(start, stop, step)
                assert messages[chosen] == everything[chosen], chosen
    assert [messages[place] for place in range(-4, 4)] == [everything[place] for place in range(-4, 4)]
    for place in (4, -5):
        with pytest.raises(IndexError):
            messages[place]
    assert messages == everything
    assert messages != body
    assert messages != 4
    assert repr(messages) == repr(everything)
    with pytest.raises(TypeError, match="no hash"):
        hash(messages)


def test_the_newest_prompt_is_no_reminder_and_no_segment():
    messages = [user("one"), assistant("a"), user(LOOKALIKE), reminder("gitStatus", "g"), segment("s")]
    assert [newest_prompt(messages, number) for number in (1, 2, 3)] == [2, 0, -1]


def test_a_prompt_that_was_cut_is_still_a_prompt():
    asked = user(LOOKALIKE + "\n" + "word " * 4_000)
    made = compact([user("one"), assistant("two"), asked], 900)
    assert made.messages[-1] is not asked and str(made.messages[-1]["content"]).startswith(LOOKALIKE[:30])
    again = compact([*made.messages, assistant("three" * 2_000)], 700)
    assert [kind_of(message) for message in with_kinds(made.messages)][-1] == "prompt"
    assert max(fate.turn for fate in again.report.turns) <= 3, "no turns are counted that nobody took"


@pytest.mark.parametrize(
    ("messages", "is_open"),
    [
        ([], False),
        ([user("hi")], True),
        ([user("hi"), assistant("ok")], False),
        ([user("hi"), assistant("", [tool_call("c", "read", "{}")]), tool_result("c", "x")], True),
        ([segment("told")], False),
    ],
)
def test_a_turn_without_its_answer_is_open(messages: list[Message], is_open: bool):
    conversation = Conversation()
    conversation.append(*messages)
    conversation.renew({"environment": "here"}, {"gitStatus": "clean"})
    assert conversation.is_open is is_open
