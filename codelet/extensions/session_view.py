"""Types for the parts of a session that extensions can use; not imported at run time.

`codelet.loop.session.Session` implements `SessionView`, which mypy checks where a session attaches its extensions. The
other protocols are parts of the session from layers above the extensions.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from codelet import events
from codelet.context import Compactor, Entry, Reminders
from codelet.conversation import Conversation, Messages
from codelet.messages import Message
from codelet.providers.facts import Circuit, ModelChange
from codelet.providers.protocol import Provider, Request
from codelet.safety import Policy
from codelet.safety.audit import AuditLog
from codelet.safety.sandbox import Sandbox
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Answer, Ask
from codelet.usage import Usage

LogLevel = Literal["debug", "info", "warning", "error"]

FindPassages = Callable[[str, int], Sequence[tuple[str, str]]]
"""Finds at most N passages for some words, the best first: the place and the text of each. Blocks; raises CodeletError.
"""


class SessionView(Protocol):
    """A session. `watch` gets each event, unmasked."""

    watch: Callable[[events.Event], object]

    @property
    def workspace(self) -> Path: ...
    @property
    def turns(self) -> int:
        """The number of prompts so far."""

    @property
    def messages(self) -> Messages: ...
    @property
    def conversation(self) -> Conversation:
        """The message list, and the records of its calls in `calls`. Read only."""

    @property
    def notices(self) -> events.Notices:
        """The notices for the user."""

    @property
    def extensions(self) -> Sequence[object]:
        """All extensions of the session, including this one."""

    @property
    def provider(self) -> Provider:
        """The current provider."""

    @property
    def policy(self) -> Policy: ...
    @property
    def toolbox(self) -> ToolboxView: ...
    @property
    def safeguards(self) -> SafeguardsView: ...
    @property
    def meter(self) -> MeterView: ...
    @property
    def compactor(self) -> Compactor: ...
    @property
    def entry(self) -> Entry: ...
    @property
    def reminders(self) -> Reminders: ...
    @property
    def upkeep(self) -> UpkeepView: ...
    @property
    def models(self) -> ModelsView: ...

    def report(self, event: events.Event) -> None:
        """Let the turn yield this event before its next one."""

    def mask(self, text: str) -> str:
        """Return the text without secrets."""

    def run_tool(self, name: str, arguments: dict[str, Any]) -> AsyncGenerator[events.Event, None]:
        """Run a tool call of the user's between turns."""


class ApprovalsView(Protocol):
    """The approvals of calls."""

    async def put(self, name: str, asks: str, shown: str, reason: str) -> bool:
        """Ask the user about something other than a call; True for a yes. `asks` names it in a few words."""

    def take_back(self, reason: str) -> None:
        """Forget the refusals for this reason, which no longer holds."""

    async def inquire(self, name: str, asks: str, options: tuple[str, ...]) -> Answer | None:
        """Ask the user a question with options; None without an answer. `reason` is the chosen option or text."""


class ToolboxView(Protocol):
    """The environment of the model's calls."""

    @property
    def ask(self) -> Ask | None:
        """The function that asks the user, or None."""

    @property
    def approvals(self) -> ApprovalsView: ...

    def permissions(self) -> str:
        """Return the model's line on what commands may do."""


class SafeguardsView(Protocol):
    """A session's safeguards besides its policy."""

    @property
    def hides(self) -> Masker: ...
    @property
    def sandbox(self) -> Sandbox | None: ...
    @property
    def audit(self) -> AuditLog | None: ...


class LimitsView(Protocol):
    """The user's limits; None is no limit. `max_cost` is in US dollars."""

    @property
    def max_turns(self) -> int | None: ...
    @property
    def max_cost(self) -> float | None: ...


class MeterView(Protocol):
    """The session's usage. `waited` is in seconds, `spent_cost` in US dollars."""

    @property
    def limits(self) -> LimitsView: ...
    @property
    def requests(self) -> int: ...
    @property
    def retries(self) -> int: ...
    @property
    def waited(self) -> float: ...
    @property
    def spent(self) -> Usage: ...
    @property
    def spent_cost(self) -> float | None: ...

    def limit_turns(self, most: int | None) -> None:
        """Allow at most `most` requests in a turn from now on."""

    def affords(self, output: int) -> bool:
        """Return whether the limits leave room for a request with this many output tokens."""

    def count_handoff(self, usage: Usage | None, written: int, *, prepared: bool) -> None:
        """Count a request for a handoff; `written` is an estimate of its output tokens."""


class UpkeepView(Protocol):
    """The builder of requests."""

    @property
    def system(self) -> str: ...

    def request(self, messages: Sequence[Message]) -> Request:
        """Return a request with these messages."""

    def instruct(self, system: str) -> None:
        """Replace the system prompt."""

    def offer_only(self, names: Collection[str] | None) -> None:
        """Offer only the tools with these names, or all again."""


class ModelsView(Protocol):
    """The models of a session, and their replacements."""

    @property
    def changes(self) -> Sequence[ModelChange]: ...

    def circuits(self) -> Iterable[Circuit]:
        """Yield the circuit breaker of each model whose last request failed."""


class ExtensionSettings(Protocol):
    """The settings that extensions read; implemented by `codelet.settings.Settings`."""

    @property
    def bare(self) -> bool: ...
    @property
    def checkers(self) -> tuple[Any, ...]: ...
    @property
    def environment(self) -> str: ...
    @property
    def export(self) -> str | None: ...
    @property
    def facts(self) -> str | None: ...
    @property
    def home(self) -> Path | None: ...
    @property
    def hooks(self) -> tuple[Any, ...]: ...
    @property
    def log(self) -> str | None: ...
    @property
    def log_level(self) -> LogLevel: ...
    @property
    def mcp(self) -> tuple[str, ...]: ...
    @property
    def mcp_direct(self) -> int: ...
    @property
    def mcp_servers(self) -> Mapping[str, Any] | None: ...
    @property
    def narrative(self) -> str: ...
    @property
    def own_folder(self) -> Path | None: ...
    @property
    def plan(self) -> bool: ...
    @property
    def profile(self) -> str | None: ...
    @property
    def skills(self) -> str: ...
    @property
    def tools(self) -> Sequence[str] | None: ...
    @property
    def trusted(self) -> bool: ...
    @property
    def web(self) -> bool: ...

    def file_of(self, name: Literal["facts", "facts_model"]) -> Path | None:
        """Return the file that this setting names."""
