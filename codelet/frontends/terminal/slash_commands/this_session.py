"""Commands about the session: status, tools, permissions, model, effort, mode, theme, continue, redo, exit."""

from __future__ import annotations

import asyncio
from textwrap import indent
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.context.tokens import estimate_text, percent_of
from codelet.errors import EXIT_DONE, CodeletError, UsageError
from codelet.extensions.services import is_planning, plan_first
from codelet.frontends.terminal.screen import Screen, styled
from codelet.frontends.terminal.show.numbers import money, plural, tokens
from codelet.frontends.terminal.show.style import ACCENT, QUIET, THEMES
from codelet.providers import REPLAY_PREFIX
from codelet.providers.protocol import EFFORTS
from codelet.safety.verdict import MODES, mode_named
from codelet.system.text import clean, first_sentence, one_line

if TYPE_CHECKING:
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.loop.session import Session
    from codelet.providers.protocol import Provider
    from codelet.safety.sandbox import Confinement


_ROWS = 40
_NAME_COLUMNS = 8


async def status(screen: Screen, session: Session, argument: str) -> None:
    """Show model, mode, context, token usage and cost."""
    from codelet.frontends.terminal.show.console import wrap

    used, budget, policy = session.usage, session.window.budget.limit, session.policy
    share = f" ({used.cache_share:.0%})" if used.cache_share else ""
    cached = f", {tokens(used.cache_read)} from the cache{share}" if used.cache_read else ""
    written = f", {tokens(used.cache_write)} written to it" if used.cache_write else ""
    effort = f", effort {session.provider.effort}" if session.provider.effort else ""
    thought = f", {tokens(used.reasoning)} of it reasoning" if used.reasoning else ""
    rows = [
        ("model", f"{session.provider.model}{effort}"),
        ("mode", f"{policy.mode} --yes" if policy.yes else policy.mode),
        ("folder", str(session.workspace)),
        ("context", f"{tokens(session.size)} of {tokens(budget)} tokens, {percent_of(session.size, budget)}%"),
        ("used", f"{plural(session.turns, 'turn')}, {tokens(used.total_input)} tokens in{cached}{written}"),
        ("", f"{tokens(used.output)} tokens out{thought}"),
        ("cost", _cost(session)),
    ]
    if session.meter.dropped:
        rows.append(("dropped", f"{plural(session.meter.dropped, 'block')} of earlier reasoning, by the server"))
    for name, value in rows:
        first, *more = wrap(styled(clean(value)), max(screen.width - 11, 20))
        screen.say(styled((f"  {name:<9}", ACCENT)) + first, *(styled(" " * 11) + row for row in more))
    if session.turns and "stats" in session.commands:
        screen.say(styled())
        screen.text(indent(await session.run_command("stats"), "  "))


def _cost(session: Session) -> str:
    if session.meter.cost:
        return f"{money(session.meter.cost)} by list price"
    if session.models.facts.free:
        return "free (local model)"
    if not session.usage.total:
        return "none yet"
    unknown = session.meter.cost is None or session.models.facts.prices is None
    return "unknown: no price for this model, or no usage reported" if unknown else "none yet"


async def tools(screen: Screen, session: Session, argument: str) -> None:
    """List the tools, their effect ("asks" if it depends on the call), and their descriptions."""
    every = session.toolbox.tools.values()
    columns = max(_NAME_COLUMNS, *(len(tool.name) for tool in every), 0)
    for tool in every:
        touches = tool.touched({})
        kinds = {touch.kind for touch in touches or ()}
        effect = "execute" if "run" in kinds else "write" if "write" in kinds else "read" if kinds else "memory"
        size = tokens(estimate_text(str(tool.schema())))
        about = f"{effect if touches is not None else 'asks':<8} {size:>5} tokens  "
        first = one_line(first_sentence(tool.description), screen.width)
        screen.say(screen.truncate(styled((f"  {tool.name:<{columns}} ", ACCENT), (about, QUIET), first)))


async def permissions(screen: Screen, session: Session, argument: str) -> None:
    """Show mode, rules, and decisions of this session."""
    policy = session.policy
    lines = [styled("  mode   ", (policy.mode, ACCENT))]
    for action, rules in policy.rules.items():
        lines.extend(styled(f"  {action:<6} ", (clean(rule), ACCENT)) for rule in rules)
    if len(lines) == 1:
        lines.append(styled(("  no rules; the answer a to a question makes one for this session", QUIET)))
    history = list(session.toolbox.approvals.history)[-_ROWS:]
    screen.say(*lines, *([styled("")] if history else []))
    for decision in history:
        about, reason = one_line(decision.about, screen.width), one_line(decision.reason, screen.width)
        row = styled((f"  {decision.outcome:<14} ", ACCENT), about, (f"  {reason}" if reason else "", QUIET))
        screen.say(screen.truncate(row))


PLAN_MODE = "plan"


async def switch_model(repl: ReplControls, argument: str) -> None:
    """Switch to a model that is named or picked."""
    session = repl.session
    try:
        argument = argument or await repl.pick_model() or ""
    except CodeletError as error:  # the server of --api-base lists none
        repl.screen.fail(str(error))
    if not argument:
        from codelet.providers.facts import map_source

        repl.screen.note(f"model: {session.provider.model} ({session.provider.name}); /model NAME switches")
        repl.screen.note(map_source())
        return
    if len(argument.split()) > 1:
        raise UsageError(f"/model takes one name: {one_line(argument, 60)} has more than one word")
    provider = repl.open_model(argument, session.provider.effort)
    before = session.provider
    session.models.switch(provider)
    await before.close()
    repl.screen.note(f"model: {session.provider.model} ({session.provider.name})")
    await _tell_doubts(repl.screen, session)
    await repl.warm_up()


