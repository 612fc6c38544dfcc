"""Everything the screen shows in part, in full: prompts, reasoning, answers, results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from codelet.frontends.terminal.show.console import truncate, wrap, wrap_indented
from codelet.frontends.terminal.show.diff_rows import diff_rows, is_diff
from codelet.frontends.terminal.show.markdown import markdown_rows
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.style import MARGIN, QUIET, Signs
from codelet.messages import Message, calls_of, kind_of, text_of
from codelet.record import Record
from codelet.system.text import clean, one_line

if TYPE_CHECKING:
    from codelet.frontends.terminal.show.renderer import Renderer

_MOST_PARTS = 500
_NO_LIMIT = 1_000_000
_TURNS = 4
_PROMPT_LINES = 8
_ANSWER_ROWS = 20
_LONGEST = 20_000
"""The most characters of an answer that are rendered, from its end."""

PartKind = Literal["prompt", "reasoning", "answer", "call"]


class ShownPart(Record):
    """One part; `folded`: the screen shows only some of it."""

    kind: PartKind
    title: str
    text: str
    folded: bool = False


class ShownParts:
    """A session's newest parts. `asked` are the rows of the open question."""

    def __init__(self) -> None:
        self.asked: Sequence[Text] = ()
        self._parts: deque[ShownPart] = deque(maxlen=_MOST_PARTS)

    def add(self, part: ShownPart) -> None:
        """Add a part; drop the oldest if needed."""
        self._parts.append(part)

    def forget(self) -> None:
        """Drop all parts."""
        self._parts.clear()

    def last(self) -> ShownPart | None:
        """The last folded part, else the last part, or None."""
        return next((part for part in reversed(self._parts) if part.folded), self._parts[-1] if self._parts else None)

    def rows(self, width: int, signs: Signs) -> tuple[list[Text], int]:
        """All parts, oldest first, and the index of the row to show first."""
        rows: list[Text] = []
        wanted, place = self.last(), 0
        for part in self._parts:
            if part is wanted:
                place = len(rows)
            rows += [*part_rows(part, width, signs), Text()]
        return ([*rows, *self.asked], len(rows)) if self.asked else (rows, place)


def part_rows(part: ShownPart, width: int, signs: Signs) -> list[Text]:
    """One part in full, below its title."""
    title = wrap(Text(part.title, "bold"), width)
    if part.kind == "answer":
        return [*title, *markdown_rows(clean(part.text), width, signs)]
    if is_diff(part.text):
        return [*title, *diff_rows(part.text, width, signs, limit=_NO_LIMIT)]
    style = "dim italic" if part.kind == "reasoning" else ""
    return [*title, *wrap_indented(Text(clean(part.text).rstrip("\n"), style), width, " " * MARGIN)]


def show_last_turns(renderer: Renderer, messages: Sequence[Message], mask: Callable[[str], str]) -> None:
    """Show the last turns of a resumed conversation: earlier ones folded, the last one in full."""
    starts = [place for place, message in enumerate(messages) if kind_of(message) == "prompt"]
    if not starts:
        return
    more = renderer.signs.more
    if (earlier := len(starts) - _TURNS) > 0:
        renderer.say([Text(f"{more} {plural(earlier, 'earlier turn')}", QUIET)])
    for start, end in list(zip(starts, [*starts[1:], len(messages)], strict=True))[-_TURNS:]:
        turn = messages[start + 1 : end]
        said = (text_of(each).strip() for each in reversed(turn) if kind_of(each) == "assistant")
        prompt, answer = mask(text_of(messages[start]).strip()), mask(next(filter(None, said), ""))
        renderer.keep_prompt(prompt)
        if start == starts[-1]:
            lines = prompt.split("\n")
            hidden = len(lines) - _PROMPT_LINES
            note = [f"{more} {plural(hidden, 'more line')}"] if hidden > 0 else []
            renderer.say_prompt("\n".join([*lines[:_PROMPT_LINES], *note]))
            _show_answer(renderer, answer)
            continue
        renderer.shown_parts.add(ShownPart("answer", "answer", answer, folded=True))
        calls = sum(len(calls_of(each)) for each in turn)
        facts = f"{plural(calls, 'call')} {renderer.signs.dot} " if calls else ""
        renderer.say_prompt(one_line(prompt, renderer.width - MARGIN))
        row = Text(f"{' ' * MARGIN}{facts}{one_line(answer, renderer.width) or 'no answer'}", QUIET)
        renderer.say([truncate(row, renderer.width, more)])


def _show_answer(renderer: Renderer, answer: str) -> None:
    """Show the end of the last answer."""
    if not answer:
        return
    shown = answer[-_LONGEST:]
    rows = markdown_rows(clean(shown), renderer.width, renderer.signs)
    hidden = max(len(rows) - _ANSWER_ROWS, 0) + answer[: -len(shown)].count("\n")
    renderer.shown_parts.add(ShownPart("answer", "answer", answer, hidden > 0))
    if hidden:
        hint = f" ({renderer.key})" if renderer.key else ""
        above = f"{' ' * MARGIN}{renderer.signs.more} {plural(hidden, 'line')} above{hint}"
        rows = [Text(above, QUIET), *rows[-_ANSWER_ROWS:]]
    renderer.say(rows)
