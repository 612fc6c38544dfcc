"""The picture in the clipboard, through programs that print it: stand-ins with their names and options."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codelet.system.clipboard import copied_picture
from tests.support.pictures import png

WAYLAND = "wl-paste", "WAYLAND_DISPLAY", '[ "$*" = "--no-newline --type image/png" ]'
X = "xclip", "DISPLAY", '[ "$*" = "-selection clipboard -target image/png -out" ]'


def program(folder: Path, name: str, test: str, picture: bytes) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "picture").write_bytes(picture)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{test} || exit 1\nexec cat '{folder}/picture'\n", encoding="utf-8")
    path.chmod(0o755)


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": f"{folder}:{os.environ['PATH']}", **more}


@pytest.mark.parametrize(("name", "variable", "test"), [WAYLAND, X], ids=["Wayland", "X"])
async def test_the_program_of_the_display_is_asked(name: str, variable: str, test: str, tmp_path: Path):
    tools, workspace = tmp_path / "bin", tmp_path / "work"
    workspace.mkdir()
    program(tools, name, test, png())
    found = await copied_picture(workspace, environment(tools, **{variable: "x"}))
    assert (found.data, found.why) == (png(), "")
    assert not list(workspace.iterdir())
    nowhere = await copied_picture(workspace, environment(tools))
    assert (nowhere.data, "@path" in nowhere.why) == (b"", True)


async def test_a_clipboard_without_a_picture_is_told(tmp_path: Path):
    tools, workspace = tmp_path / "bin", tmp_path / "work"
    workspace.mkdir()
    program(tools, "wl-paste", "false", png())
    found = await copied_picture(workspace, environment(tools, WAYLAND_DISPLAY="x"))
    assert found.data == b"" and found.why


async def test_no_program_of_the_workspace_is_run(tmp_path: Path):
    program(tmp_path / "bin", "wl-paste", f"touch {tmp_path}/ran", png())
    only = {"PATH": str(tmp_path / "bin"), "WAYLAND_DISPLAY": "x"}
    found = await copied_picture(tmp_path, only)
    assert (found.data, (tmp_path / "ran").exists()) == (b"", False)
