"""What calls took and came to: shown, kept by the export, and told to the model where a tool fails again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codelet.errors import ExportError
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.export.recorder import Recorder, restore
from codelet.extensions.base import OpenedWith
from codelet.extensions.manifest import turned_on
from codelet.loop.session import Session
from codelet.messages import reminder_type
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Said
from codelet.safety.verdict import Question
from codelet.settings import load_settings
from tests.context.scripted import Answer, ScriptedProvider, Sent, turn
from tests.extensions.conftest import Open

MISSING = ("read", {"path": "missing.txt"})
THERE = ("read", {"path": "there.txt"})


@pytest.fixture
def counted(tmp_path: Path, open_session: Open) -> Any:
    """Opens a session as the program does, in a folder with one file."""
    (tmp_path / "there.txt").write_text("here\n")

    def begin(**options: Any) -> tuple[Session, ScriptedProvider]:
        settings = load_settings({}, workspace=tmp_path, environment={})
        return open_session(*turned_on(OpenedWith(settings=settings)), **options)

    return begin


def told(sent: Sent) -> str:
    return next((m["content"] or "" for m in sent.tail if reminder_type(m) == "toolFailures"), "")


def saved(session: Session, carried: Document | None = None) -> Document:
    return from_json(to_json(Recorder(carried).snapshot(session), mask=None))


async def test_tool_statistics_tell_the_model_of_a_tool_that_fails_again_and_again(counted: Any):
    session, provider = counted()
    steps = [MISSING, MISSING, THERE, MISSING, MISSING, MISSING, MISSING, THERE]
    provider.answers.extend([*(Answer("", [step]) for step in steps), Answer()])
    await turn(session)
    reminded = [told(sent) for sent in provider.sent]
    assert [bool(text) for text in reminded] == [False] * 6 + [True, True, False]
    assert "\nread " in reminded[7] and " 4 times" in reminded[7] and "6 of 7" in reminded[7]
    provider.answers.extend([Answer("", [MISSING, MISSING, MISSING]), Answer()])
    await turn(session)
    await turn(session)
    assert [bool(told(sent)) for sent in provider.sent[-3:]] == [False, True, False], "a new prompt begins anew"


async def test_metrics_and_approval_history_are_shown_and_exported(counted: Any, tmp_path: Path):
    async def ask(question: Question) -> Said:
        return Said(allow="yes" in str(question.arguments), reason="not that")

    session, provider = counted(policy=Policy(tmp_path, deny=["bash(git push *)"]), ask=ask)
    assert saved(session).unknown["metrics"]["by_tool"] == {}, "figures also before the first call"
    writes = [("write", {"path": f"{word}.txt", "content": word * 1_000_000}) for word in ("yes", "no")]
    calls = [*writes, ("bash", {"command": "git push origin"}), MISSING, THERE]
    provider.answers.extend([Answer("", [call]) for call in calls] + [Answer()])
    await turn(session, "do it")
    shown = await session.run_command("stats")
    assert shown.splitlines()[0].startswith("6 answered requests, ")
    assert "2 calls refused" in shown
    rows = {line.split()[0]: line.split()[1:4] for line in shown.splitlines()[3:]}
    assert rows == {"bash": ["0", "0", "1"], "read": ["2", "1", "0"], "write": ["1", "0", "1"]}
    snapshot = saved(session)
    metrics, approvals = snapshot.unknown["metrics"], snapshot.unknown["approvals"]
    assert metrics["requests"] == 6
    assert metrics["by_tool"]["write"]["longest"] == metrics["by_tool"]["write"]["seconds"] > 0
    assert [(row["turn"], row["about"], row["outcome"]) for row in approvals] == [
        (1, "write yes.txt", "yes"),
        (1, "write no.txt", "no"),
        (1, "bash git push origin", "denied"),
    ]
    again, second = counted(policy=Policy(tmp_path))
    restore(again, snapshot)
    second.answers.extend([Answer("", [THERE]), Answer()])
    await turn(again)
    later = saved(again, snapshot).unknown
    assert later["metrics"]["requests"] == 8
    assert later["metrics"]["by_tool"]["read"]["calls"] == 3
    assert later["approvals"] == approvals
    assert again.policy.rules == {"deny": [], "ask": [], "allow": []}, "a record permits nothing"


async def test_compactions_and_what_was_sent_again_are_counted(counted: Any):
    session, provider = counted()
    provider.answers.append(Answer("", error=None))
    await turn(session)
    for number in range(8):
        await turn(session, f"turn {number}: " + "words to be compacted " * 200)
    async for _ in session.compact():
        pass
    shown = await session.run_command("stats")
    assert "10 answered requests" in shown, "an empty answer was asked for once more"
    assert "1 sent again" in shown
    assert "1 compaction" in shown


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics", "many"),
        ("metrics", {"by_tool": [1]}),
        ("approvals", [{"about": "x"}]),
        ("fact_origins", [{"by": 1}]),
    ],
)
async def test_a_form_that_is_not_ours_is_refused_in_a_line(counted: Any, key: str, value: Any):
    session, _ = counted()
    with pytest.raises(ExportError, match=f"'{key}' in the export"):
        restore(session, Document(timestamp=0.0, token_count=0, messages=(), unknown={key: value}))
