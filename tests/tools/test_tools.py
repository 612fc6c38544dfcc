"""The list of tools: small, the same in every session, and off the start path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import ToolError, UsageError
from codelet.safety.verdict import Touch
from codelet.tools import all_tools, select_tools
from codelet.tools.tool import ToolContext, ToolOutput, tool
from tests.tools.conftest import Call

ROOT = Path(__file__).resolve().parent.parent.parent


def run_python(program: str, **environment: str) -> str:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_list_begins_with_these_six() -> None:
    """What comes later stands behind them."""
    given = {"path": "a", "command": "ls"}
    assert [(each.name, each.touched(given)) for each in all_tools()[:6]] == [
        ("read", (Touch("read", "a"),)),
        ("write", (Touch("write", "a"),)),
        ("edit", (Touch("write", "a"),)),
        ("bash", (Touch("run", "ls"),)),
        ("grep", (Touch("read", "a"),)),
        ("find", (Touch("list", "a"),)),
    ]
    assert [each.name for each in select_tools(["find", "read", "find"])] == ["read", "find"]
    with pytest.raises(UsageError, match=r"'reed'; .*read, write, edit"):
        select_tools(["reed"])


def test_schemas_are_the_same_bytes_under_any_hash_seed() -> None:
    program = "import json; from codelet.tools import all_tools; print(json.dumps([t.schema() for t in all_tools()]))"
    seen = {run_python(program, PYTHONHASHSEED=seed) for seed in ("0", "1", "2")}
    assert len(seen) == 1


def test_schemas_say_what_the_functions_take() -> None:
    edit = next(each for each in all_tools() if each.name == "edit").schema()["function"]
    assert edit["parameters"]["required"] == ["path", "edits"]
    item = edit["parameters"]["properties"]["edits"]["items"]
    assert item["required"] == ["old", "new"]
    assert item["properties"]["all"]["type"] == "boolean"
    assert all(part["description"] for part in item["properties"].values()), "parts of arguments are described, too"
    for each in all_tools():
        for name in each.parameters["properties"]:
            assert each.parameters["properties"][name]["description"]
            assert f" {name}: " not in each.description, "a described argument is not in the description, too"
        json.dumps(each.schema())


def test_importing_the_tools_loads_nothing_slow() -> None:
    loaded = json.loads(
        run_python(
            "import asyncio, sys, json\n"
            "from codelet.tools import all_tools; all_tools()\n"
            "print(json.dumps([name for name in sys.modules]))"
        )
    )
    slow = {
        *("ctypes", "difflib", "shutil", "tempfile", "pathspec", "psutil", "tiktoken"),
        *("codelet.system.process", "codelet.tools.file_search", "codelet.tools.planning", "codelet.tools.pages"),
    }
    assert slow.isdisjoint(loaded)


async def sample(
    context: ToolContext, progress: object, *, count: int, ratio: float = 1.0, names: list[str] | None = None
) -> ToolOutput:
    """A tool.

    Second paragraph.

    Arguments:
        count: how many,
            at most
        names: those
    """
    return ToolOutput("")


def test_a_schema_from_a_function() -> None:
    made = tool(sample)
    assert (made.name, made.description) == ("sample", "A tool. Second paragraph.")
    assert made.parameters == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "description": "how many, at most"},
            "ratio": {"type": "number"},
            "names": {"type": "array", "items": {"type": "string"}, "description": "those"},
        },
        "required": ["count"],
    }


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"count": 3}, {"count": 3}),
        ({"count": 3.0}, {"count": 3}),
        ({"count": "3", "ratio": "0.5"}, {"count": 3, "ratio": 0.5}),
        ({"count": 3, "names": None}, {"count": 3}),
        ({"count": 3, "names": '["a"]'}, {"count": 3, "names": ["a"]}),
    ],
)
def test_arguments_as_models_send_them(given: dict[str, Any], taken: dict[str, Any]) -> None:
    assert tool(sample).checked(given) == taken


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "JSON object"),
        ({}, "'count' is missing"),
        ({"count": "many"}, "integer, not str"),
        ({"count": 1.5}, "integer, not float"),
        ({"count": True}, "integer, not bool"),
        ({"count": None}, "type integer"),
        (
            {"count": 1, "other": 2},
            r"'other'. Send \{\"count\": integer, \"ratio\"\?: number, \"names\"\?: \[string, …\]\}",
        ),
        ({"count": 1, "names": [1]}, "names\\[0\\] .* string"),
    ],
)
def test_wrong_arguments(given: object, text: str) -> None:
    with pytest.raises(ToolError, match=text):
        tool(sample).checked(given)


async def test_lists_say_what_a_person_is_told_the_number_of(call: Call, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\ntwo\n")
    (workspace / "b.bin").write_bytes(bytes(range(256)))
    said = [
        ("read", {"path": "a.txt"}),
        ("read", {"path": "."}),
        ("grep", {"pattern": "o"}),
        ("find", {"pattern": "*"}),
    ]
    assert [(await call(name, **arguments)).counted for name, arguments in said] == ["line", "line", "line", "file"]
    assert (await call("read", path="b.bin")).counted == "", "it holds no lines"
