"""Commands that change the session: model, effort, mode, continue, redo, clear, exit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.errors import EXIT_DONE, CodeletError
from codelet.extensions.services import is_planning, plan_first
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.theme import THEMES
from codelet.providers import REPLAY_PREFIX
from codelet.providers.protocol import EFFORTS
from codelet.safety.verdict import MODES, mode_named
from codelet.system.text import one_line

PLAN_MODE = "plan"

if TYPE_CHECKING:
    from codelet.frontends.terminal.screen import Screen
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.loop.session import Session
    from codelet.providers.protocol import Provider
    from codelet.safety.sandbox import Confinement


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
        repl.screen.fail(f"/model takes one name: {one_line(argument, 60)} has more than one word")
        return
    try:
        provider = repl.open_model(argument, session.provider.effort)
    except CodeletError as error:
        repl.screen.fail(str(error))
        return
    before = session.provider
    session.models.switch(provider)
    await before.close()
    repl.screen.note(f"model: {session.provider.model} ({session.provider.name})")
    await _tell_doubts(repl.screen, session)
    await repl.warm_up()


async def _tell_doubts(screen: Screen, session: Session) -> None:
    """Report guessed facts of the model, and a similar known name."""
    from codelet.providers.choice.known import doubts, near_offered

    provider = session.provider
    if provider.origin.startswith(REPLAY_PREFIX):
        return
    if (near := await near_offered(provider.model)) is not None:
        screen.note(f"{provider.name} offers no {one_line(provider.model, 60)}; did you mean {one_line(near, 60)}?")
    window = session.models.limits.window
    if (words := await asyncio.to_thread(doubts, provider.model, local=provider.local, window=window)) is not None:
        screen.note(words)


async def list_models(screen: Screen, session: Session, argument: str) -> None:
    """List the current model and those available."""
    from codelet.providers.choice.known import usable_models
    from codelet.providers.facts import map_source

    if argument:
        screen.fail(f"/model {one_line(argument, 60)} needs the full REPL; --model NAME chooses one")
        return
    now = session.provider
    screen.note(f"{now.model}, by {now.name}" if now.model else "no model is chosen")
    for model in await usable_models():
        access = "it answers" if model.server else f"{model.key} is set"
        screen.text(f"  {one_line(model.name, 60)}  {model.vendor.name}, {access}")
    screen.note(f"codelet models lists windows, prices, effort, tools and images; {map_source()}")


async def switch_effort(repl: ReplControls, argument: str) -> None:
    """Show the effort, or set it; `default` leaves it to the model."""
    session = repl.session
    before = session.provider
    if not argument:
        repl.screen.note(_effort_told(before))
        return
    wanted = next((effort for effort in EFFORTS if effort == argument.lower()), None)
    if wanted is None and argument.lower() != "default":
        repl.screen.fail(f"there is no effort {one_line(argument, 60)}; the efforts are {', '.join(EFFORTS)}, default")
        return
    if before.origin.startswith(REPLAY_PREFIX):
        repl.screen.fail("a recording answers as recorded: there is no model to ask for an effort")
        return
    if wanted == before.effort:
        repl.screen.note(_effort_told(before))
        return
    try:
        provider = repl.open_model(before.model, wanted)
    except CodeletError as error:
        repl.screen.fail(str(error))
        return
    if session.cache.total > 0 and session.messages:
        back = f"/effort {before.effort or 'default'} before that keeps the cache"
        repl.screen.note(f"the next request may send about {session.size:,} tokens again without the cache; {back}")
    session.models.change_effort(provider)
    await before.close()
    repl.screen.note(_effort_told(provider))
    if (chosen := session.models.stands_in_for) is not None:
        own = chosen.effort or "model default"
        repl.screen.note(f"{one_line(provider.model, 60)} answers for {chosen.model}, whose effort is still: {own}")
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
    if argument == PLAN_MODE:
        if _begin_planning(session):
            screen.note(f"mode {PLAN_MODE}: nothing changes until you approve a plan; Shift-Tab ends it")
        else:
            screen.fail("this session has no plans")
        return
    wanted = mode_named(argument)
    if argument and wanted is None:
        screen.fail(f"there is no mode {argument}; the modes are {', '.join(MODES)}, {PLAN_MODE}")
        return
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
        repl.screen.fail(f"there is no theme {one_line(argument, 60)}; the themes are {', '.join(THEMES)}")
        return
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
    repl.screen.note(f"again: {one_line(repl.session.mask(prompt), 60)}{unpinned}")
    await repl.turn(repl.session.send(prompt))


async def clear(repl: ReplControls, argument: str) -> None:
    """Begin a new conversation; the old one is kept as a fork."""
    from codelet.frontends.terminal.slash_commands.export_import import leave_conversation

    left = await leave_conversation(repl)
    repl.session.clear()
    repl.rewound.replaced(0)
    repl.can_resume = False
    repl.attached.clear()
    repl.screen.forget()
    back = f" {repl.screen.signs.dot} /fork {left} brings it back" if left is not None else ""
    repl.screen.note(f"conversation cleared{back}")


async def leave(repl: ReplControls, argument: str) -> None:
    """Leave codelet."""
    repl.exit_status = EXIT_DONE
