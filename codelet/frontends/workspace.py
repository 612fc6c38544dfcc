"""From Settings to a Session in the current folder: what every front end needs first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.calls import Safeguards
from codelet.context import CompactionOptions
from codelet.errors import UsageError
from codelet.meter import Limits
from codelet.policy import Policy
from codelet.policy.secrets import Masker
from codelet.policy.verdict import Ask
from codelet.providers import open_provider
from codelet.providers.base import Deadlines, Provider, ProviderOptions, Retries
from codelet.sandbox import Sandbox
from codelet.session import Session
from codelet.settings import Settings
from codelet.text import valid_unicode
from codelet.tools import select_tools

if TYPE_CHECKING:
    from codelet.frontends.exporting import Exporting


def current_folder() -> Path:
    """The workspace: the folder codelet was started in."""
    try:
        return Path.cwd()
    except OSError:
        raise UsageError("the current folder does not exist any more; cd into one that does") from None


async def provider_for(settings: Settings) -> Provider:
    """The provider that the settings name, or the one that this machine offers."""
    model = settings.model
    if model is None:
        from codelet.providers.choose import choose_model

        model = await choose_model(settings.api_base, settings.api_key, own=settings.vendors)
    return provider_named(model, settings)


def provider_named(model: str, settings: Settings) -> Provider:
    """The provider for this model, with everything else as the settings say."""
    options = ProviderOptions(
        api_base=settings.api_base,
        api_key=settings.api_key,
        deadlines=Deadlines(
            connect=settings.connect_timeout,
            first_token=settings.first_token_timeout,
            between_chunks=settings.chunk_timeout,
        ),
        vendors=settings.vendors,
        retries=Retries(attempts=settings.retries + 1),
    )
    return open_provider(model, options, settings.transport)


async def open_session(settings: Settings) -> tuple[Session, Exporting | None]:
    """The session that the settings ask for, and its export where they name one."""
    if settings.export is None and settings.snapshots is None and settings.resume is None:
        return session_for(settings, await provider_for(settings)), None
    from codelet.frontends.exporting import Exporting

    exporting = await Exporting.begin(settings)
    return exporting.session, exporting


def session_for(settings: Settings, provider: Provider, ask: Ask | None = None) -> Session:
    """A new session in the current folder; without `ask` nobody can be asked."""
    workspace = current_folder()
    tools = None if settings.tools is None else select_tools(settings.tools)
    return Session(
        provider,
        workspace=workspace,
        tools=tools,
        policy=Policy(workspace, settings.mode, settings.allow, settings.deny, settings.yes, ask=settings.ask),
        safeguards=_safeguards(settings, workspace),
        ask=ask,
        system_prompt=_system_prompt(settings),
        limits=Limits(settings.max_turns, settings.max_tokens, settings.max_cost, settings.timeout),
        bare=settings.bare,
        placement=settings.reminders,
        window=settings.window,
        budget=settings.budget,
        compaction=CompactionOptions(
            automatic=settings.compact == "auto",
            at=settings.compact_at,
            entries=settings.compact_entries,
            keep_last=settings.keep_last,
            narrative=settings.narrative,
            shares=settings.shares,
        ),
    )


def _safeguards(settings: Settings, workspace: Path) -> Safeguards:
    """What guards the session beside the policy; opens the audit file where one is named."""
    audit = None
    if settings.audit is not None:
        from codelet.policy.audit import AuditLog

        audit = AuditLog(workspace / settings.audit)
    return Safeguards(
        masker=Masker({}) if settings.raw else None,
        ask_timeout=settings.ask_timeout,
        audit=audit,
        sandbox=Sandbox(workspace, settings.sandbox, network=settings.sandbox_network),
    )


def _system_prompt(settings: Settings) -> str:
    text = prompt.SYSTEM if settings.system_prompt is None else settings.system_prompt
    more = settings.append_system_prompt
    return valid_unicode(f"{text}\n\n{more}" if more else text)
