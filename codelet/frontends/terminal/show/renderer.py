"""Shows a turn's events on a console.

Used by the REPL and the demo. Text of models, tools and files is cleaned and put into `Text` objects, never into
markup.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from codelet import events
from codelet.frontends.terminal.show.call_rows import RunningCall, call_title, result_rows
from codelet.frontends.terminal.show.console import OutputConsole, truncate
from codelet.frontends.terminal.show.event_rows import Activity, EventRows
from codelet.frontends.terminal.show.markdown import MarkdownStream, markdown_rows
from codelet.frontends.terminal.show.numbers import duration, plural, tokens
from codelet.frontends.terminal.show.shown_parts import ShownPart, ShownParts
from codelet.frontends.terminal.show.style import MARGIN, QUIET, writable
from codelet.messages import Message, calls_of, kind_of, text_of
from codelet.system.text import Cleaner, clean, one_line

if TYPE_CHECKING:
    from codelet.frontends.terminal.show.bottom import Bottom

FRAME_SECONDS = 0.05
"""Seconds between two frames of streamed text."""

SLICE = 2_000
"""The most characters rendered in one go, so that no key waits."""

_MANY_ROWS = 100
"""Finished rows that are drawn at once: a key's echo comes behind everything that the terminal has not taken yet."""

_ABOVE_TAIL = 8
"""Rows of the screen not used by the open block."""
_TOGETHER = frozenset({("note", "call"), ("call", "note"), ("note", "end"), ("end", "note")})
"""Kinds of parts without a blank row between them."""
_THOUGHT_CHARACTERS = 800
_TALL = 4
"""A call with more rows gets a blank row below."""
_LAST_TURNS = 4
_PROMPT_LINES = 8
_ANSWER_ROWS = 20
_LONGEST_ANSWER = 20_000
"""The most characters of an answer that are rendered, from its end."""


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
        self.key = key
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
        """Whether collected text is not on the screen yet."""
        self._clock = clock
        self._bottom = bottom
        self._activity = Activity(clock, hint)
        self._stream: MarkdownStream | None = None
        self._cleaner = Cleaner()
        self._said: list[str] = []  # the streamed text
        self._unset: list[str] = []  # its end, not rendered yet
        self._unset_size = 0
        self._finished: list[Text] = []  # rows to print with the next frame
        self._thoughts: list[str] = []
        self._thinking_since = 0.0
        self._titles: dict[str, str] = {}
        self._report: events.UsageReport | None = None
        self._started = 0.0
        self._is_still = False
        self._is_behind = False  # the terminal, at the last frame
        self._block = ""  # the kind of the last printed part
        self._is_parted = True  # a blank row is below it
        self._failure = ""  # why the request before failed, where its row is still near

    @property
    def is_owed(self) -> bool:
        """Whether the terminal is behind, so that frames are skipped; `tick` draws again."""
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
            case events.Reminder():
                pass
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
            self._activity.thoughts = clean("".join(self._thoughts[-200:])[-_THOUGHT_CHARACTERS:])
        self._draw()

    def say(self, rows: Sequence[Text], *, asked: bool = False) -> None:
        """Print rows outside a turn; `asked`: the first part of a question."""
        self._say("asked" if asked else "said", rows)

    def printed(self) -> None:
        """Note that another program has printed rows."""
        self._block, self._is_parted = "said", False

    def say_prompt(self, text: str) -> None:
        """Print the user's prompt."""
        rows = self.rows.prompt(text, band=self.console.look.band)
        self._say("prompt", rows if self._bottom is not None or self.console.look.band else rows[1:])

    def keep_prompt(self, text: str) -> None:
        self.shown_parts.add(ShownPart("prompt", "› you", text))

    def send(self, sequence: str) -> None:
        """Write a sequence that moves nothing, such as a bell."""
        if self._bottom is not None:
            self._bottom.stream.write(sequence)

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

    def written(self, rows: Sequence[Text]) -> str:
        """Render rows for this terminal."""
        return "".join(map(self.console.written, rows))

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
                self._block, self._is_parted = "prompt", False
                self.seen.clear()
                self._failure = ""
                self._activity.clear()
                self._activity.now("waiting for the model")
            case events.StepStart():
                self._activity.now("waiting for the model", anew=True)
                self._draw()
            case events.ToolCallStarted(id=call_id, name=name, arguments=arguments, title=about):
                self._titles[call_id] = call_title(name, arguments, about)
                self._activity.running[call_id] = RunningCall(self._titles[call_id], self._clock())
                self._draw()
            case events.ToolResult():
                self._result(event)
            case events.Retry():
                self._activity.retry, self._activity.retry_at = event, self._clock() + event.wait
                again, self._failure = event.reason == self._failure, event.reason
                self._say("note", self.rows.retry(event, again=again))
            case events.Note():
                self._failure = ""
                self._say("note", self.rows.note(one_line(event.text, 1_000)))
            case events.Handoff(prepared=prepared, usage=usage):
                took = f": {tokens(usage.total)} tokens" if usage else ""
                self._say("note", self.rows.note(f"handoff request{'' if prepared else ' failed'}{took}"))
            case events.Steering(text=text):
                self.keep_prompt(text)
                self.say_prompt(text)
            case events.Compaction():
                self._activity.now("compacting" if event.phase == "starting" else "waiting for the model")
                self._say("note", self.rows.compaction(event))
            case events.Interrupted():
                self._say("end", self.rows.interruption(event, self._titles, self._activity.running, self._clock()))
            case events.TurnEnd():
                self._activity.clear()
                self._say("end", self.rows.end(event, self._report, self._clock() - self._started))

    def _text(self, delta: str) -> None:
        if self._stream is None:
            self._end_stretch()
            if not delta.strip():
                return
            self._stream = MarkdownStream(self.width)
        self._activity.hear("writing")
        self._said.append(delta)
        self._unset.append(delta)
        self._unset_size += len(delta)
        self.has_waiting = True
        if self._unset_size >= SLICE:
            self._set_text()

    def _set_text(self) -> None:
        """Render collected text for the next frame."""
        if self._stream is not None and self._unset:
            delta, self._unset, self._unset_size = "".join(self._unset), [], 0
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
            self.shown_parts.add(ShownPart("answer", "answer", said))
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
        self.shown_parts.add(ShownPart("reasoning", title, reasoning, folded=len(lines) > 1))
        hint = f" ({self.key})" if self.key and len(lines) > 1 else ""
        row = Text(f"{title}: {gist}", "dim italic")
        self._say("note", [Text.assemble(truncate(row, self.width - len(hint)), (hint, QUIET))])

    def _result(self, event: events.ToolResult) -> None:
        self._activity.running.pop(event.id, None)
        title = self._titles.get(event.id) or one_line(event.name, 80)
        rows = result_rows(title, event, self.width, self.key, approved=event.id in self.approved)
        whole = event.display if event.display is not None else event.text
        is_folded = clean(whole).rstrip("\n").count("\n") + 1 > len(rows) - 1
        self.shown_parts.add(ShownPart("call", rows[0].plain, whole, is_folded))
        if event.display in self.seen:
            rows = rows[:1]
        self._say("call", rows)
        if len(rows) > _TALL:
            self._block = "tall call"

    def _say(self, block: str, rows: Sequence[Text]) -> None:
        """Print rows immediately."""
        if rows:
            self._put(block, rows)
            self._draw()

    def _put(self, block: str, rows: Sequence[Text]) -> None:
        """Print rows with the next frame; a blank row separates parts."""
        if not rows:
            return
        together = (block == self._block and block != "prompt") or not rows[0].plain.strip()
        if self._block and not self._is_parted and not together and (self._block, block) not in _TOGETHER:
            self._finished.append(Text())
        self._block = block
        self._is_parted = not rows[-1].plain.strip()
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
        if tail and self._block not in ("", "text") and not self._is_parted:
            tail = [Text(), *tail]
        shown = self.asking or self._activity.rows(max(width, 20))
        gap = [Text()] if tail or (self._block and not self._is_parted) else []
        if self._block == "asked" if self.asking else not (shown or self.waiting):
            gap = []  # the question's first part is right above, or nothing is below
        self._frame([*tail, *gap, *shown, *self.waiting], width)

    def _frame(self, live: Sequence[Text], width: int = 80) -> None:
        """Print finished rows and draw the live rows that fit."""
        printed, self._finished, self.has_waiting = self.written(self._finished), [], False
        if self._bottom is not None:
            rows = [truncate(row, max(width, 1)) for row in live[-self._bottom.room :]]
            self._bottom.draw(printed, [(self.console.written(row), row.cell_len) for row in rows])
        elif printed:
            self.console.file.write(writable(printed, self.console.file))
            self.console.file.flush()


