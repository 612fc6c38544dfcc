"""A session against the model server, in a repository."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.context.attachments import Person
from codelet.errors import CodeletError
from codelet.loop.session import Session
from codelet.messages import unpaired
from codelet.providers import open_provider
from codelet.providers.protocol import Deadlines, Provider, ProviderOptions, Retries
from codelet.safety import Policy
from tests.support.server import ModelServer

MakeSession = Callable[..., Session]


async def _yes(path: str, reason: str) -> bool:
    return True


TYPED = Person(typed=lambda at: True, confirm=_yes)
"""A user who typed the whole prompt, and confirms every file that they are asked about."""


def provider_of(server: ModelServer, wire: str = "openai", name: str = "scripted") -> Provider:
    base = server.anthropic if wire == "anthropic" else server.openai
    options = ProviderOptions(
        base, "test-key", Deadlines(connect=5, first_token=20, between_chunks=20), Retries(attempts=1)
    )
    return open_provider(f"{wire}/{name}", options)


@pytest.fixture
async def make_session(
    model_server: ModelServer, repo: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MakeSession]:
    """Makes sessions, which are closed with the test; every command and edit is allowed unless a policy is given."""
    monkeypatch.setenv("HOME", str(home))
    opened: list[Session] = []

    def make(wire: str = "openai", **options: Any) -> Session:
        options.setdefault("policy", Policy(repo, yes=True))
        opened.append(Session(provider_of(model_server, wire), workspace=repo, **options))
        return opened[-1]

    yield make
    for session in opened:
        await session.close()


async def turn(session: Session, prompt: str | None = "go") -> list[events.Event]:
    """All events of one turn, or of `resume` without a prompt; the list must be valid afterwards."""
    seen, error = await turn_until_error(session, prompt)
    assert error is None, error
    return seen


async def turn_until_error(
    session: Session, prompt: str | None = "go"
) -> tuple[list[events.Event], CodeletError | None]:
    seen: list[events.Event] = []
    failed: CodeletError | None = None
    try:
        async with aclosing(session.resume() if prompt is None else session.send(prompt)) as stream:
            async for event in stream:
                seen.append(event)
                assert unpaired(session.messages) == [], event
    except CodeletError as error:
        failed = error
    assert unpaired(session.messages) == []
    assert isinstance(seen[-1], events.TurnEnd)
    return seen, failed


def of_type(seen: Sequence[events.Event], kind: type[events.Event]) -> list[Any]:
    return [event for event in seen if isinstance(event, kind)]
