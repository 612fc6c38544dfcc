"""One shot: a prompt, and what a pipe brings, to one answer and an exit status."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

from codelet import events
from codelet.context import Piped
from codelet.errors import (
    EXIT_DONE,
    EXIT_HANGUP,
    EXIT_INCOMPLETE,
    EXIT_INTERRUPT,
    EXIT_REFUSED,
    EXIT_TERMINATE,
    CodeletError,
    LimitReached,
    NoAnswer,
    UsageError,
)
from codelet.frontends.outcome import Outcome, unread
from codelet.frontends.stderr import say
from codelet.frontends.stdin import KEPT, read_stdin
from codelet.frontends.workspace import open_session
from codelet.policy.secrets import mask
from codelet.session import Session
from codelet.settings import Settings
from codelet.text import is_blank, one_line, valid_unicode
from codelet.tokens.usage import Usage
from codelet.tokens.windows import model_facts

if TYPE_CHECKING:
    from codelet.frontends.exporting import Exporting

_SIGNALS = {
    signal.SIGINT: (EXIT_INTERRUPT, "interrupted"),
    signal.SIGTERM: (EXIT_TERMINATE, "terminated"),
    signal.SIGHUP: (EXIT_HANGUP, "hung up"),
}
_MOST_KEPT = 64_000_000
_UNSAVED = "stopped before the session was saved for the last time"


class Output(Protocol):
    """One output format; `says_exit` where it writes the exit status, which must be known by then."""

    says_exit: bool

    def show(self, event: events.Event) -> None:
        """Take one event in."""

    def finish(self, outcome: Outcome) -> None:
        """Write what the run came to."""


def run_one_shot(settings: Settings, text: str | None, *, output_format: str, quiet: bool) -> int:
    """Answer one prompt; gives the exit status. Without `text` the pipe is the prompt."""
    if sys.stdout is None:
        say("codelet: stdout is closed: there is nowhere to write the answer")
        return EXIT_INCOMPLETE
    output = _output(output_format, quiet=quiet)
    begun = time.monotonic()
    try:
        piped, notes = read_stdin(settings.timeout, _kept(settings)) or (None, [])
    except LimitReached as reached:
        return _unanswered(output, reached, settings.model, time.monotonic() - begun)
    if settings.timeout is not None and (taken := round(time.monotonic() - begun, 1)):
        settings = settings.replace(timeout=max(0.1, settings.timeout - taken))
    if piped is not None and not piped.text.strip() and not piped.tail.strip():
        piped = None
    _check(text, piped)
    if text is not None and valid_unicode(text) != text:
        notes.append("the prompt is not all UTF-8 text: what is not is replaced")
    for note in notes if not quiet else ():
        say(f"codelet: {note}")
    run = _Run(settings, text or "", piped, output, begun)
    return asyncio.run(run.run())


def _kept(settings: Settings) -> int:
    """Bytes of a pipe that are kept in memory: as many as the largest window takes, and more for recalling."""
    window = settings.window or (model_facts(settings.model).window if settings.model else 0)
    return min(_MOST_KEPT, max(KEPT, 4 * window))


def _unanswered(output: Output, reached: LimitReached, model: str | None, duration: float) -> int:
    """The exit status where a limit was reached before anything was asked."""
    status = reached.exit_status
    try:
        output.finish(Outcome("", True, status, str(reached), Usage(), None, (), model=model, duration=duration))
    except OSError as unwritten:
        return _status_unwritten(unwritten, status)
    return status


class _UnwritableError(Exception):
    """stdout takes nothing more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def _status_unwritten(error: OSError, status: int) -> int:
    """The exit status where stdout broke: a reader that has what it wanted (`codelet … | head -1`) is no failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered still would be flushed
    if isinstance(error, BrokenPipeError):
        return status
    say(f"codelet: the answer could not be written: {error.strerror or error}")
    return EXIT_INCOMPLETE if status in (EXIT_DONE, EXIT_REFUSED) else status


def _check(text: str | None, piped: Piped | None) -> None:
    if text is None and piped is None:
        raise UsageError("nothing to answer: give a prompt with -p, or pipe one in")
    if text is not None and not text.strip():
        raise UsageError("the prompt is empty: give one with -p")


def _output(output_format: str, *, quiet: bool) -> Output:
    if output_format == "text":
        from codelet.frontends.text import TextOutput

        return TextOutput(quiet=quiet)
    from codelet.frontends.json_stream import JsonOutput, StreamJsonOutput

    return JsonOutput() if output_format == "json" else StreamJsonOutput()


class _Run:
    """One run: the answer so far, and the signal that stopped it, if one did."""

    def __init__(self, settings: Settings, question: str, piped: Piped | None, output: Output, begun: float) -> None:
        self._settings = settings
        self._question = question
        self._piped = piped
        self._output = output
        self._begun = begun
        self._steps = 0
        self._answer: list[str] = []
        self._earlier = ""
        self._stopped: tuple[int, str] | None = None
        self._session: Session | None = None
        self._export: Exporting | None = None
        self._turn_is_over = False
        self._answer_is_out = False
        self._abandoned = False

    async def run(self) -> int:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop, number, task)
        try:
            status = await self._answered(task)
        except BaseException:
            await self._save()  # a usage error or a bug, too, leaves the session saved
            raise
        self._answer_is_out = True
        if self._abandoned:
            os._exit(status)  # the thread that still waits for the store would hold the exit up
        unsaved = await self._save()
        if unsaved is None:
            return status
        say(f"codelet: {one_line(str(unsaved), 1_000)}")
        return status if self._stopped is not None else unsaved.exit_status

    async def _answered(self, task: asyncio.Task[int]) -> int:
        """Run the turn and write what it came to; the exit status."""
        error: CodeletError | None = None
        try:
            session, self._export = await open_session(self._settings)
            self._session = session
            gc.enable()  # everything is imported by now; see cli.main
            if self._settings.max_cost is not None and session.facts.input_price is None:
                say(f"codelet: prices of {session.provider.model} are not known: --max-cost cannot stop it")
            await self._turn(session)
            self._turn_is_over = True
        except asyncio.CancelledError:
            if self._stopped is None:
                raise
            task.uncancel()
        except _UnwritableError as broken:
            refused = self._session is not None and self._session.refused
            return _status_unwritten(broken.error, EXIT_REFUSED if refused else EXIT_DONE)
        except UsageError:
            raise
        except CodeletError as caught:
            error = caught
        finally:
            if self._session is not None:
                await self._session.close()
        outcome = self._outcome(error, await self._save() if self._output.says_exit else None)
        try:
            self._output.finish(outcome)
        except OSError as unwritten:
            return _status_unwritten(unwritten, outcome.exit_status)
        return outcome.exit_status

    async def _turn(self, session: Session) -> None:
        export = self._export
        turn = (export.turn if export is not None else session.send)(self._question, self._piped)
        self._piped = None  # what fits stands in the list from now on, the rest in the archive
        try:
            async with aclosing(turn) as stream:
                async for event in stream:
                    if export is not None:
                        export.see(event)
                    if isinstance(event, events.StepStart):
                        self._steps = event.step
                        self._earlier = "".join(self._answer) or self._earlier
                        self._answer.clear()
                    elif isinstance(event, events.Text):
                        self._answer.append(event.delta)
                    elif isinstance(event, events.TurnEnd):
                        self._steps = event.steps
                    try:
                        self._output.show(event)
                    except OSError as error:
                        raise _UnwritableError(error) from None
                    self._tell()
        finally:
            if export is not None:
                export.save()

    async def _save(self) -> CodeletError | None:
        """End the export, if there is one; gives what kept the newest state from being saved, once."""
        if self._export is None:
            return None
        try:
            await self._export.close()
        except CodeletError as error:
            return error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._stopped is None or task is None:
                raise
            task.uncancel()
            self._abandoned = True
            return UsageError(_UNSAVED)
        finally:
            self._tell()
        return None

    def _tell(self) -> None:
        for line in self._export.notices() if self._export is not None else ():
            say(f"codelet: {one_line(line, 1_000)}")

    def _stop(self, number: signal.Signals, task: asyncio.Task[int]) -> None:
        if self._answer_is_out:  # only a store that does not answer is left to wait for
            say(f"codelet: {_UNSAVED}")
            os._exit(_SIGNALS[number][0])
        self._stopped = _SIGNALS[number]
        task.cancel()

    def _outcome(self, error: CodeletError | None, unsaved: CodeletError | None) -> Outcome:
        session = self._session
        refused = tuple(session.refused) if session else ()
        if self._stopped is not None:
            status, message = self._stopped
        elif error is not None:
            status, message = error.exit_status, mask(str(error))
        else:
            status, message = (EXIT_REFUSED if refused else EXIT_DONE), None
        cut = session.cut if session else ()
        partial = not self._turn_is_over  # a signal during the last save takes nothing from the answer
        if status in (EXIT_DONE, EXIT_REFUSED) and not self._settings.allow_cut and (missed := unread(cut)):
            partial, status, message = True, EXIT_INCOMPLETE, f"{missed}; --allow-cut takes that for success"
        if unsaved is not None:
            status = status if self._stopped is not None else unsaved.exit_status
            message = mask(f"{message}; {unsaved}" if message else str(unsaved))
        result = "".join(self._answer) or (self._earlier if partial else "")
        if isinstance(error, NoAnswer):
            result = "" if is_blank("".join(self._answer)) else "".join(self._answer)
        return Outcome(
            result=result,
            partial=partial,
            exit_status=status,
            error=message,
            usage=session.meter.spent if session else Usage(),
            cost=session.meter.spent_cost if session else None,
            refused=refused,
            denied=dict(session.approvals.denied) if session else {},
            cut=cut,
            model=session.provider.model if session else self._settings.model,
            turns=self._steps,
            duration=time.monotonic() - self._begun,
        )