def show_last_turns(renderer: Renderer, messages: Sequence[Message], mask: Callable[[str], str]) -> None:
    """Show earlier turns folded, the last one in full. Each prompt and answer is kept whole for the pager."""
    starts = [place for place, message in enumerate(messages) if kind_of(message) == "prompt"]
    if not starts:
        return
    if (earlier := len(starts) - _LAST_TURNS) > 0:
        renderer.say([Text(f"… {plural(earlier, 'earlier turn')}", QUIET)])
    for start, end in list(zip(starts, [*starts[1:], len(messages)], strict=True))[-_LAST_TURNS:]:
        turn = messages[start + 1 : end]
        said = (text_of(each).strip() for each in reversed(turn) if kind_of(each) == "assistant")
        prompt, answer = mask(text_of(messages[start]).strip()), mask(next(filter(None, said), ""))
        renderer.keep_prompt(prompt)
        if start == starts[-1]:
            lines = prompt.split("\n")
            hidden = len(lines) - _PROMPT_LINES
            note = [f"… {plural(hidden, 'more line')}"] if hidden > 0 else []
            renderer.say_prompt("\n".join([*lines[:_PROMPT_LINES], *note]))
            _show_answer(renderer, answer)
            continue
        renderer.shown_parts.add(ShownPart("answer", "answer", answer, folded=True))
        calls = sum(len(calls_of(each)) for each in turn)
        facts = f"{plural(calls, 'call')} · " if calls else ""
        renderer.say_prompt(one_line(prompt, renderer.width - MARGIN))
        row = Text(f"{' ' * MARGIN}{facts}{one_line(answer, renderer.width) or 'no answer'}", QUIET)
        renderer.say([truncate(row, renderer.width)])


def _show_answer(renderer: Renderer, answer: str) -> None:
    """Show the end of the last answer."""
    if not answer:
        return
    shown = answer[-_LONGEST_ANSWER:]
    rows = markdown_rows(clean(shown), renderer.width)
    hidden = max(len(rows) - _ANSWER_ROWS, 0) + answer[: -len(shown)].count("\n")
    renderer.shown_parts.add(ShownPart("answer", "answer", answer, hidden > 0))
    if hidden:
        hint = f" ({renderer.key})" if renderer.key else ""
        above = f"{' ' * MARGIN}… {plural(hidden, 'line')} above{hint}"
        rows = [Text(above, QUIET), *rows[-_ANSWER_ROWS:]]
    renderer.say(rows)
