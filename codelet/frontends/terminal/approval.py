"""Asks the user whether a tool call may run.

A question is answered by a single letter or number, or by Enter on the marked choice. Typing (several keys, a paste, a
line begun earlier) goes to the input line and answers nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from rich.text import Text

from codelet.errors import UsageError
from codelet.frontends.terminal.menu import HINT
from codelet.frontends.terminal.prompt_line import PromptLine
from codelet.frontends.terminal.question import (
    AnswerChoice,
    body_rows,
    choices_for,
    head_rows,
    offered_rule,
    reason_rows,
    where_rows,
)
from codelet.frontends.terminal.show.console import wrap, wrap_indented
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.style import ACCENT, QUIET, WARN
from codelet.safety.verdict import Answer, Question
from codelet.system.text import one_line, visible

_TYPING_SECONDS = 1.0
"""After this many seconds without typing a question may open."""

_ALONE_SECONDS = 0.5
"""A letter answers if no other key comes within this time before or after it."""

_MOST_EXAMPLES = 3
"""Rows of example commands for a rule."""
_RULE_HINT = "edit the rule · enter allow it for this session and say yes · esc back"
_WRITTEN = {"reason": "Reason for the model (optional): ", "rule": "Rule: "}
_PASTE_SECONDS = 0.03
"""Faster than any typist: a letter and Enter within this time were pasted."""


@dataclass
class _Open:
    """The question on the screen.

    `writes` is what the user is editing: a reason, or the rule to add, and `problem` what is wrong with that rule.
    `pressed` is the choice of a key that waits to be alone. `on_menu`: the arrows chose the menu over a begun line.
    `first` is the initial mark.
    """

    question: Question
    answer: asyncio.Future[Answer]
    choices: Sequence[AnswerChoice]
    first: int = 0
    shown_at: float = 0.0
    writes: Literal["", "reason", "rule"] = ""
    problem: str = ""
    mark: int = 0
    on_menu: bool = False
    pressed: AnswerChoice | None = None
    pressed_at: float = 0.0
    pressed_key: KeyPress | None = None
    timer: asyncio.TimerHandle | None = None
    printed: bool = False
    bodies: dict[int, list[Text]] = field(default_factory=dict)


class ApprovalDialog:
    """The session's `ask`. `stop` ends the turn; keys that are not answers go to `line`."""

    def __init__(self, renderer: Renderer, line: PromptLine, stop: Callable[[], None]) -> None:
        self._renderer = renderer
        self._line = line
        self._stop = stop
        self._lock = asyncio.Lock()
        self._open: _Open | None = None
        self._typed_here = float("-inf")
        self._number, self._following = 1, 0

    async def ask(self, question: Question) -> Answer:
        """Ask; questions wait for one another. Cancelled with the turn."""
        async with self._lock:
            await self._until_typing_ends()
            answer_to_come: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            choices = choices_for(question)
            first = next(
                at for at, choice in enumerate(choices) if choice.means == "no" or not question.verdict.person_may
            )
            self._number = self._number + 1 if question.following == self._following - 1 else 1
            self._following = question.following
            self._open = _Open(question, answer_to_come, choices, first=first, mark=first)
            try:
                with self._line.asking(self._key, self.redraw):
                    self._line.read_pressed()
                    self._open.shown_at = time.monotonic()
                    if self._line.text:
                        self._show()
                    answer = await self._open.answer
            finally:
                self._cancel_press(self._open)
                self._open = None
                self._renderer.shown_parts.asked = ()
                self._renderer.ask(())
            self._tell(question, answer)
            return answer

    def redraw(self) -> None:
        """Draw the question for the current window size."""
        if self._open is not None:
            self._show()

    async def _until_typing_ends(self) -> None:
        if (wait := self._line.typed_at + _TYPING_SECONDS - time.monotonic()) > 0:
            await asyncio.sleep(wait)
            await self._until_typing_ends()

    def _show(self) -> None:
        assert self._open is not None
        renderer, open_ = self._renderer, self._open
        width, height = renderer.width, renderer.console.height
        if width not in open_.bodies:  # thousands of rows, in the worst case
            open_.bodies = {width: body_rows(open_.question, renderer)}
        body = open_.bodies[width]
        why = [*where_rows(open_.question, renderer), *reason_rows(open_.question, renderer)]
        rows = [*head_rows(open_.question, renderer, number=self._number), *body, *why]
        renderer.shown_parts.asked = rows
        choices = self._choice_rows(open_)
        footer = len(renderer.waiting) + self._line.height
        if len(rows) + len(choices) + footer > height - 2:
            rows = self._too_long(open_, body, height - 2 - len(choices) - footer, len(choices) + footer)
        renderer.ask([*rows, *choices])

    def _too_long(self, open_: _Open, body: list[Text], room: int, below: int) -> list[Text]:
        """Print the whole question above, once; keep its length and what is dangerous in sight."""
        question, renderer = open_.question, self._renderer
        head = head_rows(question, renderer, number=self._number)
        if not open_.printed:
            renderer.say([*head, *body, *where_rows(question, renderer)], asked=True)
            renderer.seen(question.shown)
            open_.printed = True
        lines = plural(len(body), "line")
        hint = _scrolled(lines, len(body))
        reasons = reason_rows(question, renderer, max(room - len(head_rows(question, renderer, hint, self._number)), 2))
        in_sight = (
            renderer.console.height - below - len(reasons) - len(head_rows(question, renderer, hint, self._number))
        )
        above = min(max(len(body) - in_sight, 0), len(body))
        hint = _scrolled(lines, above) if above else ""
        if not hint and len(head) + len(reasons) > room:
            hint = "shortened; the whole has scrolled off"
        return [*head_rows(question, renderer, hint, self._number), *reasons][: max(room, 3)]

    def _choice_rows(self, open_: _Open) -> list[Text]:
        width, sign = self._renderer.width, self._renderer.signs.choice
        if open_.writes == "reason":
            return wrap_indented(Text("enter confirm · esc back", QUIET), width, "  ")
        if open_.writes == "rule":
            hint = Text(open_.problem, WARN) if open_.problem else Text(_RULE_HINT, QUIET)
            rows = wrap_indented(hint, width, "  ")
            if open_.question.covered and self._line.answer == open_.question.verdict.suggestion:
                examples = visible(" · ".join(open_.question.covered))
                rows += wrap_indented(Text(f"It allows, for example: {examples}", QUIET), width, "  ")[:_MOST_EXAMPLES]
            return rows
        rows = []
        line_first = bool(self._line.text) and not open_.on_menu and open_.pressed is None
        for place, choice in enumerate(open_.choices):
            marked = place == open_.mark and not line_first
            words = Text.assemble(
                (visible(choice.words), "bold" if marked else ""), (f" ({choice.key})" if choice.key else "", QUIET)
            )
            first, *more = wrap(words, width - 5)
            lead = Text.assemble((f"{sign if marked else ' '} ", ACCENT), (f"{place + 1}", f"bold {ACCENT}"))
            rows.append(Text.assemble(lead, "  ", first))
            rows += [Text.assemble(" " * 5, row) for row in more]
        hints = [HINT + (" · tab edit the rule" if offered_rule(open_.question) is not None else "")]
        if (timeout := open_.question.timeout) is not None:
            hints.append(f"{timeout:g} s without an answer: no")
        if line_first:
            hints = ["enter queues your message · ↑↓ back to the choices", *hints[1:]]
        return [*rows, *(row for hint in hints for row in wrap_indented(Text(hint, QUIET), width, "  "))]

    def _key(self, press: KeyPress) -> list[KeyPress]:
        """Handle a key; return keys for the input line."""
        open_ = self._open
        assert open_ is not None
        if not open_.shown_at and press.key not in (Keys.Escape, Keys.ControlC):
            return [press]  # it is being drawn, which may take a second: no one has seen what this would answer
        if open_.writes and press.key not in (Keys.ControlC, Keys.ControlM, Keys.Escape):
            return [press]
        match press.key:
            case Keys.Escape if open_.writes:
                self._write(open_, "")
            case Keys.ControlM if open_.writes:
                self._take_written(open_)
            case Keys.Escape | Keys.ControlC:
                self._stop()
            case Keys.ControlZ:
                return [press]
            case Keys.Up | Keys.Down:
                self._cancel_press(open_)
                open_.on_menu = True
                open_.mark = (open_.mark + (1 if press.key == Keys.Down else -1)) % len(open_.choices)
                self._show()
            case Keys.BackTab:
                wanted = next((choice for choice in open_.choices if choice.means == "mode"), None)
                if wanted is not None and self._is_calm(open_):
                    self._take(open_, wanted)
            case Keys.ControlI if offered_rule(open_.question) is not None:
                self._cancel_press(open_)
                self._write(open_, "rule", offered_rule(open_.question) or "")
            case Keys.ControlM:
                return self._enter(open_, press)
            case _ if len(press.key) == 1:
                return self._letter(open_, press)
            case _:
                return self._type(open_, press)
        return []

    def _letter(self, open_: _Open, press: KeyPress) -> list[KeyPress]:
        """Handle a letter: an answer if it stays alone, else typing."""
        letter = press.key.lower()
        numbered = {str(place): choice for place, choice in enumerate(open_.choices, 1)}
        choice = numbered.get(letter) or next((choice for choice in open_.choices if choice.key == letter), None)
        recent = time.monotonic() - self._typed_here < _ALONE_SECONDS
        if choice is None or open_.pressed is not None or recent:
            return self._type(open_, press)
        open_.pressed, open_.pressed_at, open_.pressed_key = choice, time.monotonic(), press
        open_.mark = open_.choices.index(choice)
        if not (choice.means == "always" and self._line.text):  # "a" is a word: after a begun line it needs Enter
            open_.timer = asyncio.get_running_loop().call_later(_ALONE_SECONDS, self._take, open_, choice)
        self._show()
        return []

    def _type(self, open_: _Open, *presses: KeyPress) -> list[KeyPress]:
        """Return keys for the input line, with a letter pressed right before them."""
        pressed = self._cancel_press(open_)
        before = [open_.pressed_key] if pressed is not None and open_.pressed_key is not None else []
        self._typed_here = time.monotonic()
        open_.on_menu, open_.mark = False, open_.first
        asyncio.get_running_loop().call_soon(self.redraw)  # after the line has taken them
        return [*before, *presses]

    def _enter(self, open_: _Open, press: KeyPress) -> list[KeyPress]:
        choice = open_.pressed
        if choice is not None:
            if choice.means in ("yes", "always") and time.monotonic() - open_.pressed_at < _PASTE_SECONDS:
                return self._type(open_)
            if choice.means == "no":
                self._settle(open_, Answer(allow=False))
            else:
                self._take(open_, choice)
        elif self._line.text and not open_.on_menu:
            return self._type(open_, press)
        elif self._is_calm(open_):
            self._take(open_, open_.choices[open_.mark])
        return []

    def _is_calm(self, open_: _Open) -> bool:
        """Return whether the question was on screen long enough, with no typing, for a key to be an answer."""
        return time.monotonic() - max(open_.shown_at, self._typed_here) >= _ALONE_SECONDS

    def _take(self, open_: _Open, choice: AnswerChoice) -> None:
        self._cancel_press(open_)
        match choice.means:
            case "no":
                self._write(open_, "reason")
            case "stop":
                self._stop()
            case _:
                means = choice.means
                self._settle(open_, Answer(True, choice.option, always=means == "always", mode=means == "mode"))

    def _write(self, open_: _Open, what: Literal["", "reason", "rule"], text: str = "") -> None:
        """Edit a reason or a rule in the input line, or go back to the choices."""
        open_.writes, open_.problem = what, ""
        label = "Answer: " if what and open_.question.options is not None else _WRITTEN.get(what)
        self._line.edit_answer(label, text)
        self._show()

    def _take_written(self, open_: _Open) -> None:
        """Handle Enter while editing: no with a reason, or yes with a rule."""
        text = self._line.answer.strip()
        if open_.writes == "reason":
            self._settle(open_, Answer(allow=False, reason=text))
            return
        from codelet.safety.rules import parse_rule

        try:
            rule = parse_rule(text).text
        except UsageError as error:
            open_.problem = one_line(str(error), 200)
            self._show()
            return
        changed = "" if rule == open_.question.verdict.suggestion else rule
        self._settle(open_, Answer(True, always=True, rule=changed))

    def _cancel_press(self, open_: _Open) -> AnswerChoice | None:
        """Drop a letter that waits to be alone; return its choice."""
        if open_.timer is not None:
            open_.timer.cancel()
        pressed, open_.pressed, open_.timer = open_.pressed, None, None
        return pressed

    def _settle(self, open_: _Open, answer: Answer) -> None:
        if not open_.answer.done():
            open_.answer.set_result(answer)

    def _tell(self, question: Question, answer: Answer) -> None:
        """Report what the answer allows beyond this call."""
        verdict = question.verdict
        if answer.mode and verdict.lifted_by:
            self._note(f"{verdict.lifted_by} mode: edits in the workspace no longer ask; /mode ask turns this off")
        elif answer.always:
            self._note(f"allowed for this session: {answer.rule or verdict.suggestion or 'exactly this command'}")

        if answer.allow:
            self._renderer.approved.add(question.call_id)

    def _note(self, text: str) -> None:
        self._renderer.say(self._renderer.rows.note(visible(text)))


def _scrolled(lines: str, above: int) -> str:
    return f"{lines}; the first {above:,} have scrolled off"
