"""What the tests of tools share: a workspace, and a way to call a tool as a turn does."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import ToolError
from codelet.tools import all_tools
from codelet.tools.tool import ToolContext, ToolOutput

Call = Callable[..., Awaitable[ToolOutput]]
NOBODY = 65534


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def context(workspace: Path) -> ToolContext:
    return ToolContext(workspace)


@pytest.fixture
def call(context: ToolContext) -> Call:
    """Call a tool by name with the model's arguments, checked as in a turn."""

    async def do(name: str, **arguments: Any) -> ToolOutput:
        tool = next(each for each in all_tools() if each.name == name)
        output = await tool.run(context, lambda _: None, **tool.checked(arguments))
        for text in (output.text, output.display or ""):
            text.encode()  # what a provider or a terminal gets must be encodable
        if output.lines is not None:
            context.saw(output.lines)
        return output

    return do


@pytest.fixture
def refused(call: Call) -> Callable[..., Awaitable[str]]:
    """Call a tool that must fail with a ToolError; gives its text, which must be one line."""

    async def do(name: str, **arguments: Any) -> str:
        with pytest.raises(ToolError) as caught:
            await call(name, **arguments)
        text = str(caught.value)
        assert text
        assert "\n" not in text
        assert "Traceback" not in text
        assert "Errno" not in text
        text.encode()
        return text

    return do


@pytest.fixture
def unprivileged() -> Iterator[ToolContext]:
    """A workspace, and this process without the rights of root while the test runs."""
    for name in ("planning", "pages", "results", "file_search"):
        importlib.import_module(f"codelet.tools.{name}")
    folder = Path(tempfile.mkdtemp(dir="/tmp")).resolve()
    folder.chmod(0o777)
    root = os.geteuid() == 0
    if root:
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    try:
        yield ToolContext(folder)
    finally:
        if root:
            os.seteuid(0)
            os.setegid(0)
        shutil.rmtree(folder)
