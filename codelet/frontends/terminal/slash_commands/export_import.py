"""Commands that save the session to a file, and continue one from a file."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import CodeletError
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.export.document import Document
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls

_FORCE = "--force"


async def export_session(repl: ReplControls, argument: str) -> None:
    """Save the session to a file, or as a page if the name ends in .html."""
    from codelet.export.live import export_once

    words = argument.split()
    if unknown := [word for word in words if word.startswith("-") and word != _FORCE]:
        repl.screen.fail(f"/export takes a file's name and {_FORCE}; there is no {one_line(unknown[0], 60)}")
        return
    name = _expanded(" ".join(word for word in words if word != _FORCE))
    live = repl.log.export
    if not name and live is not None and live.place is not None:
        repl.screen.note(f"the session is saved in {live.place} after every step")
        return
    if not name:
        repl.screen.note("name the file; .html makes a page to read")
        repl.prefill = time.strftime("/export ~/codelet-%Y%m%d-%H%M%S.json")
        return
    try:
        where, notices = await export_once(name, await snapshot_of(repl), raw=repl.log.raw, force=_FORCE in words)
    except CodeletError as error:
        repl.screen.fail(str(error))
        return
    repl.log.exported = repl.session.turns
    for notice in notices:
        repl.screen.note(notice)
    page = where.endswith(".html")
    repl.screen.note(
        f"the page is in {where}"
        if page
        else f"saved in {where}; codelet --resume {shlex.quote(where)} continues from here"
    )


async def import_session(repl: ReplControls, argument: str) -> None:
    """Continue a saved session instead of this one."""
    from codelet.export.document import pruned
    from codelet.export.live import read_export
    from codelet.frontends.exporting import resumed_note

    if not argument or Path(_expanded(argument)).is_dir():
        repl.screen.fail("name a saved session: /resume FILE; !codelet sessions list FOLDER shows those in a folder")
        return
    try:
        resumed = await read_export(_expanded(argument))
    except CodeletError as error:
        repl.screen.fail(str(error))
        return
    left = await leave_conversation(repl)
    take_up(repl, pruned(resumed.snapshot, time.time()))
    repl.rewound.replaced(0)
    await repl.show_resumed(resumed_note(repl.session, resumed.target.shown))
    if resumed.conversion:
        repl.screen.note(resumed.conversion)
    if left is not None:
        repl.screen.note(f"what was here is fork {left}; /fork {left} returns to it")


def take_up(repl: ReplControls, snapshot: Document) -> None:
    """Continue with a snapshot instead of the session's contents."""
    from codelet.export.recorder import restore
    from codelet.opening import unfinished

    restore(repl.session, snapshot)
    repl.log.replaced_by(snapshot)
    repl.can_resume = unfinished(repl.session)
    repl.attached.clear()


async def leave_conversation(repl: ReplControls) -> int | None:
    """Save the conversation as a fork; return its number, None if it is empty."""
    number = None
    if repl.session.conversation.body:
        number = repl.forks.leave(await snapshot_of(repl, archive=True))
    repl.forks.current = None
    return number


async def snapshot_of(repl: ReplControls, *, archive: bool = False) -> Document:
    """A snapshot of the session and its logged events; `archive` adds what compaction took out."""
    from codelet.export.live import environment_state
    from codelet.export.recorder import Recorder

    log = repl.log
    if not archive and log.export is not None and log.export.saves:
        return log.export.snapshot()
    times: list[float] = []
    recorder = Recorder(log.carried, archive=archive, clock=lambda: times[-1])
    for moment, event in log.logged():
        times.append(moment)
        recorder.see(event)
    times.append(time.time())
    if repl.session.turns:
        recorder.environment = await environment_state(repl.session.workspace)
    snapshot = recorder.snapshot(repl.session)
    for line in recorder.notices.take():
        repl.screen.note(line)
    return snapshot


def _expanded(name: str) -> str:
    """Expand ~."""
    return str(Path(name).expanduser()) if name.startswith("~") else name
