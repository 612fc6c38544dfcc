"""A session with extensions that stand outside the package, on a scripted provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from codelet.extensions.base import Extension
from codelet.loop.session import Session
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Said
from codelet.safety.verdict import Question
from codelet.tools import all_tools
from tests.context.scripted import ScriptedProvider

Open = Callable[..., tuple[Session, ScriptedProvider]]


@pytest.fixture
async def open_session(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens sessions in an empty folder or another one, closed with the test; without a policy all is allowed."""
    opened: list[Session] = []

    def begin(
        *extensions: Extension,
        provider: ScriptedProvider | None = None,
        workspace_at: Path | None = None,
        **options: Any,
    ) -> tuple[Session, ScriptedProvider]:
        chosen, folder = provider or ScriptedProvider(), workspace_at or tmp_path
        defaults = {"policy": Policy(folder, yes=True), "tools": all_tools(), "bare": True}
        opened.append(Session(chosen, workspace=folder, extensions=extensions, **(defaults | options)))
        return opened[-1], chosen

    yield begin
    for session in opened:
        await session.close()


class Person:
    """Answers every question alike, and keeps them."""

    def __init__(self, answer: Said) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Said:
        self.asked.append(question)
        return self.answer
