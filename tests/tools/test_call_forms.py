"""Calls in the forms in which models write them: each is run as meant, shown as it is run, and never guessed at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import ToolError
from codelet.safety import Policy
from codelet.safety.verdict import Answer, Question
from codelet.tools import all_tools
from codelet.tools.call_forms import arguments_in, plain_name, strict_object
from codelet.tools.tool import Tool, ToolOutput, tool
from tests.support.bodies import messages_of
from tests.support.script import Call, Reply
from tests.support.server import ModelServer
from tests.support.sessions import MakeSession, of_type, turn

OWN = {each.name: each for each in all_tools()}
ONE_EDIT = {"path": "a", "edits": [{"old": "x", "new": "y"}]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"command": "printf \'a\nb\'"}', {"command": "printf 'a\nb'"}),
        ('{"command": "a\tb\x01"}', {"command": "a\tb\x01"}),
        ('"{\\"command\\": \\"ls\\"}"', {"command": "ls"}),
        (json.dumps(json.dumps('{"command": "a\nb"}')), {"command": "a\nb"}),
        (" {} \n", {}),
    ],
)
def test_text_that_is_almost_json(text: str, value: dict[str, Any]) -> None:
    assert arguments_in(text) == value


@pytest.mark.parametrize("text", ["", "ls", '"ls"', '{"a": 1', '{"n": NaN}', '"{\\"n\\": NaN}"', "{}{}", "[" * 99_999])
def test_text_that_means_no_object_stays_text(text: str) -> None:
    assert arguments_in(text) == text
    assert strict_object(text) is None


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("functions.bash", "bash"),
        ("default_api.bash", "bash"),
        ("tools:bash", "bash"),
        ("to=functions.bash", "bash"),
        ("bash<|channel|>commentary", "bash"),
        ("functions.bash<|constrain|>json", "bash"),
        (" bash\n", "bash"),
        ("functions.bash:0", "bash"),
        ("bash", "bash"),
        ("mcp.github.search", "mcp.github.search"),
        ("<|channel|>", "<|channel|>"),
        ("", ""),
    ],
)
def test_names_with_the_marks_of_a_template(name: str, plain: str) -> None:
    assert plain_name(name) == plain


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("bash", {"command": "ls", "description": "List files"}, {"command": "ls"}),
        ("bash", {"command": "ls", "background": "false"}, {"command": "ls", "background": False}),
        ("bash", {"command": "ls", "run_in_background": "True"}, {"command": "ls", "background": True}),
        ("bash", {"command": "ls", "timeout": "5"}, {"command": "ls", "timeout": 5}),
        ("bash", {"command": "ls", "timeout": 120_000}, {"command": "ls", "timeout": 120}),
        ("bash", {"command": "ls", "timeout": 9e99}, {"command": "ls", "timeout": 600}),
        ("bash", {"command": "ls", "timeout_ms": 2_000}, {"command": "ls", "timeout": 2}),
        ("bash", {"command": "ls", "timeout": 900}, {"command": "ls", "timeout": 900}),
        (
            "read",
            {"file_path": "a", "offset": "2", "limit": "3.0", "pages": ""},
            {"path": "a", "offset": 2, "limit": 3},
        ),
        ("grep", {"pattern": "x", "-n": True, "output_mode": "content"}, {"pattern": "x"}),
        ("grep", {"pattern": "x", "-i": "true", "-C": "2"}, {"pattern": "x", "ignore_case": True, "around": 2}),
        ("grep", {"pattern": "x", "multiline": "false"}, {"pattern": "x"}),
        ("find", {"pattern": "*", "explanation": "look"}, {"pattern": "*"}),
        ("write", {"path": "a", "content": "[1]", "overwrite": True}, {"path": "a", "content": "[1]"}),
        ("edit", {"path": "a", "edits": ['{"old": "x", "new": "y"}']}, ONE_EDIT),
        ("edit", {"path": "a", "edits": '{"edits": [{"old": "x", "new": "y"}]}'}, ONE_EDIT),
        ("edit", {"path": "a", "edits": {"edits": [{"old": "x", "new": "y"}]}}, ONE_EDIT),
        ("edit", {"path": "a", "edits": '["{\\"old\\": \\"x\\", \\"new\\": \\"y\\"}"]'}, ONE_EDIT),
        ("edit", {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}, ONE_EDIT),
        ("edit", {"path": "a", "oldText": "x", "newText": "y", "instruction": "z"}, ONE_EDIT),
        ("edit", {"path": "a", "old_string": "x", "new_string": "y", "expected_replacements": 1}, ONE_EDIT),
        (
            "edit",
            {"path": "a", "edits": [{"old": "x", "new": "y", "replace_all": "false", "description": "d"}]},
            {"path": "a", "edits": [{"old": "x", "new": "y", "all": False}]},
        ),
        ("edit", {"path": "a", "edits": [{"old": "x", "new": "y", "all": None}]}, ONE_EDIT),
    ],
)
def test_arguments_of_own_tools(name: str, given: dict[str, Any], taken: dict[str, Any]) -> None:
    found = OWN[name].checked(given)
    assert found == taken
    assert [type(value) for value in found.values()] == [type(taken[key]) for key in found] or name == "bash"
    assert OWN[name].checked(found) == found


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("bash", {"command": "ls", "cwd": ["/"]}),
        ("bash", {"command": "ls", "cwd": "/", "workdir": "/"}),
        ("bash", {"command": "ls", "env": {}}),
        ("bash", {"command": "rm x", "dry_run": True}),
        ("bash", {"command": "ls", "restart": True}),
        ("bash", {"command": "ls", "timeout": 5, "timeout_ms": 5}),
        ("bash", {"command": "ls", "timeout": "NaN"}),
        ("bash", {"command": "ls", "background": "no"}),
        ("bash", {"command": "ls", "background": 0}),
        ("read", {"path": "a", "run_in_background": True}),
        ("read", {"path": "a", "Description": "d"}),
        ("grep", {"pattern": "x", "output_mode": "count"}),
        ("grep", {"pattern": "x", "multiline": True}),
        ("grep", {"pattern": "x", "type": "py", "glob": "*.txt"}),
        ("grep", {"pattern": "x", "type": "unheard"}),
        ("read", {"path": "a", "start_line": 9, "end_line": 2}),
        ("write", {"path": "a", "content": "", "overwrite": False}),
        ("write", {"path": "a", "content": {"a": 1}}),
        ("edit", {"path": "a", "old_string": "x", "new_string": "y", "expected_replacements": 3}),
        ("edit", {"path": "a", "edits": [{"old": "x", "new": "y", "regex": True}]}),
        ("edit", {"path": "a", "edits": [{"old": "x", "new": "y", "path": "b"}]}),
        ("edit", {"path": "a", "edits": [{"old": "x", "old_string": "z", "new": "y"}]}),
        ("edit", {"path": "a", "edits": {"edits": [], "path": "b"}}),
    ],
)
def test_what_could_change_the_meaning_is_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(ToolError):
        OWN[name].checked(given)


async def test_names_and_units_of_other_tools_stay_theirs() -> None:
    async def fetch(url: str, timeout: int, description: str = "") -> str:
        """Fetch."""
        return url

    given = {"url": "u", "timeout": 30_000, "description": "d"}
    assert tool(fetch).checked(given) == given
    with pytest.raises(ToolError):
        tool(fetch).checked({**given, "explanation": "e"})


async def test_values_for_tools_from_outside_are_read_by_their_schema() -> None:
    async def run(*_: object, **arguments: Any) -> ToolOutput:
        return ToolOutput(repr(arguments))

    schema = {
        "type": "object",
        "properties": {
            "deep": {"type": "boolean"},
            "most": {"type": "integer"},
            "free": {},
            "text": {"type": "string"},
        },
        "additionalProperties": False,
    }
    outside = Tool("outside", "From outside.", schema, run)
    given = {"deep": "false", "most": "2", "free": "2", "text": "true"}
    assert outside.checked(given) == {"deep": False, "most": 2, "free": "2", "text": "true"}
    with pytest.raises(ToolError):
        outside.checked({"description": "d"})


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("bash", '{"command": "touch \'a\nb\'"}'),
        ("functions.bash", '"{\\"command\\": \\"touch \'a\\\\nb\'\\"}"'),
        ("bash<|channel|>commentary", '{"cmd": "touch \'a\\nb\'", "description": "Make it", "timeout": 60000}'),
        (" Bash ", '{"command": "touch \'a\\nb\'", "background": "false"}'),
    ],
)
async def test_what_is_shown_judged_and_run_is_the_same(
    make_session: MakeSession, model_server: ModelServer, repo: Path, name: str, written: str
) -> None:
    asked: list[str] = []

    async def approve(question: Question) -> Answer:
        asked.append(question.arguments["command"])
        return Answer(allow=True)

    model_server.script = [Reply(calls=[Call("x", name, written)]), Reply("done")]
    seen = await turn(make_session(tools=[OWN["bash"]], policy=Policy(repo), ask=approve))
    started, result = of_type(seen, events.ToolCallStarted)[0], of_type(seen, events.ToolResult)[0]
    assert started.arguments["command"] == started.title == asked[0] == "touch 'a\nb'"
    assert not started.arguments.keys() - {"command", "background", "timeout"}
    assert result.status == "done"
    assert (repo / "a\nb").exists()
    sent = next(each for each in messages_of(model_server.requests[1]) if each.get("tool_calls"))
    function = sent["tool_calls"][0]["function"]
    if strict_object(written) is not None:
        assert function["arguments"] == written, "what can go back goes back as it came"
    assert strict_object(function["arguments"]) is not None
    assert function["name"].strip().lower() == "bash"
