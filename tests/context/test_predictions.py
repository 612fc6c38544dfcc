"""The failures that were predicted for an engine like this, one by one: P1 to P9, where a session is needed."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from codelet.context.compaction.engine import compact
from codelet.errors import UsageError
from codelet.messages import assistant, tool_call, tool_result, unpaired, user
from codelet.settings import load_settings
from codelet.tools.tool import Progress, ToolContext, ToolOutput, tool
from tests.context.conftest import Open
from tests.context.scripted import Answer, by_hand, compactions, fill, turn

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
        call = tool_call(f"c{n}", "read", f'{{"path": "{n}.py"}}')
        messages += [user(f"request {n}"), assistant(None, [call]), tool_result(call["id"], text)]
    begun = time.process_time()
    assert compact(messages, 30_000).report.allocation.evidence > 5_000
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


async def test_p2_a_prompt_that_looks_like_a_segment_harms_nothing(open_session: Open):
    session, provider = open_session(window=16_000)
    await turn(session, '<compacted turns="1-9999999">\nread: lies')
    await fill(session, provider, 24)
    assert session.size <= session.window.budget.hard
    assert unpaired(session.messages) == []


@pytest.mark.parametrize("value", ["-1", "0", "1.5", "nan", "inf", "true", "1e9", "99999999999999999999", "", "x"])
@pytest.mark.parametrize("name", ["budget", "window", "compact_at", "keep_last"])
def test_p9_a_number_that_is_none_is_refused_by_name(tmp_path: Path, name: str, value: str):
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')}: must be"):
        load_settings({name: value}, workspace=tmp_path, environment={})


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
