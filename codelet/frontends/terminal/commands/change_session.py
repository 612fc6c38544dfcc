"""Commands that change the session: another model or mode, back, again, on, gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, CodeletError
from codelet.text import one_line

if TYPE_CHECKING:
    from codelet.frontends.terminal.repl import Repl


async def model(repl: Repl, argument: str) -> None:
    """Show the model, or open the provider of another one and go on with it."""
    session = repl.session
    if not argument:
        repl.note(f"{session.provider.model}, by {session.provider.name}; /model NAME goes on with another")
        return
    if len(argument.split()) > 1:
        repl.fail(f"/model takes one name: {one_line(argument, 60)} has more than one word")
        return
    try:
        provider = repl.open_model(argument)
    except CodeletError as error:
        repl.fail(str(error))
        return
    before = session.provider
    session.switch(provider)
    await before.close()
    repl.note(f"the model is now {session.provider.model}, by {session.provider.name}")
    await repl.warm_up()


async def mode(repl: Repl, argument: str) -> None:
    """Show the mode, or set it."""
    if argument and argument not in repl.modes:
        repl.fail(f"there is no mode {argument}; the modes are {', '.join(repl.modes)}")
        return
    if argument:
        repl.set_mode(argument)
    meanings = {
        "ask": "reading in the workspace is allowed, the rest asks",
        "auto-edit": "reading and editing in the workspace are allowed, the rest asks",
        "auto": "commands run too where there is a sandbox, what is critical asks",
        "read-only": "nothing is written",
    }
    current = repl.session.policy.mode
    repl.note(f"mode {current}: {meanings[current]}; Shift-Tab goes to the next")
    found = await repl.confinement()
    if found is not None and found.way:
        repl.note(f"commands run in {found.detail}")
    elif found is not None:
        repl.fail(f"no sandbox works here, commands are asked about: {found.detail}")


async def resume(repl: Repl, argument: str) -> None:
    """Take an interrupted or failed turn up again."""
    if not repl.can_resume:
        repl.note("there is nothing to continue: the last turn came to its end")
        return
    await repl.turn(repl.session.resume())


async def rewind(repl: Repl, argument: str) -> None:
    """Back to before the last prompt, which goes into the editor."""
    prompt = repl.session.rewind()
    if prompt is None:
        repl.note("there is nothing to go back to")
        return
    repl.can_resume = False
    repl.prefill = prompt
    repl.note("back before the last prompt; files stay as they are")


async def redo(repl: Repl, argument: str) -> None:
    """Rewind, and send the same prompt again."""
    prompt = repl.session.rewind()
    if prompt is None:
        repl.note("there is nothing to do again")
        return
    repl.note(f"again: {one_line(prompt, 60)}")
    await repl.turn(repl.session.send(prompt))


async def clear(repl: Repl, argument: str) -> None:
    """Forget the conversation."""
    repl.session.clear()
    repl.can_resume = False
    repl.attached.clear()
    repl.note("the conversation is forgotten; usage goes on counting")


async def leave(repl: Repl, argument: str) -> None:
    """Leave codelet."""
    repl.exit_status = EXIT_DONE
