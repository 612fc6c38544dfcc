"""The REPL on a terminal that cannot move its cursor (TERM=dumb, as in an editor's shell buffer).

It reads whole lines, prints answers as they arrive and asks with a line. No one can know there whether a line was typed
or pasted, so `!`, `#` and `@path` do nothing, and only a line that arrives after a question was shown answers it.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from contextlib import aclosing
from textwrap import indent
from typing import TYPE_CHECKING

from codelet import events
from codelet.errors import EXIT_DONE, CodeletError
from codelet.frontends.command_prompt import run_command
from codelet.frontends.printing import TextOutput
from codelet.frontends.streams import say
from codelet.opening import turn_of
from codelet.safety.verdict import Answer, Question
from codelet.system.text import clean, one_line

if TYPE_CHECKING:
    from codelet.frontends.exporting import Exporting
    from codelet.loop.session import Session

_SIGN = "> "
_LEAVING = ("exit", "quit", "/exit", "/quit")
_INTRODUCTION = "plain terminal; Ctrl-C stops a turn, Ctrl-D leaves"
_ASKED = "allow? y, or n and a reason: "
_SIZE = 65_536


async def run_plain(session: Session, export: Exporting | None, first: str | None) -> int:
    """Read and answer until the user leaves; return the exit status. `first` is the prompt to begin with."""
    return await PlainRepl(session, export, first).run()


class PlainRepl:
    """Reads lines and answers them until the input ends."""

    def __init__(self, session: Session, export: Exporting | None, first: str | None) -> None:
        self._session = session
        self._export = export
        self._lines: list[str] = [first] if first else []
        self._partial = b""
        self._turn: asyncio.Task[None] | None = None
        session.toolbox.ask = self._ask

    async def run(self) -> int:
        """Read and answer until the user leaves; return the exit status."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        say(f"codelet: {_INTRODUCTION}")
        try:
            while (line := await self._next_line(_SIGN)) is not None and line not in _LEAVING:
                if line:
                    await self._evaluate(line)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        return EXIT_DONE

    async def _evaluate(self, line: str) -> None:
        self._turn = asyncio.create_task(self._answer(line))
        try:
            await asyncio.shield(self._turn)
        except asyncio.CancelledError:
            if not self._turn.cancelled():  # the program ends, not the turn alone
                self._turn.cancel()
                await asyncio.wait({self._turn})
                raise
        except CodeletError as error:
            say(f"codelet: {one_line(str(error), 1_000)}")
        finally:
            self._turn = None
            if self._export is not None:
                self._export.save()

    async def _answer(self, line: str) -> None:
        output = TextOutput(quiet=False)
        line = "continue" if line == "/continue" else line
        answer = await run_command(self._session, line) if line.startswith("/") else line
        turn = turn_of(self._session, answer) if isinstance(answer, str) else answer
        try:
            async with aclosing(turn):
                async for event in turn:
                    if self._export is not None:
                        self._export.see(event)
                    output.show(event)
                    if isinstance(event, events.Interrupted):
                        say("codelet: stopped; continue resumes")
        finally:
            output.busy("")
            output.end()

    async def _ask(self, question: Question) -> Answer:
        from codelet.frontends.terminal.question import reason_of, title_words

        sys.stdout.write(f"\n{title_words(question)}\n")
        if question.options is not None:
            sys.stdout.write("".join(f"  {option}\n" for option in map(clean, question.options)))
            return Answer(allow=True, reason=await self._fresh_line("answer: ") or "")
        why = reason_of(question)
        sys.stdout.write(f"{indent(clean(question.shown), '  ')}\n" + (f"why: {clean(why)}\n" if why else ""))
        said = (await self._fresh_line(_ASKED) or "n").strip()
        word, _, reason = said.partition(" ")
        if word.lower() in ("y", "yes"):
            return Answer(allow=True)
        return Answer(allow=False, reason=reason if word.lower() in ("n", "no") else said)

    async def _fresh_line(self, sign: str) -> str | None:
        """Return a line that arrives from now on: what was sent before a question was shown does not answer it."""
        while select.select([0], [], [], 0)[0] and (data := os.read(0, _SIZE)):
            self._take(data)
        waiting, self._lines = self._lines, []
        line = await self._next_line(sign)
        self._lines = waiting + self._lines
        return line

    async def _next_line(self, sign: str) -> str | None:
        """Return the next line; None at the end of the input."""
        loop = asyncio.get_running_loop()
        sys.stdout.write(sign)
        sys.stdout.flush()
        while not self._lines:
            ready = asyncio.Event()
            loop.add_reader(0, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(0)
            data = os.read(0, _SIZE)
            if not data:
                return None
            self._take(data)
        return self._lines.pop(0)

    def _take(self, data: bytes) -> None:
        *whole, self._partial = (self._partial + data).split(b"\n")
        self._lines += [line.decode("utf-8", "replace").strip() for line in whole]

    def _interrupt(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
        else:
            sys.stdout.write(f"\n{_SIGN}")
            sys.stdout.flush()
