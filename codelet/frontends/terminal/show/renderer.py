"""Shows events on a console, for the REPL and the demo. Text from outside is cleaned, and never parsed as markup."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.cells import cached_cell_len
from rich.text import Text

from codelet import events
from codelet.frontends.terminal.show.console import OutputConsole, truncate, wrap, wrap_indented
from codelet.frontends.terminal.show.diff_rows import diff_rows, is_diff
from codelet.frontends.terminal.show.event_rows import Activity, EventRows, RunningCall, call_title
from codelet.frontends.terminal.show.markdown import MarkdownStream, markdown_rows
from codelet.frontends.terminal.show.numbers import duration, plural, tokens
from codelet.frontends.terminal.show.style import MARGIN, QUIET, writable
from codelet.messages import Message, calls_of, kind_of, text_of
from codelet.record import Record
from codelet.system.text import Cleaner, clean, one_line

if TYPE_CHECKING:
    from codelet.frontends.terminal.show.bottom import Bottom

FRAME_SECONDS = 0.05
"""Seconds between two frames of streamed text."""
SLICE = 2_000
"""The most characters rendered together, so that no key waits."""
_MANY_ROWS = 100
"""Finished rows that do not wait for the next frame, as a key's echo comes after all of them."""
_ABOVE_TAIL = 8
"""Rows of the screen not used by the open block."""
_TOGETHER = ({"note", "call"}, {"note", "end"})
"""Kinds of parts without an empty row between them."""
_TALL = 4
"""A call with more rows gets an empty row below."""
_LAST_TURNS, _PROMPT_LINES, _ANSWER_ROWS = 4, 8, 20
"""What a resumed conversation shows: turns, and of the last one the prompt's lines and the answer's rows."""


class ShownPart(Record):
    """A prompt, reasoning, an answer or a call; `folded`: the screen shows only some of it."""

    kind: str
    title: str
    text: str
    folded: bool = False


class ShownParts:
    """A session's newest parts. `asked` are the rows of the open question."""

    def __init__(self) -> None:
        self.asked: Sequence[Text] = ()
        self._parts: deque[ShownPart] = deque(maxlen=500)

    def add(self, kind: str, title: str, text: str, folded: bool = False) -> None:
        """Add a part; drop the oldest if needed."""
        self._parts.append(ShownPart(kind, title, text, folded))

    def forget(self) -> None:
        """Drop all parts, and rich's copies of shown rows."""
        self._parts.clear()
        cached_cell_len.cache_clear()

    def last(self) -> ShownPart | None:
        """The last folded part, else the last part, or None."""
        return next((part for part in reversed(self._parts) if part.folded), self._parts[-1] if self._parts else None)

    def rows(self, width: int) -> tuple[list[Text], int]:
        """All parts, oldest first, and the index of the row to show first."""
        rows: list[Text] = []
        wanted, place = self.last(), 0
        for part in self._parts:
            if part is wanted:
                place = len(rows)
            rows += [*part_rows(part, width), Text()]
        return ([*rows, *self.asked], len(rows)) if self.asked else (rows, place)


def part_rows(part: ShownPart, width: int) -> list[Text]:
    """One part in full, below its title."""
    title = wrap(Text(part.title, "bold"), width)
    if part.kind == "answer":
        return [*title, *markdown_rows(clean(part.text), width)]
    if is_diff(part.text):
        return [*title, *diff_rows(part.text, width, limit=1_000_000)]
    style = "dim italic" if part.kind == "reasoning" else ""
    return [*title, *wrap_indented(Text(clean(part.text).rstrip("\n"), style), width, " " * MARGIN)]


