"""The text format: the answer on stdout, progress on stderr."""

from __future__ import annotations

import asyncio
import os
import sys

from codelet import events
from codelet.frontends.streams import say
from codelet.outcome import Outcome, unread
from codelet.system.text import Cleaner

_LINE_WIDTH = 160
_NOTE_LENGTH = 1_000
"""A note says what to do about it at its end."""
# What takes longer than a second is told, and from then on how long it has taken.
_FIRST_SECONDS, _AGAIN_SECONDS = 1.0, 10.0


def in_ci() -> bool:
    """Whether a CI runner reads the output: some execute commands that they find in it."""
    return any(os.environ.get(name) for name in ("CI", "GITHUB_ACTIONS", "TF_BUILD"))


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
                self._progress(f"handoff {'prepared' if event.prepared else 'failed'}{used}")
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
            if self.is_live:
                self._write(self._cleaner.flush())
            else:
                self._write(self._cleaner.feed(outcome.result) + self._cleaner.flush())
            self._end_line()
            sys.stdout.flush()
        finally:
            self._say_how_it_ended(outcome)

    def _say_how_it_ended(self, outcome: Outcome) -> None:
        if outcome.partial and outcome.result:
            self._note("the answer above is partial")
        if outcome.error:
            self._note(outcome.error)
        missed = unread(outcome.cut)
        if missed and missed not in (outcome.error or ""):
            self._note(missed)
        for call in outcome.refused:
            why = outcome.denied.get(call)
            self._note(f"refused: {call}" + (f": {why}" if why else "; --allow RULE or --yes would permit it"))

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
        from codelet.system.text import one_line  # there is nothing to say before the first answer

        say(one_line(text, most))

    def _note(self, text: str) -> None:
        from codelet.system.text import one_line

        say(f"codelet: {one_line(text, 1_000)}")


def describe_call(call: events.ToolCallStarted) -> str:
    """A call in one line: the tool and what it is about."""
    return f"{call.name} {call.title}".strip()
