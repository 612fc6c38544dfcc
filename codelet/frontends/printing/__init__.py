"""One shot: answers a prompt, with what a pipe adds to it, and ends with an exit status.

Its own format is text: the answer on stdout, progress on stderr.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, Protocol

from codelet import events
from codelet.context import Piped
from codelet.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    EXIT_REFUSED,
    CodeletError,
    LimitReached,
    SessionHeld,
    UsageError,
)
from codelet.frontends.streams import KEPT, Stopper, in_ci, read_stdin, say, say_ending, unknown_settings
from codelet.loop.session import Session
from codelet.opening import mentioned, reserved_for, session_from, turn_of
from codelet.outcome import Outcome, TurnProgress, unread
from codelet.providers.facts import model_facts
from codelet.settings import Settings
from codelet.system.git import end_ahead
from codelet.system.text import Cleaner, one_line, valid_unicode
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.frontends.exporting import Exporting

_LINE_WIDTH = 160
_NOTE_LENGTH = 1_000
"""A note says what to do about it at its end."""
# Work of more than a second is reported, then how long it has taken.
_FIRST_SECONDS, _AGAIN_SECONDS = 1.0, 10.0
_MOST_KEPT = 64_000_000
_UNSAVED = "stopped before the session was saved for the last time"


class Output(Protocol):
    """An output format. `says_exit`: it writes the exit status, so the last save has to come first.

    A format that is not `is_live` writes nothing of the answer before its end.
    """

    says_exit: bool
    is_live: bool

    def show(self, event: events.Event) -> None:
        """Take in one event."""

    def busy(self, what: str) -> None:
        """Something begins that may take long, or what had begun is over: ""."""

    def finish(self, outcome: Outcome) -> None:
        """Write the outcome of the run."""


def run_one_shot(settings: Settings, text: str | None, *, output_format: str, quiet: bool) -> int:
    """Answer one prompt and return the exit status. Without `text`, what comes through the pipe is the prompt."""
    if sys.stdout is None:
        say("codelet: stdout is closed: there is nowhere to write the answer")
        return EXIT_INCOMPLETE
    output = _output(output_format, quiet=quiet, whole=settings.json_schema is not None)
    begun = time.monotonic()
    try:
        piped, notes = read_stdin(settings.timeout, _kept(settings)) or (None, [])
    except LimitReached as reached:
        return _unanswered(output, reached, settings.model, time.monotonic() - begun)
    taken = time.monotonic() - begun
    if piped is not None and (not piped.text or piped.text.isspace()):
        piped = None
    _check(text, piped)
    if text is not None and valid_unicode(text) != text:
        notes.append("the prompt is not all UTF-8 text: the other bytes are replaced")
    for note in (*unknown_settings(settings), *notes) if not quiet else ():
        say(f"codelet: {note}")
    if text is not None and piped is None and text.startswith("#") and "\n" not in text.strip():
        from codelet.frontends.command_prompt import fact_command

        text = fact_command(text, is_kept=settings.keeps_changes or settings.facts is not None)
    run = _OneShot(settings, text or "", piped, output, begun, taken)
    return asyncio.run(run.run())


def _kept(settings: Settings) -> int:
    """Bytes of a pipe to keep in memory: as many as the window can take, and more that `recall` can read."""
    window = settings.window or (model_facts(settings.model).window if settings.model else 0)
    return min(_MOST_KEPT, max(KEPT, 4 * window))


def _unanswered(output: Output, reached: LimitReached, model: str | None, duration: float) -> int:
    """Report a limit that was reached before the model was asked, and return the exit status."""
    status = reached.exit_status
    try:
        output.finish(Outcome("", True, status, str(reached), Usage(), None, (), model=model, duration=duration))
    except OSError as unwritten:
        return _status_unwritten(unwritten, status)
    return status


def _complain(text: str) -> None:
    """Say a text of codelet's own in one line."""
    say(f"codelet: {one_line(text, 1_000)}")