class Renderer:
    """Call `show(event)` for each event, and `tick()` soon after when `has_waiting`, and from time to time.

    `waiting` are rows about queued input. `hint` says how to stop; `key` shows folded parts in full. On a terminal
    `bottom` has the live rows; without one, only finished rows are printed.
    """

    def __init__(
        self,
        console: OutputConsole,
        *,
        hint: str = "",
        clock: Callable[[], float] = time.monotonic,
        bottom: Bottom | None = None,
        key: str = "",
    ) -> None:
        self.console = console
        self.hint = f" ({key})" if key else ""
        """The key that shows the rest of a folded part."""
        self.waiting: Sequence[Text] = ()
        self.approved: set[str] = set()
        """Calls that the user approved."""
        self.shown_parts = ShownParts()
        """Everything shown, in full."""
        self.asking: Sequence[Text] = ()
        """The rows of the open question."""
        self.seen: set[str] = set()
        """Changes that were printed in full: the results of their calls do not repeat them."""
        self.has_waiting = False
        """Some collected text is not on the screen yet."""
        self._clock = clock
        self._bottom = bottom
        self._activity = Activity(clock, hint)
        self._stream: MarkdownStream | None = None
        self._cleaner = Cleaner()
        self._said: list[str] = []  # the rendered part of the streamed text
        self._unset = ""  # the rest of it
        self._finished: list[Text] = []  # rows to print with the next frame
        self._thoughts: list[str] = []
        self._thinking_since = 0.0
        self._titles: dict[str, str] = {}
        self._report: events.UsageReport | None = None
        self._started = 0.0
        self._is_still = False
        self._is_behind = False  # the terminal, at the last frame
        self._block = ""  # the kind of the last printed part, unless it ended with an empty row
        self._failure = ""  # why the request before failed, unless another row was printed since

    @property
    def is_owed(self) -> bool:
        """Return whether the terminal is behind, so that frames are skipped; `tick` draws again."""
        return self._is_behind or (self._bottom is not None and self._bottom.stream.is_behind)

    @property
    def width(self) -> int:
        return max(self.console.width, 20)

    @property
    def rows(self) -> EventRows:
        return EventRows(self.width)

    def show(self, event: events.Event) -> None:
        match event:
            case events.Text(delta=delta):
                self._text(delta)
            case events.Reasoning(delta=delta):
                self._reason(delta)
            case events.ToolProgress(id=call_id, delta=delta):
                if (running := self._activity.running.get(call_id)) is not None:
                    running.add(delta)
                    self.has_waiting = True
            case events.UsageReport():
                self._report = event
            case _:
                self._end_stretch()
                self._settled(event)

    def name_calls(self, titles: Mapping[str, str]) -> None:
        """Add titles of calls that have not started, for a receipt."""
        self._titles = {**titles, **self._titles}

    def tick(self) -> None:
        """Redraw the live area."""
        self._set_text()
        if self._thoughts:
            self._activity.thoughts = clean("".join(self._thoughts[-200:])[-800:])
        self._draw()

    def say(self, rows: Sequence[Text], kind: str = "said") -> None:
        """Print rows immediately. Their kind is "asked" for the first part of a question."""
        if rows:
            self._put(kind, rows)
            self._draw()

    def printed(self) -> None:
        """Note that another program has printed rows."""
        self._block = "said"

    def say_prompt(self, text: str) -> None:
        """Print the user's prompt."""
        rows = self.rows.prompt(text, band=self.console.look.band)
        self.say(rows if self._bottom is not None or self.console.look.band else rows[1:], "prompt")

    def ask(self, rows: Sequence[Text]) -> None:
        """Show a question instead of the activity; no rows end it."""
        if self.asking and not rows:
            self._activity.restart()
            if self._bottom is not None:
                self._bottom.fills = True
        self.asking = rows
        self._draw()

    def stopping(self) -> None:
        """Show that the turn is being stopped."""
        self._is_still, self._activity.stopping = False, True
        self._draw()

    def stand_still(self, still: bool) -> None:
        """Show "stopping" and print nothing more, or resume."""
        if still and self.asking:
            return
        self._is_still, self._activity.stopping = False, still
        self._draw()
        self._is_still = still

    def stop(self) -> None:
        """End all activity, hide the live area, and write everything."""
        self._is_still = False
        self._end_stretch()
        self._activity.clear()
        self.asking = self.waiting = ()
        self._frame(())
        if self._bottom is not None and not self._bottom.app:
            self._bottom.stream.finish()

    def _settled(self, event: events.Event) -> None:
        match event:
            case events.TurnStart():
                self._started = self._clock()
                self._titles.clear()
                self._report = None
                self._block = "prompt"
                self.seen.clear()
                self._failure = ""
                self._activity.clear()
                self._activity.now("waiting for the model")
            case events.StepStart():
                self._activity.now("waiting for the model", again=True)
                self._draw()
            case events.ToolCallStarted(id=call_id, name=name, arguments=arguments, title=about):
                self._titles[call_id] = call_title(name, arguments, about)
                self._activity.running[call_id] = RunningCall(self._titles[call_id], self._clock())
                self._draw()
            case events.ToolResult():
                self._result(event)
            case events.Retry():
                self._activity.retry, self._activity.retry_at = event, self._clock() + event.wait
                if event.reason != self._failure:
                    self.say(self.rows.retry(event), "note")
                self._failure = event.reason
                self._draw()
            case events.Note():
                self._failure = ""
                self.say(self.rows.note(one_line(event.text, 1_000)), "note")
            case events.Handoff(prepared=prepared, usage=usage):
                took = f": {tokens(usage.total)} tokens" if usage else ""
                self.say(self.rows.note(f"handoff request{'' if prepared else ' failed'}{took}"), "note")
            case events.Steering(text=text):
                self.shown_parts.add("prompt", "› you", text)
                self.say_prompt(text)
            case events.Compaction():
                self._activity.now("compacting" if event.phase == "starting" else "waiting for the model")
                self.say(self.rows.compaction(event), "note")
            case events.Interrupted():
                self.say(self.rows.interruption(event, self._titles, self._activity.running, self._clock()), "end")
            case events.TurnEnd():
                self._activity.clear()
                self.say(self.rows.end(event, self._report, self._clock() - self._started), "end")

    def _text(self, delta: str) -> None:
        if self._stream is None:
            self._end_stretch()
            if not delta.strip():
                return
            self._stream = MarkdownStream(self.width)
        self._activity.hear("writing")
        self._unset += delta
        self.has_waiting = True
        if len(self._unset) >= SLICE:
            self._set_text()

    def _set_text(self) -> None:
        """Render collected text for the next frame."""
        if self._stream is not None and self._unset:
            delta, self._unset = self._unset, ""
            self._said.append(delta)
            self._stream.width = self.width
            self._put("text", self._stream.feed(self._cleaner.feed(delta)))
            if len(self._finished) >= _MANY_ROWS:
                self._draw()

    def _reason(self, delta: str) -> None:
        if not self._thoughts:
            self._end_stretch()
            self._thinking_since = self._clock()
        self._thoughts.append(delta)
        self._activity.hear("thinking")
        self.has_waiting = True

    def _end_stretch(self) -> None:
        """Finish streamed text or reasoning."""
        if self._stream is not None:
            self._set_text()
            stream, self._stream = self._stream, None
            self._put("text", stream.feed(self._cleaner.flush()) + stream.finish())
            self._cleaner = Cleaner()
            said, self._said = "".join(self._said), []
            self.shown_parts.add("answer", "answer", said)
            self._draw()
        if self._thoughts:
            self._fold_reasoning()

    def _fold_reasoning(self) -> None:
        """Fold streamed reasoning into one row."""
        reasoning, self._thoughts = "".join(self._thoughts), []
        seconds = self._clock() - self._thinking_since
        lines = [line for line in reasoning.split("\n") if line.strip()]
        gist = one_line(lines[0].strip("*# "), self.width) if lines else ""
        title = f"· thought{f' for {duration(seconds)}' if seconds >= 0.95 else ''}"
        self.shown_parts.add("reasoning", title, reasoning, folded=len(lines) > 1)
        hint = self.hint if len(lines) > 1 else ""
        row = truncate(Text(f"{title}: {gist}", "dim italic"), self.width - len(hint))
        self.say([Text.assemble(row, (hint, QUIET))], "note")

    def _result(self, event: events.ToolResult) -> None:
        self._activity.running.pop(event.id, None)
        title = self._titles.get(event.id) or one_line(event.name, 80)
        rows = self.rows.result(title, event, self.hint, approved=event.id in self.approved)
        whole = event.display if event.display is not None else event.text
        is_folded = clean(whole).rstrip("\n").count("\n") + 1 > len(rows) - 1
        self.shown_parts.add("call", rows[0].plain, whole, is_folded)
        if event.display in self.seen:
            rows = rows[:1]
        self.say(rows, "call")
        if len(rows) > _TALL and self._block:
            self._block = "tall call"

    def _put(self, block: str, rows: Sequence[Text]) -> None:
        """Print rows with the next frame; an empty row separates parts."""
        if not rows:
            return
        is_same = block == self._block and block != "prompt"
        if self._block and not is_same and {block, self._block} not in _TOGETHER and rows[0].plain.strip():
            self._finished.append(Text())
        self._block = block if rows[-1].plain.strip() else ""
        self._finished += rows

    def _draw(self) -> None:
        """Draw a frame, unless the terminal has not taken the last one."""
        self._is_behind = self._bottom is not None and self._bottom.stream.is_behind
        if self._is_behind or self._is_still:
            return
        if self._bottom is None:
            self._frame(())
            return
        width, height = self.console.size
        tail = self._stream.tail(max(height - _ABOVE_TAIL, 4)) if self._stream is not None else []
        if tail and self._block not in ("", "text"):
            tail = [Text(), *tail]
        shown = self.asking or self._activity.rows(max(width, 20))
        gap = [Text()] if tail or self._block else []
        if self._block == "asked" if self.asking else not (shown or self.waiting):
            gap = []  # the question's first part is right above, or nothing is below
        self._frame([*tail, *gap, *shown, *self.waiting], width)

    def _frame(self, live: Sequence[Text], width: int = 80) -> None:
        """Print finished rows and draw the live rows that fit."""
        printed = "".join(map(self.console.written, self._finished))
        self._finished, self.has_waiting = [], False
        if self._bottom is not None:
            rows = [truncate(row, max(width, 1)) for row in live[-self._bottom.room :]]
            self._bottom.draw(printed, [(self.console.written(row), row.cell_len) for row in rows])
        elif printed:
            self.console.file.write(writable(printed, self.console.file))
            self.console.file.flush()


