"""Thirty-odd files that are no profile: each is exit 2 and one line with its file, its line and the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.extensions.services import profile_places
from codelet.settings import load_settings

BAD: dict[str, tuple[str | bytes, int, str]] = {
    "empty": ("", 1, "is empty"),
    "only a comment": ("# nothing\n", 1, "is empty"),
    "a list": ("- id: x\n", 1, "names with values"),
    "a word": ("x\n", 1, "names with values"),
    "an open bracket": ("id: bad\nallowed_tools: [read\n", 3, "is not YAML"),
    "a tab": ("id: bad\nconfig:\n\tautonomy_mode: auto\n", 3, "is not YAML"),
    "two values in a line": ("id: bad: good\n", 1, "is not YAML"),
    "a name twice": ("id: bad\nrisk_tolerance: low\nrisk_tolerance: high\n", 3, "'risk_tolerance' twice"),
    "twice in config": ("config:\n  verbosity: quiet\n  verbosity: verbose\n", 3, "'verbosity' twice"),
    "in config and beside it": ("verbosity: quiet\nconfig:\n  verbosity: verbose\n", 3, "verbosity"),
    "an unknown name": ("id: bad\nmode: auto\n", 2, "unknown name 'mode'"),
    "a slip of the keys": ("alowed_tools: [read]\n", 1, "did you mean 'allowed_tools'"),
    "another id": ("id: good\n", 1, "has the id 'good'"),
    "a number as id": ("id: 7\n", 1, "has the id 7"),
    "no prompt": ("system_prompt:\n", 1, "system_prompt must have a value"),
    "an empty prompt": ('system_prompt: "  "\n', 1, "empty"),
    "a list as prompt": ("system_prompt: [a]\n", 1, "system_prompt: Expected a text"),
    "a prompt too long": ("system_prompt: " + "x" * 33_000 + "\n", 1, "length <= 32000"),
    "tools as a text": ("allowed_tools: read\n", 1, "a list"),
    "tools as nothing": ("id: bad\nallowed_tools:\n", 2, "must have a value"),
    "a truth value as a tool": ("allowed_tools:\n  - read\n  - yes\n", 3, "Expected a text"),
    "a tool misspelled": ("allowed_tools:\n  - read\n  - wrte\n", 3, "did you mean 'write'"),
    "an unknown autonomy": ("autonomy_mode: full\n", 1, "Invalid enum value 'full'"),
    "a truth value as autonomy": ("autonomy_mode: true\n", 1, "autonomy_mode: "),
    "an unknown risk": ("risk_tolerance: none\n", 1, "Invalid enum value 'none'"),
    "an unknown verbosity": ("verbosity: loud\n", 1, "Invalid enum value 'loud'"),
    "an unknown effort": ("effort: huge\n", 1, "Invalid enum value 'huge'"),
    "no steps": ("max_iterations: 0\n", 1, "whole number"),
    "steps below none": ("max_iterations: -3\n", 1, "whole number"),
    "endless steps": ("max_iterations: .inf\n", 1, "whole number"),
    "steps as a text": ('max_iterations: "10"\n', 1, "whole number"),
    "too many steps": ("max_iterations: 99999999999999999999\n", 1, "whole number"),
    "an alias": ("id: &a bad\nmodel: *a\n", 1, "alias"),
    "a bomb": ("a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n", 1, "alias"),
    "what would run": ("id: !!python/object/apply:os.system ['true']\n", 1, "has the tag"),
    "a second document": ("id: bad\n---\nid: bad\nautonomy_mode: auto\n", 2, "a second document"),
    "nested deeply": ("config: " + "[" * 5_000 + "]" * 5_000 + "\n", 1, "nested deeper"),
    "many values": ("allowed_tools: [" + "read," * 3_000 + "]\n", 1, "has more than"),
    "not UTF-8": (b"id: bad\nsystem_prompt: \xff\xfe\n", 2, "is not UTF-8"),
    "a control character": ("id: bad\nsystem_prompt: a\x00b\n", 2, "holds the character U+0000"),
    "too large": ("#" * 70_000, 1, "is larger than"),
}

BAD_MARKDOWN: dict[str, tuple[str, int, str]] = {
    "no front matter": ("You review.\n", 1, "front matter"),
    "an unknown limit": ("---\nname: bad\nallowedCommands: [git]\n---\nx\n", 3, "may be a limit"),
    "an unknown mode": (
        "---\nname: bad\npermissionMode: yolo\n---\nx\n",
        3,
        "Invalid enum value 'yolo'",
    ),
    "tools that are nothing": ('---\nname: bad\ntools: ""\n---\nx\n', 3, "tools: "),
    "a switch that is none": ("---\ntools:\n  bash: sometimes\n---\nx\n", 3, "true or false"),
    "broken YAML": ("---\nname: bad\ndescription: a: b\n---\nx\n", 3, "is not YAML"),
}


def problem(tmp_path: Path, own_profiles: Path) -> str:
    """What reading the profile `bad` says."""
    settings = load_settings({}, workspace=tmp_path, environment={"HOME": str(tmp_path / "home")})
    with pytest.raises(UsageError) as raised:
        profile_places(settings, tmp_path).read("bad")
    assert raised.value.exit_status == 2
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_a_line_with_its_place(name: str, tmp_path: Path, own_profiles: Path):
    content, line, reason = BAD[name]
    path = own_profiles / "bad.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    said = problem(tmp_path, own_profiles)
    assert said.startswith(f"{path}:{line}: "), said
    assert reason in said


@pytest.mark.parametrize("name", BAD_MARKDOWN)
def test_a_bad_agent_of_another_tool_too(name: str, tmp_path: Path, own_profiles: Path):
    content, line, reason = BAD_MARKDOWN[name]
    path = own_profiles / "bad.md"
    path.write_text(content)
    said = problem(tmp_path, own_profiles)
    assert said.startswith(f"{path}:{line}: "), said
    assert reason in said


def test_what_is_no_file_or_stands_there_twice_is_one_too(tmp_path: Path, own_profiles: Path):
    path = own_profiles / "bad.yaml"
    path.mkdir()
    said = problem(tmp_path, own_profiles)
    assert said.startswith(f"{path}:1: ") and "regular file" in said
    path.rmdir()
    path.symlink_to(tmp_path / "nowhere")
    assert "cannot be read" in problem(tmp_path, own_profiles)
    path.unlink()
    os.mkfifo(path)
    assert "regular file" in problem(tmp_path, own_profiles)
    path.unlink()
    for name in ("bad.yaml", "bad.md"):
        (own_profiles / name).write_text("---\nname: bad\n---\n")
    assert "bad.md" in problem(tmp_path, own_profiles)