class _UnwritableError(Exception):
    """stdout does not accept any more output."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def _status_unwritten(error: OSError, status: int) -> int:
    """Return the exit status after stdout broke. For a reader that has seen enough (`… | head -1`) it is `status`."""
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


def _output(output_format: str, *, quiet: bool, whole: bool) -> Output:
    if output_format == "text":
        return TextOutput(quiet=quiet, whole=whole)
    from codelet.frontends.printing.json_output import JsonOutput, StreamJsonOutput

    return JsonOutput() if output_format == "json" else StreamJsonOutput()


class TextOutput:
    """Writes the text of the last step as the answer; on a terminal, unless `whole`, all text as it arrives."""

    says_exit = False

    def __init__(self, *, quiet: bool, whole: bool = False) -> None:
        self.is_live = sys.stdout.isatty() and not whole
        self._quiet = quiet
        self._cleaner = Cleaner(ci=in_ci())
        self._line_open = False
        self._timer: asyncio.TimerHandle | None = None

    def show(self, event: events.Event) -> None:
        """Show one event, if this format shows events of its type."""
        if isinstance(event, events.Compaction):
            self.busy(f"compacting about {event.before:,} tokens" if event.phase == "starting" else "")
        match event:
            case events.Text() if self.is_live:
                self._write(self._cleaner.feed(event.delta))
            case events.ToolCallStarted():
                self._progress(describe_call(event))
            case events.ToolResult() if event.status != "done":
                self._progress(f"  {event.text}" if event.status == "refused" else f"  {event.status}: {event.text}")
            case events.Compaction(phase="done"):
                reduced = f", {event.reduced} old messages reduced" if event.reduced else ""
                self._progress(f"context compacted: {event.before:,} to {event.after:,} tokens{reduced}")
            case events.Compaction(phase="reduced"):
                self._progress(event.note)
            case events.Compaction(phase="stopped"):
                self._progress(f"context not compacted: {event.note}")
            case events.Handoff():
                used = f": {event.usage.total:,} tokens" if event.usage is not None else ""
                self._progress(f"handoff request{'' if event.prepared else ' failed'}{used}")
            case events.Note():
                self._progress(event.text, _NOTE_LENGTH)
            case events.Retry():
                self._progress(f"{event.reason}; trying again{f' in {event.wait:.0f} s' if event.wait else ''}")

    def busy(self, what: str) -> None:
        """Something begins that may take long, or what had begun is over: ""."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if what and not self._quiet:
            self._tell_later(what, asyncio.get_running_loop().time(), _FIRST_SECONDS)

    def _tell_later(self, what: str, begun: float, wait: float) -> None:
        loop = asyncio.get_running_loop()

        def tell() -> None:
            self._progress(f"{what}: {loop.time() - begun:.0f} s so far")
            self._tell_later(what, begun, _AGAIN_SECONDS)

        self._timer = loop.call_later(wait, tell)

    def finish(self, outcome: Outcome) -> None:
        """Write the answer, and say on stderr what cut it short."""
        self.busy("")
        try:
            if not self.is_live:
                self._write(self._cleaner.feed(outcome.result))
            self.end()
        finally:
            self._say_how_it_ended(outcome)

    def end(self) -> None:
        """Write the rest of the text, and end its line."""
        self._write(self._cleaner.flush())
        self._end_line()
        sys.stdout.flush()

    def _say_how_it_ended(self, outcome: Outcome) -> None:
        if outcome.partial and outcome.result:
            _complain("the answer above is partial")
        if outcome.error:
            _complain(outcome.error)
        missed = unread(outcome.cut)
        if missed and missed not in (outcome.error or ""):
            _complain(missed)
        for call in outcome.refused:
            why = outcome.denied.get(call)
            _complain(f"refused: {call}" + (f": {why}" if why else "; --allow RULE or --yes would permit it"))

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            self._line_open = not text.endswith("\n")
            if self.is_live:
                sys.stdout.flush()

    def _end_line(self) -> None:
        if self._line_open:
            sys.stdout.write("\n")
            self._line_open = False

    def _progress(self, text: str, most: int = _LINE_WIDTH) -> None:
        if self._quiet:
            return
        if self.is_live:
            self._end_line()
        say(one_line(text, most))


def describe_call(call: events.ToolCallStarted) -> str:
    """Return a call in one line: the tool and its title."""
    return f"{call.name} {call.title}".strip()


