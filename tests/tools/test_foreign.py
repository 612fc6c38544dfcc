"""Tools from outside bring JSON Schemas of their own: what fits them runs as it is, what does not is told in a line."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import ToolError
from codelet.loop.toolbox import Safeguards, Toolbox
from codelet.safety import Policy
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput
from tests.safety.conftest import call, calls

ANY_OF = {
    "type": "object",
    "properties": {"target": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}},
    "required": ["target"],
}
REFERRED = {
    "type": "object",
    "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
    "properties": {"at": {"$ref": "#/$defs/Point"}, "then": {"type": "array", "items": {"$ref": "#/$defs/Point"}}},
    "required": ["at"],
}
TYPE_LIST = {"type": "object", "properties": {"limit": {"type": ["integer", "null"]}}, "required": ["limit"]}
FREE = {"type": "object"}
NO_REQUIRED = {"type": "object", "properties": {"word": {"type": "string"}, "path": {"type": "string"}}}
DRAFT_7 = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "definitions": {"side": {"enum": ["left", "right"]}},
    "properties": {"side": {"$ref": "#/definitions/side"}, "pair": {"items": [{"const": 1}, {"type": "string"}]}},
    "additionalProperties": False,
}


async def shown(context: ToolContext, progress: Progress, **arguments: Any) -> ToolOutput:
    return ToolOutput(repr(arguments))


def foreign(schema: dict[str, Any]) -> Tool:
    return Tool("foreign", "From outside.", schema, shown)


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (ANY_OF, {"target": "a"}),
        (ANY_OF, {"target": ["a", "b"], "unknown": 1}),
        (REFERRED, {"at": {"x": 1.5}, "then": [{"x": 2, "y": 3}]}),
        (TYPE_LIST, {"limit": None}),
        (TYPE_LIST, {"limit": 3}),
        (FREE, {}),
        (FREE, {"whatever": {"is": ["given", None]}, "nothing": None}),
        ({}, {"a": 1}),
        (NO_REQUIRED, {}),
        (NO_REQUIRED, {"word": "a", "file_path": "b"}),
        (DRAFT_7, {"side": "left", "pair": [1, "a"]}),
    ],
)
async def test_what_fits_runs_as_it_was_sent(tmp_path: Path, schema: dict[str, Any], given: dict[str, Any]) -> None:
    box = Toolbox([foreign(schema)], ToolContext(tmp_path), Policy(tmp_path, yes=True), None, Safeguards())
    assert await call(box, "foreign", **given) == ("done", repr(given))


@pytest.mark.parametrize(
    ("schema", "given", "text"),
    [
        (ANY_OF, {"target": 1}, "foreign: target: 1 is not "),
        (ANY_OF, {}, "foreign: 'target' is a required property"),
        (REFERRED, {"at": {"y": 1}}, "foreign: at: 'x' is a required property"),
        (REFERRED, {"at": {"x": 1}, "then": [{"x": "1"}]}, "foreign: then[0].x: '1' is not of type 'number'"),
        (TYPE_LIST, {"limit": "3"}, "foreign: limit: '3' is not of type 'integer', 'null'"),
        (NO_REQUIRED, {"word": 1}, "foreign: word: 1 is not of type 'string'"),
        (DRAFT_7, {"side": "up"}, "foreign: side: 'up' is not one of ['left', 'right']"),
        (DRAFT_7, {"pair": [2]}, "foreign: pair[0]: 1 was expected"),
        (DRAFT_7, {"other": 1}, "foreign: Additional properties are not allowed ('other' was unexpected)"),
    ],
)
async def test_what_does_not_fit_is_told(
    tmp_path: Path, schema: dict[str, Any], given: dict[str, Any], text: str
) -> None:
    box = Toolbox([foreign(schema)], ToolContext(tmp_path), Policy(tmp_path, yes=True), None, Safeguards())
    status, told = await call(box, "foreign", **given)
    assert status == "failed"
    assert told.startswith(text)
    assert "\n" not in told


def test_a_null_counts_as_left_out_only_where_the_schema_wants_that() -> None:
    assert foreign(NO_REQUIRED).checked({"word": None, "path": "a"}) == {"path": "a"}
    assert foreign(TYPE_LIST).checked({"limit": None}) == {"limit": None}
    with pytest.raises(ToolError, match="target: None is not "):
        foreign(ANY_OF).checked({"target": None})


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/missing"}}}, "missing"),
        ({"properties": {"a": {"type": "text"}}}, "'text' is not valid"),
        ({"properties": {"a": {"pattern": "["}}}, ""),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}, "recursion"),
    ],
)
def test_a_schema_that_cannot_be_used_is_told(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(ToolError, match="schema cannot be") as raised:
        foreign(schema).checked({"a": "b"})
    assert why in str(raised.value)


@pytest.mark.filterwarnings("default")
def test_a_schema_elsewhere_is_not_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/elsewhere.json"
        with pytest.raises(ToolError, match=r"elsewhere\.json"):
            foreign({"properties": {"a": {"$ref": address}}}).checked({"a": "b"})
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_jsonschema_is_loaded_by_the_first_call_of_such_a_tool() -> None:
    program = (
        "import sys, codelet.loop.session\n"
        "from codelet.tools import all_tools\n"
        "from codelet.tools.tool import Tool\n"
        "all_tools()[0].checked({'path': 'a'})\n"
        "before = 'jsonschema' in sys.modules\n"
        "Tool('foreign', '', {}, print).checked({})\n"
        "print(before, 'jsonschema' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("given", [{"file_path": "a"}, {"path": "a"}, {"word": "b", "old_string": "c"}])
async def test_its_arguments_are_shown_and_handed_on_under_the_names_that_were_given(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    """Other names for arguments are understood for codelet's own tools only: here nobody knows what they mean."""
    box = Toolbox([foreign(NO_REQUIRED)], ToolContext(tmp_path), Policy(tmp_path, yes=True), None, Safeguards())
    seen = await calls(box, "foreign", **given)
    [started] = [event for event in seen if isinstance(event, events.ToolCallStarted)]
    [result] = [event for event in seen if isinstance(event, events.ToolResult)]
    assert (started.arguments, result.text) == (given, repr(given))
