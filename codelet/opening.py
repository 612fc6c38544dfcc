"""From settings to a session: what every front end and the Python API need first.

What stands in an export is imported only where one is resumed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.context import CompactionOptions, Piped
from codelet.errors import UsageError
from codelet.events import Event
from codelet.extensions.base import Extension
from codelet.extensions.builtin import turned_on
from codelet.loop.meter import Limits
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.providers import open_provider
from codelet.providers.protocol import Deadlines, Provider, ProviderOptions, Retries
from codelet.safety import Policy
from codelet.safety.sandbox import Sandbox
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Ask
from codelet.settings import Settings
from codelet.system.text import valid_unicode
from codelet.tools import select_tools

if TYPE_CHECKING:
    from codelet.export.live import Resumed


def current_folder() -> Path:
    """The workspace: the folder codelet was started in."""
    try:
        return Path.cwd()
    except OSError:
        raise UsageError("the current folder does not exist any more; cd into one that does") from None


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
        retries=Retries(attempts=settings.retries + 1),
        vendors=settings.vendors,
    )
    return open_provider(model, options, settings.transport)


async def session_from(
    settings: Settings,
    workspace: Path | None = None,
    *,
    ask: Ask | None = None,
    extensions: Sequence[Extension] = (),
    masker: Masker | None = None,
) -> tuple[Session, Resumed | None]:
    """The session that the settings ask for, and what it goes on with where they say so.

    Without a `workspace` it works in the current folder, without `ask` nobody can be asked, without a `masker` the
    secrets are those that the process began with. Whoever opens it closes it.
    Raises UsageError for what is wrong in the settings, and ProviderError where a server had to be asked and fails.
    """
    folder = workspace or current_folder()
    resumed = None if settings.resume is None else await _read(settings.resume, settings.export)
    provider = await _provider(settings, resumed)
    safeguards = _safeguards(settings, folder, masker)
    try:
        session = _new_session(settings, provider, folder, safeguards, ask, extensions)
        if resumed is not None:
            from codelet.export.recorder import restore

            restore(session, resumed.snapshot)
    except BaseException:
        if safeguards.audit is not None:
            safeguards.audit.close()
        raise
    return session, resumed


def turn_of(session: Session, text: str, piped: Piped | None = None) -> AsyncGenerator[Event, None]:
    """The turn that a prompt asks for: `continue` takes an unfinished one up again."""
    going_on = piped is None and text.strip().lower() == "continue" and unfinished(session)
    return session.resume() if going_on else session.send(text, piped)


def unfinished(session: Session) -> bool:
    """Whether the last turn did not come to its end, so that `continue` has something to take up."""
    return session.interruption is not None or session.conversation.is_open


async def _read(resume: str, export: str | None) -> Resumed | None:
    """What `--resume` names. Nothing where `--export` names the same and there is nothing yet: it begins there."""
    import asyncio
    import time

    from codelet.export.live import read_export, same_target
    from codelet.export.snapshot import pruned
    from codelet.export.store_target import open_target

    if export is not None:
        target = open_target(resume)
        if same_target(target, open_target(export)):
            found = await asyncio.to_thread(target.store.revision, target.name)
            if found is None:
                return None
    resumed = await read_export(resume)
    return resumed.replace(snapshot=pruned(resumed.snapshot, time.time()))


async def _provider(settings: Settings, resumed: Resumed | None) -> Provider:
    """The provider of the model that was named, else of the session that is resumed, else what is there."""
    model = resumed.snapshot.model if resumed is not None else None
    if model is None or "model" in settings.given:
        model = settings.model
        if model is None:
            from codelet.providers.choose import choose_model

            model = await choose_model(settings.api_base, settings.api_key, own=settings.vendors)
        return provider_named(model, settings)
    try:
        return provider_named(model, settings)
    except UsageError as error:
        raise UsageError(f"{error}; the session was saved with this model, --model names another") from None


def _new_session(
    settings: Settings,
    provider: Provider,
    workspace: Path,
    safeguards: Safeguards,
    ask: Ask | None,
    extensions: Sequence[Extension],
) -> Session:
    return Session(
        provider,
        workspace=workspace,
        tools=None if settings.tools is None else select_tools(settings.tools),
        policy=Policy(workspace, settings.mode, settings.allow, settings.deny, settings.yes, ask=settings.ask),
        safeguards=safeguards,
        ask=ask,
        system_prompt=_system_prompt(settings),
        limits=Limits(**{name: getattr(settings, name) for name in Limits.fields}),  # called as the settings are
        bare=settings.bare,
        placement=settings.reminders,
        window=settings.window,
        budget=settings.budget,
        compaction=CompactionOptions(
            automatic=settings.compact == "auto",
            at=settings.compact_at,
            entries=settings.compact_entries,
            keep_last=settings.keep_last,
            shares=settings.shares,
        ),
        extensions=(*turned_on(settings), *extensions),
    )


def _safeguards(settings: Settings, workspace: Path, masker: Masker | None) -> Safeguards:
    """What guards the session beside the policy; opens the audit file where one is named."""
    audit = None
    if settings.audit is not None:
        from codelet.safety.audit.log import AuditLog

        audit = AuditLog(workspace / settings.audit)
    return Safeguards(
        masker=Masker({}) if settings.raw else masker,
        ask_timeout=settings.ask_timeout,
        audit=audit,
        sandbox=Sandbox(workspace, settings.sandbox, network=settings.sandbox_network),
    )


def _system_prompt(settings: Settings) -> str:
    text = prompt.SYSTEM if settings.system_prompt is None else settings.system_prompt
    more = settings.append_system_prompt
    return valid_unicode(f"{text}\n\n{more}" if more else text)
