"""What is shown of a conversation that goes on: its last prompt, and the end of the answer to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from codelet.frontends.terminal.show.markdown import markdown_rows
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.shown_parts import ShownPart
from codelet.frontends.terminal.show.style import MARGIN, QUIET
from codelet.messages import Message, kind_of, text_of
from codelet.system.text import clean

_PROMPT_LINES = 8
_ANSWER_ROWS = 20
_LONGEST = 20_000
"""Characters of an answer that are set: the end of a longer one."""


def show_last_turn(renderer: Renderer, messages: Sequence[Message], mask: Callable[[str], str]) -> None:
    """Show the last prompt and the last answer to it, as far as there are such; ctrl-o shows them whole."""
    place = next((n for n in range(len(messages) - 1, -1, -1) if kind_of(messages[n]) == "prompt"), None)
    if place is None:
        return
    asked = mask(text_of(messages[place]).strip())
    lines = asked.split("\n")
    if (hidden := len(lines) - _PROMPT_LINES) > 0:
        lines = [*lines[:_PROMPT_LINES], f"{renderer.signs.more} {plural(hidden, 'more line')}"]
    renderer.keep_prompt(asked)
    renderer.say_prompt("\n".join(lines))
    said = (text_of(each).strip() for each in reversed(messages[place + 1 :]) if kind_of(each) == "assistant")
    answer = mask(next(filter(None, said), ""))
    if not answer:
        return
    end = answer[-_LONGEST:]
    rows = markdown_rows(clean(end), renderer.width, renderer.signs)
    hidden = max(len(rows) - _ANSWER_ROWS, 0) + answer[: -len(end)].count("\n")
    renderer.shown_parts.add(ShownPart("answer", "answer", answer, hidden > 0))
    if hidden:
        hint = f" ({renderer.key})" if renderer.key else ""
        above = f"{' ' * MARGIN}{renderer.signs.more} {plural(hidden, 'line')} above{hint}"
        rows = [Text(above, QUIET), *rows[-_ANSWER_ROWS:]]
    renderer.say(rows)
