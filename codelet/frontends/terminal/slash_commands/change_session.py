"""Commands that change the session: model, mode, continue, rewind, redo, clear, exit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, CodeletError
from codelet.safety.verdict import MODES, mode_named
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls


async def switch_model(repl: ReplControls, argument: str) -> None:
    """Show the model, or open the provider of another one and go on with it."""
    session = repl.session
    if not argument:
        repl.screen.note(f"{session.provider.model}, by {session.provider.name}; /model NAME goes on with another")
        return
    if len(argument.split()) > 1:
        repl.screen.fail(f"/model takes one name: {one_line(argument, 60)} has more than one word")
        return
    try:
        provider = repl.open_model(argument)
    except CodeletError as error:
        repl.screen.fail(str(error))
        return
    before = session.provider
    session.switch(provider)
    await before.close()
    repl.screen.note(f"the model is now {session.provider.model}, by {session.provider.name}")
    await repl.warm_up()


async def switch_mode(repl: ReplControls, argument: str) -> None:
    """Show the mode, or set it."""
    wanted = mode_named(argument)
    if argument and wanted is None:
        repl.screen.fail(f"there is no mode {argument}; the modes are {', '.join(MODES)}")
        return
    if wanted is not None:
        repl.set_mode(wanted)
    meanings = {
        "ask": "reading in the workspace is allowed, the rest asks",
        "auto-edit": "reading and editing in the workspace are allowed, the rest asks",
        "auto": "commands run too where there is a sandbox, what is critical asks",
        "read-only": "nothing is written",
    }
    current = repl.session.policy.mode
    repl.screen.note(f"mode {current}: {meanings[current]}; Shift-Tab goes to the next")
    found = await repl.confinement()
    if found is not None and found.way:
        repl.screen.note(f"commands run in {found.detail}")
    elif found is not None:
        repl.screen.fail(f"no sandbox works here, commands are asked about: {found.detail}")


async def continue_turn(repl: ReplControls, argument: str) -> None:
    """Take an interrupted or failed turn up again."""
    if not repl.can_resume:
        repl.screen.note("there is nothing to continue: the last turn came to its end")
        return
    await repl.turn(repl.session.resume())


async def rewind(repl: ReplControls, argument: str) -> None:
    """Back to before the last prompt, which goes into the editor."""
    prompt = repl.session.rewind()
    if prompt is None:
        repl.screen.note("there is nothing to go back to")
        return
    repl.can_resume = False
    repl.prefill = prompt
    repl.screen.note("back before the last prompt; files stay as they are")


async def redo(repl: ReplControls, argument: str) -> None:
    """Rewind, and send the same prompt again."""
    prompt = repl.session.rewind()
    if prompt is None:
        repl.screen.note("there is nothing to do again")
        return
    repl.screen.note(f"again: {one_line(prompt, 60)}")
    await repl.turn(repl.session.send(prompt))


async def clear(repl: ReplControls, argument: str) -> None:
    """Forget the conversation."""
    repl.session.clear()
    repl.can_resume = False
    repl.attached.clear()
    repl.screen.note("the conversation is forgotten; usage goes on counting")


async def leave(repl: ReplControls, argument: str) -> None:
    """Leave codelet."""
    repl.exit_status = EXIT_DONE
