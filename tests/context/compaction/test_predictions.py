"""The failures that were predicted of a context engine, one test each by name."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from codelet.context.archive import Archive, text_in
from codelet.context.compaction.engine import compact
from codelet.context.compaction.observed import ANCHORS, TurnAnchor, scores
from codelet.context.compaction.plan import CompactionSettings, IrreducibleContext
from codelet.context.compaction.reading import ReadSession
from codelet.context.compaction.segments import parse_segment
from codelet.context.narrative import Handoffs, NarrativeCheck
from codelet.context.tokens import Budget, checked_tokens, shares_of
from tests.context.compaction.lists import Message, coding_session, pairing_faults, says, size, user
from tests.context.compaction.planted import did, ran
from tests.support.amount import amount


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<compacted turns=",
        '<compacted turns="9-2">\n',
        '<compacted turns="1-4">\n[t user] \n[t99999999999999 x]\nchanged: (t)\nopen error: nonsense',
        '<compacted turns="1-4">\n' + "[t1 user]\n" * 3 + "\x00\ud800",
        '<compacted turns="0-0">\nstatus: ',
    ],
)
def test_p2_corrupted_segments_never_raise(text):
    parse_segment(text)
    messages = [{"role": "user", "content": text}, *coding_session(20)[1:]]
    made = compact(messages, 2_000)
    assert size(made.messages) <= 2_000
    assert pairing_faults(made.messages) == []


def test_p3_nothing_grows_over_thousands_of_turns():
    turns = amount(1_500, 10_000)
    archive = Archive(cap=200 * turns)
    messages: list[dict] = []
    peaks = []
    tracemalloc.start()
    for turn in range(turns):
        messages.append(user(f"request {turn} about file_{turn % 50}.py"))
        messages.append(says(f"answer {turn}: value_{turn} is set. " + "detail " * 4))
        if len(messages) > 600:
            made = compact(messages, 4_000)
            for place in made.report.removed:
                archive.put(turn, messages[place])
            messages = made.messages
        if turn in (turns * 4 // 10, turns - 1):
            gc.collect()
            peaks.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert archive.bytes <= archive.cap
    assert archive.lost > 0
    assert peaks[1] < peaks[0] * 1.3 + 50 * turns


def test_p4_no_signal_wins_alone_however_loud():
    shout = " ".join(f"Keyword{n}Error" for n in range(3_000))
    messages = [user("fix parse_header"), says(shout), user("now parse_header again " + shout), says("ok")]
    messages += [user(f"step {n}") for n in range(4)] + [user(f"Once more: {shout}")]
    anchors = [TurnAnchor(1, kind, "x") for kind in ANCHORS]
    rated = scores(ReadSession(messages), anchors, {2: 10**9, 3: -(10**9)})
    loud = rated[1]
    assert (loud.anchor, loud.relevance) == (ANCHORS["error fixed"][0], 20), "each at its cap, and no further"
    assert [rated[turn].recency for turn in (1, 7)] == [2, 20]
    assert [rated[turn].feedback for turn in (2, 3)] == [5, -5]
    assert all(score.total <= 110 for score in rated.values())
    assert all(0.4 < score.lift < 1.7 for score in rated.values())


FAILURE = "LedgerError: 4711 entries missing in flush_queue"


def after_a_failure(*more: Message) -> list[Message]:
    """An order, a command that fails, and what comes after it."""
    messages = [user("Never touch legacy/pay.py."), says("I will not."), user("run it")]
    return [*messages, *ran("c", "python app.py", f"starting\n{FAILURE}"), says("I see."), *more]


def test_p4_a_loud_turn_takes_no_decision_and_no_error_out_of_a_summary():
    shout = "\n".join(f"Keyword{n}Error: part_{n} of module_{n} is gone" for n in range(3_000))
    loud = [user("and the log"), *did("d", "read", {"path": "all.log"}, shout), says("Read.")]
    text = str([m["content"] for m in compact(after_a_failure(*loud, *coding_session(5)[1:]), 4_000).messages])
    assert "Keyword2999Error" in text or "Keyword0Error" in text
    assert "Never touch legacy/pay.py." in text and FAILURE in text


async def failing(prompt: str) -> str:
    raise ConnectionError("no route")


async def lying(prompt: str) -> str:
    return "- We moved everything to src/never/was.py\n- and made.up/path.ts decided it"


async def inflating(prompt: str) -> str:
    return "word " * 100_000


async def calling_tools(prompt: str) -> str:
    return '<tool_call>{"name": "bash"}</tool_call>'


@pytest.mark.parametrize("summariser", [failing, lying, inflating, calling_tools])
async def test_p5_a_summariser_that_fails_or_lies_changes_nothing_and_the_circuit_opens(summariser):
    waits: list[float] = []
    tries = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def counted() -> str:
        tries.append("go")
        return await summariser("go")

    handoffs = Handoffs(sleep=sleep)
    for _ in range(1 if summariser is failing else 3):  # a bad answer ends it, a failed request is tried again
        assert await handoffs.handoff(counted, NarrativeCheck(["src/a.py was changed"]), 7) == ()
    assert (len(tries), waits) == (3, [1.0, 2.0] if summariser is failing else [])
    assert not handoffs.allows(8)
    assert await handoffs.handoff(counted, NarrativeCheck(["src/a.py"]), 8) == ()
    assert len(tries) == 3
    assert handoffs.allows(12)
    messages = coding_session(30)
    assert compact(messages, 3_000, handoff=()) == compact(messages, 3_000)


def test_p6_feedback_cannot_push_out_errors_anchors_or_constraints():
    against = CompactionSettings(votes=dict.fromkeys(range(1, 40), -5))
    made = compact(after_a_failure(*coding_session(25)[1:]), 3_500, settings=against)
    text = str([m["content"] for m in made.messages])
    assert "Never touch legacy/pay.py." in text and FAILURE in text


def test_p8_the_archive_stays_within_its_cap_and_says_what_it_lost():
    archive = Archive(cap=100_000)
    keys = [archive.put(n, user(f"text {n} " * 200)) for n in range(200)]
    assert archive.bytes <= 100_000
    assert archive.lost == 200 - len(archive)
    assert keys[-1] is not None
    newest = archive.entry(keys[-1])
    assert newest is not None and "text 199" in text_in(newest)
    assert keys[0] is not None
    assert archive.entry(keys[0]) is None
    assert archive.put(1, user("y" * 1_000_000)) is None


@pytest.mark.parametrize(
    "value", [0, -1, True, False, 1.0, float("nan"), float("inf"), "100", None, 1 << 62, -(1 << 62)]
)
def test_p9_budgets_are_positive_integers_of_sensible_size(value):
    with pytest.raises(ValueError, match="token"):
        checked_tokens(value, "budget")
    with pytest.raises(ValueError, match="target"):
        compact(coding_session(3), value)
    with pytest.raises(ValueError, match="window"):
        Budget(value)
    with pytest.raises(ValueError, match="budget"):
        shares_of(value)


def test_an_irreducible_list_says_what_its_floor_is_made_of():
    messages = [{"role": "system", "content": "rule " * 2_000}, user("hello " * 500), says("hi"), user("go")]
    with pytest.raises(IrreducibleContext) as caught:
        compact(messages, 1_000)
    assert caught.value.floor["system messages"] == 2_504
    assert "system messages 2,504" in str(caught.value)
    assert sum(caught.value.floor.values()) > 1_000