async def _tell_doubts(screen: Screen, session: Session) -> None:
    """Report guessed facts of the model."""
    from codelet.providers.choice.known import doubts

    provider = session.provider
    if provider.origin.startswith(REPLAY_PREFIX):
        return
    window = session.models.limits.window
    if (words := await asyncio.to_thread(doubts, provider.model, local=provider.local, window=window)) is not None:
        screen.note(words)


async def switch_effort(repl: ReplControls, argument: str) -> None:
    """Show the effort, or set it; `default` leaves it to the model."""
    session = repl.session
    before = session.provider
    wanted = next((effort for effort in EFFORTS if effort == argument.lower()), None)
    if not argument or (wanted == before.effort and (wanted is not None or argument.lower() == "default")):
        repl.screen.note(_effort_told(before))
        return
    if wanted is None and argument.lower() != "default":
        raise UsageError(f"there is no effort {one_line(argument, 60)}; the efforts are {', '.join(EFFORTS)}, default")
    if before.origin.startswith(REPLAY_PREFIX):
        raise UsageError("a recording answers as recorded: there is no model to ask for an effort")
    provider = repl.open_model(before.model, wanted)
    if session.meter.requests > 0 and session.messages:
        back = f"/model effort {before.effort or 'default'} before that keeps the cache"
        repl.screen.note(f"the next request may send about {session.size:,} tokens again without the cache; {back}")
    session.models.change_effort(provider)
    await before.close()
    repl.screen.note(_effort_told(provider))
    await repl.warm_up()


def _effort_told(provider: Provider) -> str:
    """The effort and the levels that the model has, if known."""
    from codelet.providers.effort import taken_words
    from codelet.providers.facts import model_facts

    words = taken_words(provider.model)
    own = model_facts(provider.model).default_effort
    now, model = provider.effort or f"model default{f' ({own})' if own else ''}", one_line(provider.model, 60)
    if words is None:
        return f"effort: {now}; which levels {model} has is not known"
    return f"effort: {now}; {model} has {', '.join(words) or 'no effort setting'}"


def next_mode(session: Session) -> None:
    """Go to the next mode, as Shift-Tab does: those of the policy, then plan mode."""
    place = MODES.index(session.policy.mode)
    if is_planning(session):
        plan_first(session, False)
        session.policy.mode = MODES[0]
    elif place + 1 < len(MODES) or not _begin_planning(session):
        session.policy.mode = MODES[(place + 1) % len(MODES)]


def _begin_planning(session: Session) -> bool:
    if not plan_first(session, True):
        return False
    if session.policy.mode == "read-only":
        session.policy.mode = MODES[0]
    return True


async def switch_mode(screen: Screen, session: Session, argument: str) -> None:
    """Show the mode, or set it."""
    if argument == PLAN_MODE and not _begin_planning(session):
        raise UsageError("this session has no plans")
    if argument == PLAN_MODE or (not argument and is_planning(session)):
        screen.note(f"mode {PLAN_MODE}: nothing changes until you approve a plan; Shift-Tab ends it")
        return
    wanted = mode_named(argument)
    if argument and wanted is None:
        raise UsageError(f"there is no mode {argument}; the modes are {', '.join(MODES)}, {PLAN_MODE}")
    if wanted is not None:
        plan_first(session, False)
        session.policy.mode = wanted
    current = session.policy.mode
    screen.note(f"mode {current}: {_MODES[current]}; Shift-Tab goes to the next")
    found = await confinement(session)
    if found is not None and found.way:
        which = "commands run" if current == "auto" else "read-only commands run"
        screen.note(f"{which} in {found.detail}")
    elif found is not None:
        screen.fail(prompt.NO_SANDBOX.format(detail=found.detail))


_MODES = {
    "ask": "reading is allowed, read-only commands run sandboxed, everything else asks",
    "auto-edit": "reading and editing in the workspace are allowed, everything else asks",
    "auto": "commands run sandboxed, dangerous ones ask",
    "read-only": "nothing is written",
}


async def confinement(session: Session) -> Confinement | None:
    """Return what confines commands in this mode; None without a sandbox."""
    sandbox = session.safeguards.sandbox
    return await sandbox.look() if sandbox is not None and sandbox.wanted else None


async def switch_theme(repl: ReplControls, argument: str) -> None:
    """Show the theme, or set it."""
    wanted = next((theme for theme in THEMES if theme == argument.lower()), None)
    if argument and wanted is None:
        raise UsageError(f"there is no theme {one_line(argument, 60)}; the themes are {', '.join(THEMES)}")
    if wanted is not None:
        repl.set_theme(wanted)
    repl.screen.note(f"the theme is {repl.theme}; there are {', '.join(THEMES)}")


async def continue_turn(repl: ReplControls, argument: str) -> None:
    """Resume an interrupted or failed turn."""
    if not repl.can_resume:
        repl.screen.note("nothing to continue: the last turn is complete")
        return
    await repl.turn(repl.session.resume())


async def redo(repl: ReplControls, argument: str) -> None:
    """Rewind, and send the same prompt again."""
    point = repl.session.conversation.latest
    pinned = 0 if point is None else len(repl.session.compactor.pinned_outside(point.parts.body))
    prompt = repl.session.rewind(unpin=True)
    if prompt is None:
        repl.screen.note("there is no prompt to send again")
        return
    unpinned = f" ({plural(pinned, 'pinned message')} went, too)" if pinned else ""
    repl.screen.note(f"again: {one_line(repl.session.mask(repl.words_of(prompt)), 60)}{unpinned}")
    await repl.turn(repl.session.send(prompt))


async def leave(repl: ReplControls, argument: str) -> None:
    """Leave codelet."""
    repl.exit_status = EXIT_DONE
