"""From settings to a session: the first step of every front end and of the Python API.

The parts that read exports are imported only to resume one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.context import Attached, CompactionOptions, Piped
from codelet.errors import CodeletError, SessionHeld, UsageError
from codelet.events import Event, Text, TurnEnd
from codelet.extensions.base import Extension, OpenedWith, end_extension
from codelet.extensions.manifest import OPTIONAL_TOOLS, SWITCHED_TOOLS, turned_on
from codelet.loop.meter import Limits
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.providers import REPLAY_PREFIX, open_provider
from codelet.providers.facts import facts_of
from codelet.providers.protocol import Deadlines, Provider, ProviderOptions, Retries
from codelet.safety import Policy
from codelet.safety.sandbox import Sandbox
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Ask
from codelet.settings import SETTINGS, Settings, current_folder
from codelet.system.text import valid_unicode
from codelet.tools import select_tools
from codelet.tools.tool import ToolContext, in_memory

if TYPE_CHECKING:
    from codelet.context.attachments import Person
    from codelet.export.live import Reserved, Resumed
    from codelet.extensions.services import Profile
    from codelet.loop.required_answer import RequiredAnswer
    from codelet.providers.choice.known import KnownModel


def provider_named(model: str, settings: Settings) -> Provider:
    """The provider for this model, with everything else as the settings say. Raises UsageError.

    One whose price is not known cannot be kept to `max_cost`; one on this machine costs nothing.
    """
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
        effort=settings.effort,
        debug_requests=settings.debug_requests,
    )
    provider = open_provider(settings.full_name(model), options, settings.transport)
    if settings.max_cost is not None and not settings.allow_unknown_cost:
        facts = facts_of(provider.model, local=provider.local)
        if not facts.free and facts.prices is None:
            from codelet.providers.choice.known import near_model  # for unknown models only

            near = near_model(provider.model, settings.vendors)
            meant = f" (did you mean {near}?)" if near else ""
            told = f"the price of {provider.model} is not known{meant}, so --max-cost cannot hold"
            raise UsageError(f"{told}: name another --model, or continue without that limit with --allow-unknown-cost")
    if settings.record is None:
        return provider
    if provider.origin.startswith(REPLAY_PREFIX):
        raise UsageError(f"--record keeps what a live model answers: {provider.name} is none")
    from codelet.loop.recording import RecordingProvider  # only for who records

    return RecordingProvider(provider, settings.record)


async def reserved_for(
    settings: Settings, waiting: Callable[[SessionHeld], object] = lambda held: None
) -> Reserved | None:
    """Return what the settings say that a session continues with, and its place, locked; None if it is not kept.

    With `--wait` it waits for the lock; `waiting` is called when it begins to. Open the session and begin its
    export inside `async with`, which gives the lock up if that fails. Raises ExportError.
    """
    if not settings.keeps:
        return None
    from codelet.export.live import reserve

    return await reserve(settings.export, settings.resume, wait=settings.wait or 0.0, waiting=waiting)


async def session_from(
    settings: Settings,
    workspace: Path | None = None,
    *,
    ask: Ask | None = None,
    extensions: Sequence[Extension] = (),
    masker: Masker | None = None,
    needs_model: bool = True,
    reserved: Reserved | None = None,
) -> Session:
    """The session that the settings ask for, which continues with what is `reserved`. The caller closes it.

    Without a `workspace` it works in the current folder, without `ask` no one can be asked, without a `masker` the
    process's own secrets are masked. Unless it `needs_model`, it may get a `NoModel`. Raises CodeletError.
    """
    required = None
    if settings.json_schema is not None:
        if settings.plan:
            raise UsageError("--plan ends with the plan as its answer: --json-schema does not go with it")
        from codelet.loop.required_answer import required_answer  # only if there is a schema

        required = required_answer(settings.json_schema)
    folder = workspace or current_folder()
    resumed = None if reserved is None else reserved.resumed
    settings, profile = _with_profile(settings, folder, resumed)
    provider, refusal = await _provider(settings, resumed, profile, needs_model=needs_model)
    if settings.record is not None:
        from codelet.loop.recording import begin_recording

        begin_recording(settings.record, provider.model, force=settings.force)
    safeguards = _safeguards(settings, folder, masker)
    session, attached = None, list[Extension]()
    try:
        more = (*turned_on(_given(settings, profile, folder)), *_subagents(settings), *extensions)
        providers = [provider, *(_fallbacks(settings, provider) if settings.fallback_model and provider.model else ())]
        system = _system_prompt(settings, required)
        session = _new_session(settings, providers, folder, safeguards, ask, more, attached, system=system)
        _check_budget(session, settings)
        _check_rules(session, settings, knows_all=all(type(each).offered is Extension.offered for each in extensions))
        session.upkeep.required = required
        if resumed is not None:
            from codelet.export.recorder import restore

            restore(session, resumed.snapshot)
    except BaseException:
        await _close_opened(session, attached, provider, safeguards)
        raise
    for each in filter(None, (refusal, _doubts(provider, settings))):
        session.notices.say(each)
    return session


def _subagents(settings: Settings) -> list[Extension]:
    if not settings.agents:
        return []
    from codelet.loop.beside.subagents import Subagents

    return [Subagents(settings)]


def _check_budget(session: Session, settings: Settings) -> None:
    """Raise UsageError for a budget that not even the system prompt and the tools fit in."""
    least = session.upkeep.fixed_size
    if settings.budget is not None and settings.budget <= least:
        raise UsageError(f"--budget {settings.budget}: the system prompt and the tools alone take {least:,} tokens")


def _check_rules(session: Session, settings: Settings, *, knows_all: bool) -> None:
    """Raise UsageError for a rule that could never match.

    That is one with a path or a command for a tool that has neither, and one for a tool that no session has. With
    `knows_all` no extension can bring a tool later that is not known now.
    """
    if not (settings.allow or settings.ask or settings.deny):
        return
    from codelet.safety.rules import parse_rule
    from codelet.system.text.spelling import nearest
    from codelet.tools import all_tools
    from codelet.tools.other_agents import OTHER_TOOLS

    known = {tool.name for tool in (*session.toolbox.tools.values(), *all_tools())} | OPTIONAL_TOOLS | SWITCHED_TOOLS
    without = {tool.name for tool in session.toolbox.tools.values() if tool.touches in (None, in_memory)}
    for text in (*settings.allow, *settings.ask, *settings.deny):
        rule = parse_rule(text)
        if knows_all and rule.tool not in known and not rule.tool.startswith("mcp__"):
            near = OTHER_TOOLS.get(rule.tool) or nearest(rule.tool, sorted(known))
            meant = f"did you mean {near!r}?" if near else f"the tools are {', '.join(sorted(known))}"
            raise UsageError(f"bad rule {text!r}: there is no tool {rule.tool!r}; {meant}")
        if rule.body is not None and rule.tool in without:
            raise UsageError(f"bad rule {text!r}: {rule.tool} has no path and no command; write {rule.tool!r}")


async def _close_opened(
    session: Session | None, attached: Sequence[Extension], provider: Provider, safeguards: Safeguards
) -> None:
    """Close what an opening that failed has opened. What fails in doing so is not reported: the first error counts."""
    if session is not None:
        with suppress(Exception):
            await session.close()
    else:
        for each in reversed(attached):
            with suppress(CodeletError):
                await end_extension(each)
        with suppress(Exception):
            await provider.close()
    if safeguards.audit is not None:
        safeguards.audit.close()


def _fallbacks(settings: Settings, chosen: Provider) -> list[Provider]:
    """Return the fallback models. Raises UsageError if one cannot be opened.

    `--api-base` is the address of the chosen model, and of a fallback of the same vendor.
    """
    from codelet.providers.catalog import vendor_of

    found: list[Provider] = []
    for name in dict.fromkeys(settings.fallback_model):
        vendor = vendor_of(name, settings.vendors)
        elsewhere = vendor is not None and vendor != vendor_of(chosen.model, settings.vendors)
        own = settings.replace(api_base=None, api_key=None) if elsewhere and settings.api_base else settings
        try:
            found.append(provider_named(name, own))
        except UsageError as error:
            raise UsageError(f"--fallback-model {name}: {error}") from None
    return found


def _doubts(provider: Provider, settings: Settings) -> str | None:
    """Return what is guessed of the model, if it is one of a service that no list has; its name may be misspelt."""
    replayed = provider.origin.startswith(REPLAY_PREFIX)
    if provider.local or replayed or not provider.model or facts_of(provider.model, local=False).known:
        return None
    from codelet.providers.choice.known import doubts  # for unknown models only

    return doubts(provider.model, local=False, window=settings.window, own=settings.vendors)


async def mentioned(
    session: Session, text: str, *, person: Person | None, pasted: Mapping[str, bytes] | None = None
) -> Attached | None:
    """Return the attachments of a prompt's `@path`s; None if it names none. `person` is the user at a terminal, if
    any, `pasted` are images without a file. Raises UsageError for an image that cannot be sent.
    """
    if "@" not in text:
        return None
    from codelet.context.attachments import Mentions  # only for who names a file

    context = ToolContext(session.workspace, sees=lambda: session.models.facts.images is not False)
    mentions = Mentions(context, session.policy, session.mask, session.provider.model, person, pasted or {})
    attached = await mentions.attached(text)
    for each in attached.refused if attached is not None and person is None else ():
        about = f"read {each.path}"
        session.toolbox.approvals.refused.append(about)
        if each.denied:
            session.toolbox.approvals.denied[about] = each.reason
    return attached


def turn_of(
    session: Session, text: str, piped: Piped | None = None, attached: Attached | None = None
) -> AsyncGenerator[Event, None]:
    """The turn that a prompt asks for: `continue` takes an unfinished one up again."""
    going_on = piped is None and text.strip().lower() == "continue" and unfinished(session)
    turn = session.resume() if going_on else session.send(text, piped, attached)
    enders = [each for each in session.extensions if each.ends_answers]
    return _answered(session, turn, enders) if enders else turn


async def _answered(
    session: Session, turn: AsyncGenerator[Event, None], enders: Sequence[Extension]
) -> AsyncGenerator[Event, None]:
    """The turn with what extensions add to its answer."""
    async with aclosing(turn) as events:
        async for event in events:
            if isinstance(event, TurnEnd) and event.reason == "done":
                for told in filter(None, [each.answer() for each in enders]):
                    yield Text(f"\n\n{session.mask(told)}")
            yield event


async def models_to_choose(settings: Settings, now: str) -> list[KnownModel]:
    """Return the models that can be asked now; `now` is the present one. Raises UsageError and ProviderError if the
    server of `--api-base` lists no models.
    """
    from codelet.providers.choice.known import models_at, usable_models

    if settings.api_base is None:
        return await usable_models(settings.vendors)
    return await models_at(settings.api_base, settings.api_key, now, settings.vendors)


def unfinished(session: Session) -> bool:
    """Return whether the last turn was unfinished, so that `continue` can resume it."""
    return session.conversation.interruption is not None or session.conversation.is_open


def _with_profile(settings: Settings, folder: Path, resumed: Resumed | None) -> tuple[Settings, Profile | None]:
    """Return the settings with their effort and profile. The named profile wins over that of the resumed session;
    `none` means no profile. For the effort the order is: the command line, a named profile, the resumed session, its
    profile, the settings. Raises UsageError.
    """
    profile = _profile(settings, folder, resumed)
    if "effort" in settings.given:
        return settings, profile
    wanted = None if profile is None else profile.effort
    saved = None if resumed is None else resumed.snapshot.effort
    first, second = (wanted, saved) if settings.profile is not None else (saved, wanted)
    effort = first or second or settings.effort
    return (settings if effort == settings.effort else settings.replace(effort=effort)), profile


def _given(settings: Settings, profile: Profile | None, folder: Path) -> OpenedWith:
    """Return what extensions are opened with. Raises ExportError for earlier sessions that cannot be searched."""
    search = None
    if settings.memory is not None:
        import os

        from codelet.export.search import SessionSearch

        place, model = os.path.expanduser(settings.memory), settings.file_of("facts_model")
        search = SessionSearch(place, raw=settings.raw, model=model).find
    return OpenedWith(settings=settings, profile=profile, search=search, workspace=folder)


def _profile(settings: Settings, folder: Path, resumed: Resumed | None) -> Profile | None:
    saved = resumed.snapshot.profile if resumed is not None else None
    name = saved if settings.profile is None else settings.profile
    if name is None or settings.profile == "none":
        return None
    from codelet.extensions.services import profile_places  # only if a profile is named

    try:
        return profile_places(settings, folder).read(name)
    except UsageError as error:
        if settings.profile is not None:
            raise
        if resumed is not None and not resumed.snapshot.profile_held:
            return None  # nothing was taken from that session, so it gets nothing more; `restore` tells it
        hint = "the session was saved with this profile; --profile names another, or none"
        raise UsageError(f"{error}; {hint}") from None


async def _provider(
    settings: Settings, resumed: Resumed | None, profile: Profile | None, *, needs_model: bool
) -> tuple[Provider, str | None]:
    """The provider of the model that was named, else of the session that is resumed, else what is there; and a sentence
    for the user if the model of the resumed session may not be used.

    A profile's model comes before that of the settings, and where the profile was named, before the saved one too.
    """
    wanted = None if profile is None else profile.model
    model = resumed.snapshot.model if resumed is not None else None
    if wanted is not None and (model is None or settings.profile is not None):
        model = wanted
    if model is None or "model" in settings.given:
        return await _own_provider(settings, needs_model=needs_model), None
    whose = "the profile names" if model == wanted else "the session was saved with"
    refusal = None if model == settings.model else settings.refused_model(model)
    if refusal is not None and model == wanted:
        raise UsageError(f"the model of the profile is not used: {refusal}; --model names another")
    if refusal is not None:
        refusal = f"the saved session's model is not used: {refusal}"
        try:
            provider = await _own_provider(settings, needs_model=needs_model)
        except UsageError as error:
            raise UsageError(f"{refusal}. {error}") from None
        return provider, f"{refusal}; {provider.model or 'no model'} answers instead (--model names another)"
    try:
        return provider_named(model, settings), None
    except UsageError as error:
        raise UsageError(f"{error}; {whose} this model, --model names another") from None


async def _own_provider(settings: Settings, *, needs_model: bool) -> Provider:
    """The provider of the model that the settings name, else of what is there."""
    if settings.model is not None:
        return provider_named(settings.model, settings)
    from codelet.providers.choice.known import NoModel, choose_model

    try:
        model = await choose_model(settings.api_base, settings.api_key, own=settings.vendors)
    except UsageError as error:
        if needs_model:
            raise
        return NoModel(error)
    return provider_named(model, settings)


def _new_session(
    settings: Settings,
    providers: Sequence[Provider],
    workspace: Path,
    safeguards: Safeguards,
    ask: Ask | None,
    extensions: Sequence[Extension],
    attached: list[Extension],
    *,
    system: str,
) -> Session:
    return Session(
        providers[0],
        fallbacks=providers[1:],
        workspace=workspace,
        tools=None if settings.tools is None else select_tools(settings.tools),
        policy=Policy(
            workspace,
            settings.mode,
            settings.allow,
            settings.deny,
            settings.yes,
            ask=settings.ask,
            kept=_kept(settings, workspace),
        ),
        safeguards=safeguards,
        ask=ask,
        system_prompt=system,
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
        extensions=extensions,
        attached=attached,
    )


def _safeguards(settings: Settings, workspace: Path, masker: Masker | None) -> Safeguards:
    """Return the session's guards besides the policy; open the audit file if one is named."""
    audit = None
    if settings.audit is not None:
        from codelet.safety.audit import AuditLog

        audit = AuditLog(workspace / settings.audit)
    return Safeguards(
        masker=Masker({}) if settings.raw else masker,
        ask_timeout=settings.ask_timeout,
        audit=audit,
        sandbox=Sandbox(
            workspace,
            settings.sandbox,
            network=settings.sandbox_network,
            open_home=settings.sandbox_home == "open",
            seen=settings.sandbox_seen,
            kept=_kept(settings, workspace),
        ),
        resources={
            "memory": settings.command_memory,
            "processes": settings.command_processes,
            "file_size": settings.command_file_size,
        },
    )


def _kept(settings: Settings, workspace: Path) -> list[Path]:
    """The files that neither a tool nor a confined command may write: those that rows of the table say so of."""
    named = [getattr(settings, name) for name, row in SETTINGS.items() if row.kept]
    return [workspace / each for each in named if each is not None]


def _system_prompt(settings: Settings, required: RequiredAnswer | None) -> str:
    text = prompt.SYSTEM if settings.system_prompt is None else settings.system_prompt
    told = "" if required is None else required.instruction
    return valid_unicode("\n\n".join(part for part in (text, settings.append_system_prompt, told) if part))