class _OneShot:
    """One run: ask, write the answer, save, close. A signal cancels the current phase; the next ones follow.

    A format that writes the exit status is written last.

    `taken` is how many seconds of the time limit the pipe took.
    """

    def __init__(
        self, settings: Settings, question: str, piped: Piped | None, output: Output, begun: float, taken: float
    ) -> None:
        self._settings = settings
        self._taken = taken
        self._question = question
        self._piped = piped
        self._output = output
        self._so_far = TurnProgress(begun)
        self._stopper = Stopper()
        self._session: Session | None = None
        self._export: Exporting | None = None

    async def run(self) -> int:
        failure: CodeletError | _UnwritableError | None = None
        with self._stopper:
            try:
                try:
                    await self._ask()
                    self._so_far.is_over = True
                except asyncio.CancelledError:
                    self._stopper.take_back()
                except UsageError:
                    raise
                except (CodeletError, _UnwritableError) as error:
                    failure = error
                status = await self._finish(failure)
            except BaseException:
                await self._end()  # a usage error or a bug, too, leaves the session saved
                raise
            finally:
                end_ahead()
        if self._stopper.stopped is not None:
            os._exit(status)  # a thread may still wait for what was cancelled: it would hold the exit up
        return status

    async def _ask(self) -> None:
        """Open the session, run the turn, and show its events."""
        if self._settings.resume is not None:
            self._output.busy("opening the saved session")
        needs_model = not self._question.startswith("/")
        reserved = await reserved_for(self._settings, self._waiting)
        async with reserved or nullcontext():
            session = await session_from(self._settings, needs_model=needs_model, reserved=reserved)
            self._session = session
            if reserved is not None:
                from codelet.frontends.exporting import Exporting

                self._export = await Exporting.begin(session, self._settings, reserved)
        self._output.busy("")
        session.meter.taken = self._taken
        session.upkeep.unseen = not self._output.is_live
        gc.freeze()  # else the first collection would walk through all of it
        gc.enable()  # everything is imported by now; see cli.main
        try:
            async with aclosing(await self._turn(session)) as turn:
                self._piped = None  # from here on the list has it, and the archive the rest
                async for event in turn:
                    if self._export is not None:
                        self._export.see(event)
                    self._so_far.see(event)
                    try:
                        with self._stopper.interruptible():
                            self._output.show(event)
                    except OSError as error:
                        raise _UnwritableError(error) from None
                    self._tell()
        finally:
            if self._export is not None:
                self._export.save()

    def _waiting(self, held: SessionHeld) -> None:
        self._output.busy(f"waiting for {held.shown}, in use by {held.holder}")

    async def _turn(self, session: Session) -> AsyncGenerator[events.Event, None]:
        if self._question.startswith("/"):
            from codelet.frontends.command_prompt import run_command
            from codelet.providers.choice.known import NoModel

            settings = self._settings
            kept = settings.keeps_changes or (settings.facts is not None and self._question.startswith("/facts"))
            answer = await run_command(session, self._question, piped=self._piped is not None, kept=kept)
            if not isinstance(answer, str):
                if settings.json_schema is not None:
                    raise UsageError("--json-schema is for the model's answer: a /command has none")
                return answer
            self._question = answer
            if isinstance(session.provider, NoModel):
                raise session.provider.missing
        attached = await mentioned(session, self._question, person=None)
        for note in attached.notes if attached is not None else ():
            _complain(note)
        return turn_of(session, self._question, self._piped, attached)

    async def _finish(self, failure: CodeletError | _UnwritableError | None) -> int:
        """Write the outcome and end the session, in the order of the format; return the exit status."""
        if isinstance(failure, _UnwritableError):
            refused = self._session is not None and self._session.toolbox.approvals.refused
            status = self._unwritten(failure.error, EXIT_REFUSED if refused else EXIT_DONE)
        else:
            unsaved = await self._end() if self._output.says_exit else None
            model, allow_cut = self._settings.model, self._settings.allow_cut
            outcome = self._so_far.outcome(
                self._session, failure, model=model, allow_cut=allow_cut, stopped=self._stopper.stopped, unsaved=unsaved
            )
            status = outcome.exit_status
            try:
                with self._stopper.interruptible():
                    self._output.finish(outcome)
            except OSError as unwritten:
                status = self._unwritten(unwritten, status)
            if self._output.says_exit:
                return status
        unsaved = await self._end()
        if unsaved is None:
            return status
        _complain(str(unsaved))
        return self._stopper.stopped[0] if self._stopper.stopped is not None else unsaved.exit_status

    async def _save(self) -> CodeletError | None:
        """End the export, if there is one; return the reason why the newest state is not saved."""
        if self._export is None:
            return None
        closing = asyncio.create_task(self._export.close())
        try:
            await asyncio.wait({closing})  # a signal ends the wait, whatever the store does
            closing.result()
        except CodeletError as error:
            return error
        except asyncio.CancelledError:
            self._stopper.take_back()
            return UsageError(_UNSAVED)
        finally:
            self._tell()
        return None

    async def _end(self) -> CodeletError | None:
        """Save for the last time and close the session; a signal cuts each short. Return why a file is not complete."""
        unsaved = await self._save()
        session = self._session
        if session is None:
            return unsaved
        say_ending(session)
        try:
            await session.close()
        except CodeletError as error:
            if unsaved is None and error.exit_status == EXIT_INCOMPLETE:
                return error
            _complain(session.mask(str(error)))
        except asyncio.CancelledError:
            self._stopper.take_back()
        return unsaved

    def _tell(self) -> None:
        for line in self._export.notices.take() if self._export is not None else ():
            _complain(line)

    def _unwritten(self, error: OSError, status: int) -> int:
        """The exit status after stdout broke, or a signal ended the wait for its reader."""
        unwritten = _status_unwritten(error, status)
        return unwritten if self._stopper.stopped is None else self._stopper.stopped[0]
