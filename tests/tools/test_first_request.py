"""What every request begins with, the system prompt and the tools, as a text that a person approves.

`CODELET_WRITE_GOLDEN=1` writes the file again, for a person to read the difference.
"""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

from codelet import prompt
from codelet.extensions.services import asking
from codelet.loop.session import Session
from codelet.tools.tool import Tool
from scripts.bench.prompt_size import tokens
from tests.context.scripted import ScriptedProvider

APPROVED = Path(__file__).with_name("first_request.txt")
MOST_TOKENS = 2_200


def test_the_words_of_the_first_request_are_the_approved_ones(tmp_path: Path) -> None:
    tools = _offered(tmp_path)
    text = "\n\n\n".join([prompt.SYSTEM, *(in_words(each.schema()["function"]) for each in tools)]) + "\n"
    if os.environ.get("CODELET_WRITE_GOLDEN"):
        APPROVED.write_text(text)
    assert text == APPROVED.read_text()


def test_the_first_request_is_small(tmp_path: Path) -> None:
    tools = _offered(tmp_path)
    assert tokens(prompt.SYSTEM) + tokens(json.dumps([each.schema() for each in tools])) <= MOST_TOKENS
    assert "required" not in tools[-2].parameters, "an empty list of what is required is left out"


def _offered(folder: Path) -> list[Tool]:
    """The tools of a session, with the one that only the terminal and editors add."""
    return list(Session(ScriptedProvider(), workspace=folder, extensions=[asking()]).toolbox.tools.values())


def in_words(tool: dict[str, Any]) -> str:
    """A tool as a page: its name, its description, each argument with its type."""
    return "\n".join([f"# {tool['name']}", *wrapped(tool["description"], ""), *arguments_of(tool["parameters"], "- ")])


def arguments_of(schema: dict[str, Any], sign: str) -> list[str]:
    rows = []
    for name, part in schema["properties"].items():
        needed = " (required)" if name in schema.get("required", ()) else ""
        rows += wrapped(f"{sign}{name}: {part['type']}{needed}. {part['description']}", " " * len(sign))
        if "items" in part and part["items"]["type"] == "object":
            rows += arguments_of(part["items"], f"  {sign}")
    return rows


def wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
