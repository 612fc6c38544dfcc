"""What models bring along from other tools works here: names, shapes, notebooks, commands that want a screen."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from codelet.events import ToolCallStarted, ToolResult
from codelet.loop.session import Session
from codelet.safety import Policy
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.tools.conftest import Call

Refused = Callable[..., Awaitable[str]]


async def test_an_empty_old_makes_a_new_file(workspace: Path, call: Call, refused: Refused) -> None:
    made = await call("edit", path="src/new.py", edits=[{"old": "", "new": "x = 1\n"}])
    assert made.text == "created src/new.py: 1 lines"
    (workspace / "empty.py").touch()
    await call("edit", path="empty.py", old_string="", new_string="y = 2\n")
    assert (workspace / "empty.py").read_text() == "y = 2\n"
    await call("read", path="src/new.py")
    assert "old is empty" in await refused("edit", path="src/new.py", edits=[{"old": "", "new": "z"}])
    assert "does not exist" in await refused("edit", path="no.py", edits=[{"old": "a", "new": "b"}])


@pytest.mark.parametrize("text", ["[" * 100_000, "[{", "9" * 5_000])
async def test_a_text_that_is_no_list_is_told(refused: Refused, text: str) -> None:
    assert "type array" in await refused("edit", path="a.txt", edits=text)


async def test_output_is_text_for_the_model(call: Call) -> None:
    done = await call("bash", command=r"printf '\033[31mred\033[0m\rover\n10%%\r100%%\nb\bc\n'")
    assert done.text == "over\n100%\nc\n[exit code 0]"


@pytest.mark.parametrize(
    "draws",
    [
        r"printf 'before\n\033[?1049h'",
        r"printf 'before\n'; for n in 1 2 3 4 5 6 7 8 9; do printf '\033['$n';1Hrow'; done",
        "printf 'before\\nVim: Warning: Output is not to a terminal\\n'",
    ],
)
async def test_a_full_screen_program_is_ended_at_once(call: Call, draws: str) -> None:
    done = await call("bash", command=f"{draws}; sleep 617", timeout=600)
    assert done.failed
    assert done.text.startswith("before")
    assert "whole screen" in done.text
    assert (await call("bash", command="echo next")).text == "next\n[exit code 0]"


async def test_a_notebook_is_read_as_cells(workspace: Path, call: Call) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "source": "print('hi')\nplot()",
            "outputs": [
                {"output_type": "stream", "text": ["hi\n"]},
                {"output_type": "display_data", "data": {"image/png": "iVBOR", "text/plain": ["<Figure>"]}},
                {"output_type": "error", "traceback": ["\x1b[31mValueError\x1b[0m: no"]},
            ],
        },
    ]
    (workspace / "a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    shown = await call("read", path="a.ipynb")
    bare = [line.partition("\t")[2] or line for line in shown.text.split("\n")]
    assert bare[:3] == ["# cell 1, markdown", "# Title", "words"]
    for line in (
        "# cell 2, code, run as 3",
        "print('hi')",
        "hi",
        "<Figure>",
        "(image/png, not shown)",
        "ValueError: no",
    ):
        assert line in bare
    assert "iVBOR" not in shown.text
    assert bare[-1].startswith("[a notebook")
    assert shown.lines is None, "the file's own lines were not shown: it may not be replaced as a whole"
    (workspace / "b.ipynb").write_text("{}\n")
    assert (await call("read", path="b.ipynb")).text == "1\t{}"


async def test_tools_under_the_names_of_others(workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    asked = [
        ("Read", {"file_path": "a.txt"}),
        ("Bash", {"cmd": "cat a.txt"}),
        ("str_replace", {"path": "a.txt", "old_str": "one", "new_str": "two"}),
        ("Glob", {"pattern": "*.txt"}),
        ("Nothing", {}),
    ]
    provider = ScriptedProvider(answers=deque([Answer(calls=asked)]))
    session = Session(provider, workspace=workspace, policy=Policy(workspace, "auto-edit", deny=["bash(cat *)"]))
    seen = await turn(session)
    await session.close()
    begun = [event.name for event in seen if isinstance(event, ToolCallStarted)]
    assert begun == ["read", "bash", "edit", "find", "Nothing"]
    results = [event for event in seen if isinstance(event, ToolResult)]
    assert [each.status for each in results] == ["done", "refused", "done", "done", "failed"], "rules know them all"
    assert (workspace / "a.txt").read_text() == "two\n"
    assert "'Nothing'" in results[-1].text
