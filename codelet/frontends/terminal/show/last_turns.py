"""Shows the last turns of a resumed conversation."""

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
    """Show earlier turns folded, the last one in full. Each prompt and answer is kept whole for the pager."""
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
