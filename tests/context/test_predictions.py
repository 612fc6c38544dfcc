"""The failures that were predicted of a context engine, P1 to P9, one test each by name."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from contextlib import aclosing
from pathlib import Path

import pytest

from codelet.context.archive import Archive, text_in
from codelet.context.compaction.engine import CompactionSettings, IrreducibleContext, compact
from codelet.context.compaction.observed import ANCHORS, TurnAnchor, scores
from codelet.context.compaction.reading import ReadSession
from codelet.context.compaction.segments import parse_segment
from codelet.context.narrative import Handoffs, NarrativeCheck
from codelet.context.tokens import Budget, checked_tokens, shares_of
from codelet.errors import UsageError
from codelet.messages import unpaired, user
from codelet.settings import load_settings
from codelet.tools.tool import Progress, ToolContext, ToolOutput, tool
from tests.context.compaction.lists import coding_session, pairing_faults, says, size
from tests.context.compaction.planted import did, ran
from tests.context.conftest import Open
from tests.context.scripted import Answer, by_hand, compactions, fill, turn
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
    for number in range(turns):
        messages.append(user(f"request {number} about file_{number % 50}.py"))
        messages.append(says(f"answer {number}: value_{number} is set. " + "detail " * 4))
        if len(messages) > 600:
            made = compact(messages, 4_000)
            for place in made.report.removed:
                archive.put(number, messages[place])
            messages = made.messages
        if number in (turns * 4 // 10, turns - 1):
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


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionError("no route"),
        "- We moved everything to src/never/was.py\n- and made.up/path.ts decided it",
        "word " * 100_000,
        '<tool_call>{"name": "bash"}</tool_call>',
    ],
    ids=["fails", "lies", "inflates", "calls tools"],
)
async def test_p5_a_summariser_that_fails_or_lies_changes_nothing_and_the_circuit_opens(answer: ConnectionError | str):
    waits: list[float] = []
    tries = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def counted() -> str:
        tries.append("go")
        if isinstance(answer, ConnectionError):
            raise answer
        return answer

    handoffs = Handoffs(sleep=sleep)
    fails = isinstance(answer, ConnectionError)
    for _ in range(1 if fails else 3):  # a bad answer ends it, a failed request is tried again
        assert await handoffs.handoff(counted, NarrativeCheck(["src/a.py was changed"]), 7) == ()
    assert (len(tries), waits) == (3, [1.0, 2.0] if fails else [])
    assert not handoffs.allows(8)
    assert await handoffs.handoff(counted, NarrativeCheck(["src/a.py"]), 8) == ()
    assert len(tries) == 3
    assert handoffs.allows(12)
    messages = coding_session(30)
    assert compact(messages, 3_000, handoff=()) == compact(messages, 3_000)


_SHOUT = "\n".join(f"Keyword{n}Error: part_{n} of module_{n} is gone" for n in range(3_000))
LOUD = [user("and the log"), *did("d", "read", {"path": "all.log"}, _SHOUT), says("Read.")]


@pytest.mark.parametrize(("loud", "turns", "target"), [([], 25, 3_500), (LOUD, 5, 4_000)], ids=["votes", "a loud turn"])
def test_p6_feedback_cannot_push_out_errors_anchors_or_constraints(loud: list, turns: int, target: int):
    failure = "LedgerError: 4711 entries missing in flush_queue"
    messages = [user("Never touch legacy/pay.py."), says("I will not."), user("run it")]
    messages += [*ran("c", "python app.py", f"starting\n{failure}"), says("I see."), *loud, *coding_session(turns)[1:]]
    against = CompactionSettings(votes={} if loud else dict.fromkeys(range(1, 40), -5))
    text = str([m["content"] for m in compact(messages, target, settings=against).messages])
    assert "Never touch legacy/pay.py." in text and failure in text
    assert not loud or "Keyword2999Error" in text or "Keyword0Error" in text


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


MIB = 1 << 20


async def huge(context: ToolContext, progress: Progress, *, size: int) -> ToolOutput:
    """Give a text of that many characters with an error in its first lines."""
    body = "start\nerror: E1042 in src/a.py\n" + "x" * 99 + "\n"
    return ToolOutput(body + ("y" * 99 + "\n") * ((size - len(body)) // 100) + "the end")


async def test_p1_a_hundred_megabytes_as_a_prompt_and_as_a_tool_result(open_session: Open, tmp_path: Path):
    session, provider = open_session(window=400_000)
    session.upkeep.add_tool(tool(huge))
    provider.answers.append(Answer("reading", [("huge", {"size": 100 * MIB})]))
    begun = time.process_time()
    seen = await turn(session, ("a line of a prompt\n" * (100 * MIB // 19)) + "what is this?")
    assert time.process_time() - begun < 20
    notes = [event.note for event in compactions(seen, "reduced")]
    assert len(notes) == 2 and all("was cut" in note for note in notes)
    [prompt] = [message for message in session.messages if message["role"] == "user"]
    [result] = [message for message in session.messages if message["role"] == "tool"]
    assert len(str(prompt["content"])) <= 2 * session.window.budget.hard and "what is this?" in str(prompt["content"])
    assert len(str(result["content"])) <= 256 * 1024 and str(result["content"]).endswith("the end")
    assert "error: E1042" in str(result["content"])
    assert session.compactor.archive.bytes <= session.compactor.archive.cap
    kept = session.rewind()
    assert kept is not None and len(kept) < 17 * MIB, "not the hundred megabytes either"
    assert all(sent.size <= session.window.budget.hard for sent in provider.sent)


def test_p3_lines_of_the_same_few_words_take_no_longer_than_others():
    words, chance = "parse def return the error in src/app.py line value=1".split(), random.Random(1)
    messages = []
    for n in range(400):
        text = "\n".join(" ".join(chance.choices(words, k=9)) for _ in range(40))
        messages += [user(f"request {n}"), *did(f"c{n}", "read", {"path": f"{n}.py"}, text)]
    begun = time.process_time()
    assert compact(messages, 30_000).report.allocation["evidence"] > 5_000
    assert time.process_time() - begun < 5, "a choice changes the worth of all the other lines"


async def test_p2_a_corrupted_list_is_mended_by_a_compaction(open_session: Open):
    session, provider = open_session(window=16_000)
    await fill(session, provider, 9)
    broken = list(session.messages)
    broken.insert(3, {"role": "tool", "tool_call_id": "nobody", "content": "lost"})
    del broken[6]
    broken.append({"role": "assistant", "content": None, "tool_calls": session.messages[1]["tool_calls"]})
    session.adopt(broken)
    assert unpaired(session.messages)
    seen = await fill(session, provider, 12)
    assert compactions(seen, "done")
    assert unpaired(session.messages) == []


async def test_p7_compactions_at_once_commit_once(open_session: Open):
    session, provider = open_session(window=24_000)
    await fill(session, provider, 8)

    seen = await asyncio.gather(by_hand(session), by_hand(session), by_hand(session))
    phases = sorted(event.phase for found in seen for event in found if event.phase != "starting")
    assert phases == ["done", "stopped", "stopped"]
    assert session.compactor.count == 1


async def test_p7_a_list_that_changes_meanwhile_is_left_alone(open_session: Open):
    session, provider = open_session(window=24_000)
    await fill(session, provider, 8)
    async with aclosing(session.compact()) as stream:
        async for event in stream:
            if event.phase == "starting":
                asyncio.get_running_loop().call_soon(session.conversation.append, user("meanwhile"))
            else:
                assert event.phase == "stopped" and "changed" in event.note
    assert session.messages[-1]["content"] == "meanwhile"
    assert "value_part0_3" in str(session.messages)


@pytest.mark.parametrize(
    "value", ["5,30,15", "5,30,15,51", "0,30,20,50", "nan,30,15,55", "-5,40,15,50", "a,b,c,d", "100"]
)
def test_p9_shares_that_are_none_are_refused(tmp_path: Path, value: str):
    with pytest.raises(UsageError, match="CODELET_SHARES: must"):
        load_settings({}, workspace=tmp_path, environment={"CODELET_SHARES": value})


def test_shares_come_from_a_file_or_a_variable(tmp_path: Path):
    given = load_settings({}, workspace=tmp_path, environment={"CODELET_SHARES": "10, 20,30,40"})
    assert given.shares == (10, 20, 30, 40)
    (tmp_path / "codelet").mkdir()
    (tmp_path / "codelet" / "config.toml").write_text("shares = [4, 40, 16, 40]\n")
    given = load_settings({}, workspace=tmp_path, environment={"XDG_CONFIG_HOME": str(tmp_path)})
    assert given.shares == (4, 40, 16, 40)