def show_last_turns(renderer: Renderer, messages: Sequence[Message], mask: Callable[[str], str]) -> None:
    """Show earlier turns folded, and the last one. Each prompt and answer is kept whole for the pager."""
    starts = [place for place, message in enumerate(messages) if kind_of(message) == "prompt"]
    if (earlier := len(starts) - _LAST_TURNS) > 0:
        renderer.say([Text(f"… {plural(earlier, 'earlier turn')}", QUIET)])
    for start, end in list(pairwise([*starts, len(messages)]))[-_LAST_TURNS:]:
        turn = messages[start + 1 : end]
        said = (text_of(each).strip() for each in reversed(turn) if kind_of(each) == "assistant")
        prompt, answer = mask(text_of(messages[start]).strip()), mask(next(filter(None, said), ""))
        renderer.shown_parts.add("prompt", "› you", prompt)
        rows, hidden = markdown_rows(clean(answer), renderer.width), 0
        if end < len(messages):
            calls = sum(len(calls_of(each)) for each in turn)
            facts = f"{plural(calls, 'call')} · " if calls else ""
            row = Text(f"{' ' * MARGIN}{facts}{one_line(answer, renderer.width) or 'no answer'}", QUIET)
            rows, hidden = [truncate(row, renderer.width)], len(rows)
            renderer.say_prompt(one_line(prompt, renderer.width - MARGIN))
        else:
            lines = prompt.split("\n")
            more = len(lines) - _PROMPT_LINES
            note = [f"… {plural(more, 'more line')}"] if more > 0 else []
            renderer.say_prompt("\n".join([*lines[:_PROMPT_LINES], *note]))
            if (hidden := max(len(rows) - _ANSWER_ROWS, 0)) > 0:
                above = f"{' ' * MARGIN}… {plural(hidden, 'line')} above{renderer.hint}"
                rows = [Text(above, QUIET), *rows[-_ANSWER_ROWS:]]
        renderer.shown_parts.add("answer", "answer", answer, folded=hidden > 0)
        renderer.say(rows)
