"""Shows the events of a turn on a console: the one way from the loop to a person's eyes.

Used by the REPL, the demo and a one-shot run's progress. What comes from the model, a tool or a file goes
through the cleaner and then into `Text` objects, never into markup.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.text import Text as Row

from codelet.events import (
    Compaction,
    Event,
    Interrupted,
    Note,
    Reasoning,
    Reminder,
    Retry,
    StepStart,
    Text,
    ToolCallStarted,
    ToolProgress,
    ToolResult,
    TurnEnd,
    TurnStart,
    UsageReport,
)
from codelet.frontends.render import lines
from codelet.frontends.render.calls import result_rows, title
from codelet.frontends.render.live import LiveArea
from codelet.frontends.render.numbers import duration
from codelet.frontends.render.status import Running, Status
from codelet.frontends.render.stream import MarkdownStream
from codelet.frontends.render.style import QUIET, signs_for
from codelet.frontends.render.wrap import cut, wrap
from codelet.text import Cleaner, clean, one_line

_FRAME_SECONDS = 0.05
_TAIL_ROWS = 4
_EVERY_STEP = frozenset({"tokenStatus", "gitStatus"})
"""Reminders that change all the time: their replacement is not worth a line."""


class Renderer:
    """Call `show(event)` for each event, and `tick()` now and then while nothing comes.

    `text=False` leaves the model's words and thoughts out: they go elsewhere. `footer` holds rows that
    stand below all others while a turn runs, `cursor` says that the cursor belongs at their end.
    """

    def __init__(
        self,
        console: Console,
        *,
        text: bool = True,
        live: bool | None = None,
        hint: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console
        self.signs = signs_for(console.file)
        self.footer: Sequence[Row] = ()
        self.cursor = False
        self.reasoning = ""
        """The reasoning of the last step that had some."""
        self._with_text = text
        self._clock = clock
        self._live = LiveArea(console, live)
        self._status = Status(self.signs, clock, hint)
        self._stream: MarkdownStream | None = None
        self._cleaner = Cleaner()
        self._thoughts: list[str] = []
        self._thinking_since = 0.0
        self._titles: dict[str, str] = {}
        self._progress: dict[str, Cleaner] = {}
        self._reminders: list[Reminder] = []
        self._report: UsageReport | None = None
        self._started = 0.0
        self._drawn_at = 0.0
        self._block = ""
        self._asking: Sequence[Row] = ()
        self._asking_cursor = False
        self._seen: set[str] = set()

    @property
    def is_live(self) -> bool:
        """Whether there is a live area: a terminal that moves its cursor."""
        return self._live.enabled

    @property
    def is_asking(self) -> bool:
        """Whether a question is on the screen."""
        return bool(self._asking)

    @property
    def width(self) -> int:
        """Columns of the console."""
        return max(self.console.width, 20)

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Text(delta=delta):
                self._text(delta)
            case Reasoning(delta=delta):
                self._reason(delta)
            case ToolProgress(id=call_id, delta=delta):
                self._tool_progress(call_id, delta)
            case Reminder():
                if not (event.change == "replaced" and event.name in _EVERY_STEP):
                    self._reminders.append(event)
            case UsageReport():
                self._report = event
                for note in filter(None, (event.cache_note, event.usage_note)):
                    self._end_stretch()
                    self._say("note", wrap(Row(f"{self.signs.note} {clean(note)}", QUIET), self.width))
            case _:
                self._end_stretch()
                self._settled(event)

    def name_calls(self, titles: Mapping[str, str]) -> None:
        """Titles of calls, by id, that have not begun and so sent no event: a receipt may name them."""
        self._titles = {**titles, **self._titles}

    def tick(self) -> None:
        """Redraw the live area: the spinner, the clock, the text that came since."""
        self._draw([])

    def say(self, rows: Sequence[Row]) -> None:
        """Print rows above the live area."""
        self._say("note", rows)

    def seen(self, shown: str) -> None:
        """What a call would do was printed whole, and stays on the screen: its result does not print it again."""
        self._seen.add(shown)

    def ask(self, rows: Sequence[Row], *, cursor: bool = False) -> None:
        """Show a question in the place of the status and the footer; without rows it is over."""
        if self._asking and not rows:
            self._status.restart()
        self._asking = rows
        self._asking_cursor = cursor
        self._draw([])

    def stopping(self) -> None:
        """The user has stopped the turn: say so at once, whatever takes how long to end."""
        self._status.stopping = True
        self._draw([])

    def pause(self) -> None:
        """Take the live area off the screen and show the cursor; the next frame brings it back."""
        self._live.frame((), ())

    def stop(self) -> None:
        """End whatever was going on and leave the screen to others."""
        self._end_stretch()
        self._status.clear()
        self._asking = ()
        self.footer, self.cursor = (), False
        self.pause()

    def _settled(self, event: Event) -> None:
        """Events that end a stretch of text or reasoning."""
        match event:
            case TurnStart():
                self._started = self._clock()
                self._titles.clear()
                self._report = None
                self._block = "prompt"
                self._seen.clear()
                self._status.clear()
                self._status.now("waiting for the model")
            case StepStart():
                self._say("note", self._told())
                self._status.now("waiting for the model")
                self._draw([])
            case ToolCallStarted(id=call_id, name=name, arguments=arguments, title=about):
                self._titles[call_id] = title(name, arguments, about)
                self._status.running[call_id] = Running(self._titles[call_id], self._clock())
                self._draw([])
            case ToolResult():
                self._result(event)
            case Retry():
                self._status.retry, self._status.retry_at = event, self._clock() + event.wait
                self._say("note", [lines.retry_row(event, event.wait, self.width, self.signs)])
            case Note():
                self._say("note", lines.note_rows(event, self.width, self.signs))
            case Compaction():
                self._status.now("compacting" if event.phase == "starting" else "waiting for the model")
                self._say("note", lines.compaction_rows(event, self.width, self.signs))
            case Interrupted():
                self._say("end", lines.interruption_rows(event, self._titles, self.width, self.signs))
            case TurnEnd():
                seconds = self._clock() - self._started
                rows = lines.end_rows(event, self._report, seconds, self.width, self.signs)
                self._status.clear()
                self._say("end", [*self._told(), *rows])

    def _text(self, delta: str) -> None:
        if not self._with_text:
            return
        if self._stream is None:
            self._end_stretch()
            if not delta.strip():
                return
            self._stream = MarkdownStream(self.width, self.signs)
        self._status.now("writing")
        rows = self._stream.feed(self._cleaner.feed(delta))
        if rows:
            self._say("text", rows)
        elif self._clock() - self._drawn_at >= _FRAME_SECONDS:
            self._stream.width = self.width
            self._draw([])

    def _reason(self, delta: str) -> None:
        if not self._with_text:
            return
        if not self._thoughts:
            self._end_stretch()
            self._thinking_since = self._clock()
        self._thoughts.append(delta)
        self._status.now("thinking")
        if self._clock() - self._drawn_at >= _FRAME_SECONDS:
            recent = "".join(self._thoughts[-40:])[-400:]
            self._status.detail = one_line(recent.rstrip().rpartition("\n")[2], self.width)
            self._draw([])

    def _end_stretch(self) -> None:
        """The text or the reasoning that was being streamed is complete."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            rows = stream.feed(self._cleaner.flush()) + stream.finish()
            self._cleaner = Cleaner()
            self._say("text", rows)
        if self._thoughts:
            self.reasoning, self._thoughts = "".join(self._thoughts), []
            took = duration(self._clock() - self._thinking_since)
            gist = one_line(self.reasoning.strip().split("\n")[0].strip("*# "), self.width)
            row = Row.assemble((f"{self.signs.note} thought {took}: {gist}", "dim italic"))
            self._say("note", [cut(row, self.width, self.signs.more)])

    def _tool_progress(self, call_id: str, delta: str) -> None:
        running = self._status.running.get(call_id)
        if running is None:
            return
        running.add(self._progress.setdefault(call_id, Cleaner()).feed(delta))
        if self._clock() - self._drawn_at >= _FRAME_SECONDS:
            self._draw([])

    def _result(self, event: ToolResult) -> None:
        self._status.running.pop(event.id, None)
        self._progress.pop(event.id, None)
        shown = self._titles.get(event.id) or one_line(event.name, 80)
        told_before = event.display is not None and event.display in self._seen
        rows = result_rows(shown, event, self.width, self.signs)
        self._say("call", rows[:1] if told_before else rows)

    def _told(self) -> list[Row]:
        told, self._reminders = self._reminders, []
        return lines.reminder_rows(told, self.width, self.signs)

    def _say(self, block: str, rows: Sequence[Row]) -> None:
        """Print rows; a blank row separates running text from everything else."""
        if not rows:
            return
        apart = bool(self._block) and self._block != block and "text" in (self._block, block)
        self._block = block
        self._draw([Row(), *rows] if apart else rows)

    def _draw(self, rows: Sequence[Row]) -> None:
        self._drawn_at = self._clock()
        if not self._live.enabled:
            self._live.frame(rows, ())
            return
        tail = self._stream.tail(_TAIL_ROWS) if self._stream is not None else []
        if tail and self._block not in ("", "text"):
            tail = [Row(), *tail]
        if self._asking:
            gap = [Row()] if self._block == "text" else []
            below = () if self._asking_cursor else self.footer  # the cursor belongs at the end of the last row
            cursor = self._asking_cursor or self.cursor
            self._live.frame(rows, [*tail, *gap, *self._asking, *below], cursor=cursor)
            return
        self._live.frame(rows, [*tail, *self._status.rows(self.width), *self.footer], cursor=self.cursor)
