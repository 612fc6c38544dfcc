"""Shows the last turns of a resumed conversation: earlier ones folded, the last in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from codelet.frontends.terminal.show.console import truncate
from codelet.frontends.terminal.show.markdown import markdown_rows
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.shown_parts import ShownPart
from codelet.frontends.terminal.show.style import MARGIN, QUIET
from codelet.messages import Message, calls_of, kind_of, text_of
from codelet.system.text import clean, one_line

_TURNS = 4
_PROMPT_LINES = 8
_ANSWER_ROWS = 20
_LONGEST = 20_000
"""The most characters of an answer that are rendered, from its end."""


def show_last_turns(renderer: Renderer, messages: Sequence[Message], mask: Callable[[str], str]) -> None:
    """Show the last turns. Each prompt and answer is kept whole for the pager."""
    starts = [place for place, message in enumerate(messages) if kind_of(message) == "prompt"]
    if not starts:
        return
    margin, signs = " " * MARGIN, renderer.signs
    hint = f" ({renderer.key})" if renderer.key else ""
    if (earlier := len(starts) - _TURNS) > 0:
        renderer.say([Text(f"{signs.more} {plural(earlier, 'earlier turn')}", QUIET)])
    ends = [*starts[1:], len(messages)]
    for start, end in list(zip(starts, ends, strict=True))[-_TURNS:]:
        turn = messages[start + 1 : end]
        asked, answer = mask(text_of(messages[start]).strip()), mask(_answer(turn))
        renderer.keep_prompt(asked)
        if end != len(messages):
            renderer.shown_parts.add(ShownPart("answer", "answer", answer, folded=True))
            calls = sum(len(calls_of(each)) for each in turn)
            facts = f"{plural(calls, 'call')} {signs.dot} " if calls else ""
            folded = Text.assemble(f"{margin}", (f"{facts}{one_line(answer, renderer.width) or 'no answer'}", QUIET))
            renderer.say_prompt(one_line(asked, renderer.width - MARGIN))
            renderer.say([truncate(folded, renderer.width, signs.more)])
            continue
        lines = asked.split("\n")
        if (hidden := len(lines) - _PROMPT_LINES) > 0:
            lines = [*lines[:_PROMPT_LINES], f"{signs.more} {plural(hidden, 'more line')}"]
        renderer.say_prompt("\n".join(lines))
        if not answer:
            continue
        shown = answer[-_LONGEST:]
        rows = markdown_rows(clean(shown), renderer.width, signs)
        hidden = max(len(rows) - _ANSWER_ROWS, 0) + answer[: -len(shown)].count("\n")
        renderer.shown_parts.add(ShownPart("answer", "answer", answer, hidden > 0))
        if hidden:
            above = f"{margin}{signs.more} {plural(hidden, 'line')} above{hint}"
            rows = [Text(above, QUIET), *rows[-_ANSWER_ROWS:]]
        renderer.say(rows)


def _answer(turn: Sequence[Message]) -> str:
    """The assistant's last text in a turn."""
    said = (text_of(each).strip() for each in reversed(turn) if kind_of(each) == "assistant")
    return next(filter(None, said), "")
