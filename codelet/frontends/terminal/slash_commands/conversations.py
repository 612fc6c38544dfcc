"""Commands that save, fork and leave conversations: export, resume, fork, clear, copy, btw, init."""

from __future__ import annotations

import base64
import os
import shlex
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.errors import LimitReached, UsageError
from codelet.events import Event, Note, Text
from codelet.frontends.terminal.show.numbers import plural, tokens
from codelet.loop.reply import Reply
from codelet.messages import kind_of, text_of, user
from codelet.providers.protocol import RetryChunk, TextChunk, ToolCallChunk
from codelet.safety.rules import parse_rule
from codelet.safety.secrets import masked
from codelet.system.text import clean, one_line
from codelet.system.text.typed import whole_number

if TYPE_CHECKING:
    from codelet.export.document import Document
    from codelet.frontends.terminal.slash_commands.slash_command import ReplControls
    from codelet.loop.session import Session

_FORCE = "--force"
_MOST_COPIED = 74_000
"""Bytes of text that terminals take into the clipboard in one sequence."""
_INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")


async def clear(repl: ReplControls, argument: str) -> None:
    """Begin a new conversation; the old one is kept as a fork."""
    left = await _leave(repl)
    repl.session.clear()
    repl.rewound.went_to(0)
    repl.can_resume = False
    repl.attached.clear()
    repl.screen.forget()
    back = f" · /fork {left} brings it back" if left is not None else ""
    repl.screen.note(f"conversation cleared{back}")


async def export_session(repl: ReplControls, argument: str) -> None:
    """Save the session to a file, or as a page if the name ends in .html."""
    from codelet.export.live import export_once

    words = argument.split()
    if unknown := [word for word in words if word.startswith("-") and word != _FORCE]:
        raise UsageError(f"/export takes a file's name and {_FORCE}; there is no {one_line(unknown[0], 60)}")
    name = os.path.expanduser(" ".join(word for word in words if word != _FORCE))
    if not name and repl.log.saves and (place := repl.log.export.place) is not None:
        repl.screen.note(f"the session is saved in {place} after every step")
        return
    if not name:
        repl.screen.note("name the file; .html makes a page to read")
        repl.prefill = time.strftime("/export ~/codelet-%Y%m%d-%H%M%S.json")
        return
    where, notices = await export_once(name, await repl.log.snapshot(), raw=repl.log.raw, force=_FORCE in words)
    repl.log.exported = repl.session.turns
    for notice in notices:
        repl.screen.note(notice)
    saved = f"saved in {where}; codelet --resume {shlex.quote(where)} continues from here"
    repl.screen.note(f"the page is in {where}" if where.endswith(".html") else saved)


async def import_session(repl: ReplControls, argument: str) -> None:
    """Continue a saved session instead of this one."""
    from codelet.export.document import pruned
    from codelet.export.live import read_export
    from codelet.frontends.exporting import resumed_note

    if not argument or os.path.isdir(os.path.expanduser(argument)):
        raise UsageError("name a saved session: /resume FILE; !codelet sessions list FOLDER shows those in a folder")
    resumed = await read_export(os.path.expanduser(argument))
    left = await _replace(repl, pruned(resumed.snapshot, time.time()))
    repl.rewound.went_to(0)
    await repl.show_resumed(resumed_note(repl.session, resumed.target.shown))
    if resumed.conversion:
        repl.screen.note(resumed.conversion)
    if left is not None:
        repl.screen.note(f"what was here is fork {left}; /fork {left} returns to it")


async def _replace(repl: ReplControls, snapshot: Document) -> int | None:
    """Continue with a snapshot; return the fork that has the conversation so far, None if it was empty."""
    from codelet.export.recorder import restore
    from codelet.opening import unfinished

    left = await _leave(repl)
    restore(repl.session, snapshot)
    repl.log.export.carry(snapshot)
    repl.can_resume = unfinished(repl.session)
    repl.attached.clear()
    return left


async def _leave(repl: ReplControls) -> int | None:
    """Save the conversation as a fork; return its number, None if it is empty."""
    current, repl.forks.current = repl.forks.current, None
    if not repl.session.conversation.body:
        return None
    return repl.forks.keep(await repl.log.snapshot(archive=True), current)


