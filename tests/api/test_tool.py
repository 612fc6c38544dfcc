"""`tool`: what is made of a function that a caller wrote, and of one that no tool can be made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from codelet import Tool, ToolError, ToolOutput, Touch, tool
from codelet.tools.tool import Progress, ToolContext


@tool
async def plain(text: str, *, how: Literal["up", "down"] = "up", times: list[int] | None = None) -> str:
    """Turn a text.

    Arguments:
        text: what is turned
    """
    return f"{text} {how} {times}"


@tool(touches=lambda given: [Touch("read", given["path"])], title=lambda given: given["path"])
async def sized(path: str) -> ToolOutput:
    """The size of a file."""
    return ToolOutput(str(Path(path).stat().st_size), failed=True)


@tool
async def told(context: ToolContext, progress: Progress, name: str) -> str:
    """Say where."""
    progress("looking")
    return f"{name} in {context.workspace.name}"


def test_a_plain_function_becomes_a_tool():
    assert isinstance(plain, Tool)
    assert (plain.name, plain.description) == ("plain", "Turn a text.")
    assert plain.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "what is turned"},
            "how": {"type": "string", "enum": ["up", "down"]},
            "times": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["text"],
    }
    assert plain.touched({"text": "x"}) == ()
    assert sized.touched({"path": "a"}) == (Touch("read", "a"),)
    assert sized.about({"path": "a"}) == "a"


async def test_a_plain_function_is_run_with_what_the_model_gives(tmp_path: Path):
    context, said = ToolContext(tmp_path), []
    given = plain.checked({"text": "a", "times": [1, 2]})
    assert await plain.run(context, said.append, **given) == ToolOutput("a up [1, 2]")
    (tmp_path / "file").write_text("12345")
    assert await sized.run(context, said.append, path=str(tmp_path / "file")) == ToolOutput("5", failed=True)
    assert (await told.run(context, said.append, name="it")).text == f"it in {tmp_path.name}"
    assert said == ["looking"]
    with pytest.raises(ToolError, match="'text' is missing"):
        plain.checked({})


async def test_what_a_function_gives_must_be_text(tmp_path: Path):
    async def number(value: int) -> str:
        return value

    with pytest.raises(TypeError, match="but int"):
        await tool(number).run(ToolContext(tmp_path), print, value=1)


def not_async(text: str) -> str:
    return text


async def untyped(text) -> str:
    return text


async def any_number(*texts: str) -> str:
    return texts[0]


async def anything(**given: str) -> str:
    return str(given)


async def strange(path: Path) -> str:
    return str(path)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (not_async, "not_async: .*async"),
        (untyped, "untyped: .*'text'"),
        (any_number, "any_number: .*texts"),
        (anything, "anything: .*given"),
        (strange, "no schema"),
    ],
)
def test_a_function_that_is_none_is_told(function: Any, says: str):
    with pytest.raises(TypeError, match=says):
        tool(function)