async def copy(repl: ReplControls, argument: str) -> None:
    """Copy an answer to the terminal's clipboard: the last, or the N-th from the end."""
    answers = [
        text_of(each) for each in repl.session.messages if kind_of(each) == "assistant" and text_of(each).strip()
    ]
    number = whole_number(argument) or 0
    if argument and number < 1:
        repl.screen.fail(f"/copy takes a number, 1 for the last answer, not {one_line(argument, 60)}")
    elif not answers:
        repl.screen.note("there is no answer to copy yet")
    elif number > len(answers):
        repl.screen.fail(f"there is no answer {argument} to copy, only {plural(len(answers), 'answer')} so far")
    else:
        text = clean(repl.session.mask(answers[-(number or 1)].strip()))
        data = text.encode()
        if len(data) > _MOST_COPIED:
            raise UsageError(f"the answer has {len(data):,} bytes, more than terminals take ({_MOST_COPIED:,})")
        sys.stdout.write(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07")
        sys.stdout.flush()
        repl.screen.note(f"{len(text):,} characters sent to the terminal's clipboard, if it takes them (OSC 52)")


async def by_the_way(repl: ReplControls, argument: str) -> None:
    """Answer a side question from the conversation; neither enters it."""
    if not argument:
        raise UsageError("/btw takes a question; neither it nor the answer enters the conversation")
    session = repl.session
    repl.screen.note("side question, not added to the conversation:")
    if await repl.watch(masked(_answered(session, argument), session.toolbox.masker)) == "stopped":
        repl.screen.note("stopped; the conversation is unchanged")


async def _answered(session: Session, question: str) -> AsyncGenerator[Event, None]:
    """Stream the answer and count its cost. The request has the tools only for the cache."""
    asked = user(prompt.BY_THE_WAY.format(question=question))
    allowed = session.meter.beside()
    request = session.upkeep.request([*session.conversation.sent(), asked], max_output=allowed.output)
    reply, said, called = Reply(), False, False
    try:
        async with aclosing(session.provider.stream(request)) as chunks:
            async for chunk in chunks:
                reply.add(chunk)
                match chunk:
                    case TextChunk(text=text):
                        said = said or bool(text.strip())
                        yield Text(text)
                    case ToolCallChunk():
                        called = True
                    case RetryChunk():
                        session.meter.broke_off(reply)
                        session.meter.check()
        session.meter.count(reply.usage, reply.newly_written())
    except BaseException:
        session.meter.broke_off(reply)
        raise
    if reply.finish == "length":
        raise LimitReached(allowed.why_cut)
    if called:
        yield Note("the model tried to use a tool, which /btw does not allow: send a prompt")
    elif not said:
        yield Note("the model returned no text")


async def fork(repl: ReplControls, argument: str) -> None:
    """Save the conversation in memory and continue with a copy, or return to a saved one."""
    forks = repl.forks
    number = whole_number(argument) or 0
    if argument == "list":
        for each, kept in sorted(forks.kept.items()):
            here = " (current)" if each == forks.current else ""
            repl.screen.note(f"{each}  {_described(repl, kept)}{here}")
        if not forks.kept:
            repl.screen.note("there are no forks; /fork saves the conversation as one")
    elif argument and number not in forks.kept:
        known = ", ".join(map(str, sorted(forks.kept)))
        known = f"there are {known}" if known else "there are none; /fork makes one"
        raise UsageError(f"there is no fork {one_line(argument, 40)}: {known}")
    elif number and number == forks.current:
        repl.screen.note(f"this conversation is fork {number}")
    elif number:
        await _go_to(repl, number)
    elif not repl.session.conversation.body:
        repl.screen.note("the conversation is empty")
    else:
        number = forks.keep(await repl.log.snapshot(archive=True))
        repl.screen.note(f"kept as fork {number} (in memory); /fork {number} returns to it")


async def _go_to(repl: ReplControls, number: int) -> None:
    """Continue with a fork; the current conversation becomes one."""
    session, wanted = repl.session, repl.forks.kept[number]
    usage, cost, turns = session.meter.usage, session.meter.cost, session.turns
    left = await _replace(repl, wanted)
    session.meter.usage, session.meter.cost = usage, cost  # what was spent was spent
    session.turns = max(turns, session.turns)
    repl.forks.current = number
    was = f"; what was here is fork {left}" if left is not None else ""
    repl.screen.note(f"returned to fork {number}: {_described(repl, wanted)}{was}")
    if names := repl.rewound.went_to(wanted.token_usage["turns"]):
        repl.screen.note(f"restored since: {names}; the model learns this with your next prompt")


def _described(repl: ReplControls, snapshot: Document) -> str:
    """A saved conversation's time, size, first and last prompt."""
    said = [repl.words_of(text_of(message)) for message in snapshot.messages if kind_of(message) == "prompt"]
    ends = [f'"{one_line(repl.session.mask(each), 30)}"' for each in dict.fromkeys((*said[:1], *said[-1:]))]
    size = f"{plural(len(said), 'prompt')}, {tokens(snapshot.token_count)} tokens"
    return f"{time.strftime('%H:%M', time.localtime(snapshot.timestamp))}  {size}: {', '.join(ends) or 'no prompt'}"


async def init(repl: ReplControls, argument: str) -> None:
    """Have the model write the instruction file; the change is asked about in every mode."""
    session = repl.session
    policy = session.policy
    if policy.mode == "read-only":
        raise UsageError("/init writes a file, which mode read-only refuses; switch with /mode ask")
    there = [name for name in _INSTRUCTION_FILES if (session.workspace / name).is_file()]
    name = there[0] if there else _INSTRUCTION_FILES[0]
    before = policy.ask
    policy.ask = [*before, parse_rule(f"edit({name})")]
    try:
        task = prompt.INIT_AGAIN if there else prompt.INIT
        await repl.turn(session.send(task.format(name=name)))
    finally:
        policy.ask = before
