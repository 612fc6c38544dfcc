"""Asks the person whether a tool call may run: everything shown, nothing decided by accident.

A question takes a letter that stands alone, or Enter on the marked choice. Whatever looks like typing (letters in a
row, a paste, a line that was begun before) goes to the line for the next prompt and answers nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from codelet.errors import UsageError
from codelet.frontends.terminal.draft import Draft
from codelet.frontends.terminal.keys import Key, Keyboard
from codelet.frontends.terminal.menu import HINT
from codelet.frontends.terminal.question import (
    AnswerChoice,
    body_rows,
    choices_for,
    head_rows,
    offered_rule,
    reason_rows,
    where_rows,
)
from codelet.frontends.terminal.show.console import wrap, wrap_behind_sign, wrap_indented
from codelet.frontends.terminal.show.numbers import plural
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.style import ACCENT, QUIET, WARN
from codelet.safety.verdict import Answer, Question
from codelet.system.text import clean, one_line, visible

_TYPING_SECONDS = 1.0
"""Keys within this time after the last typed-ahead one are still meant for the line, not for a question."""

_ALONE_SECONDS = 0.5
"""A letter is an answer when no other key comes within this time before or after it."""

_MOST_EXAMPLES = 3
"""Rows of commands that a rule would cover."""
_RULE_HINT = "edit the rule · enter allow it for this session and say yes · esc back"
_PASTE_SECONDS = 0.03
"""Nobody presses a letter and Enter as quickly as this: it was pasted."""


@dataclass
class _Open:
    """The question on the screen. `reason` is None until the user has said no and may say why, `rule` until the user
    changes the rule that "always" would add; `problem` is what is wrong with it.

    `pressed` is the choice of a letter that waits to be alone, since `pressed_at`. `on_menu` says that the user has
    turned to the choices, although a line was begun. `first` is the choice that Enter takes until the mark is moved.
    """

    question: Question
    answer: asyncio.Future[Answer]
    choices: Sequence[AnswerChoice]
    shown_at: float
    first: int = 0
    reason: str | None = None
    rule: str | None = None
    problem: str = ""
    mark: int = 0
    on_menu: bool = False
    pressed: AnswerChoice | None = None
    pressed_at: float = 0.0
    pressed_key: str = ""
    timer: asyncio.TimerHandle | None = None
    printed: bool = False
    bodies: dict[int, list[Text]] = field(default_factory=dict)


class ApprovalDialog:
    """The session's `ask`. `stop` ends the turn; `typed` returns when the user last typed ahead into `draft`."""

    def __init__(
        self,
        renderer: Renderer,
        keyboard: Keyboard,
        stop: Callable[[], None],
        typed: Callable[[], float],
        draft: Draft,
    ) -> None:
        self._renderer = renderer
        self._keyboard = keyboard
        self._stop = stop
        self._typed = typed
        self._draft = draft
        self._lock = asyncio.Lock()
        self._open: _Open | None = None
        self._typed_here = float("-inf")
        self._number, self._following = 1, 0
        self._to_line: Callable[[Key], None] = lambda key: None

    async def ask(self, question: Question) -> Answer:
        """Ask; questions are put one after the other. Cancelled with the turn."""
        async with self._lock:
            await self._until_typing_ends()
            self._to_line = self._keyboard.handler
            answer_to_come: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            choices = choices_for(question)
            first = next(
                at for at, choice in enumerate(choices) if choice.means == "no" or not question.verdict.person_may
            )
            self._number = self._number + 1 if question.following == self._following - 1 else 1
            self._following = question.following
            self._open = _Open(question, answer_to_come, choices, time.monotonic(), first=first, mark=first)
            try:
                self._show_to_answer()
                answer = await self._open.answer
            finally:
                self._cancel_press(self._open)
                self._open = None
                self._keyboard.handler = self._to_line
                self._renderer.shown_parts.asked = ()
                self._renderer.ask(())
            self._tell(question, answer)
            return answer

    def redraw(self) -> None:
        """Lay the question out again: the window has another size."""
        if self._open is not None:
            self._show()

    def _show_to_answer(self) -> None:
        """Show the question and listen for its answer. What is pressed while it is drawn, which may take a second, goes
        to the line as before: nobody has seen what it would answer.
        """
        assert self._open is not None
        self._show()
        typed = self._typed()
        self._keyboard.read_pressed()
        self._keyboard.handler = self._key
        self._open.shown_at = time.monotonic()
        if self._typed() != typed:
            self._show()

    async def _until_typing_ends(self) -> None:
        if (wait := self._typed() + _TYPING_SECONDS - time.monotonic()) > 0:
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
        typing = open_.reason is not None or open_.rule is not None
        footer = (0 if typing else len(renderer.footer)) + (renderer.status is not None)
        if len(rows) + len(choices) + footer > height - 2:
            rows = self._too_long(open_, body, height - 2 - len(choices) - footer, len(choices) + footer)
        if renderer.is_live:
            renderer.ask([*rows, *choices], cursor=typing)
        elif not open_.printed or open_.reason == "" or self._is_new_rule(open_):
            renderer.say([*(() if open_.printed else rows), *choices])
            open_.printed = True

    def _too_long(self, open_: _Open, body: list[Text], room: int, below: int) -> list[Text]:
        """Print the whole above, once. The rows that stay in sight say how long it is and what is dangerous in it."""
        question, renderer = open_.question, self._renderer
        head = head_rows(question, renderer, number=self._number)
        if not open_.printed:
            renderer.say([*head, *body, *where_rows(question, renderer)], asked=True)
            renderer.seen(question.shown)
            open_.printed = renderer.is_live
        lines = plural(len(body), "line")
        told = _scrolled(lines, len(body))
        reasons = reason_rows(question, renderer, max(room - len(head_rows(question, renderer, told, self._number)), 2))
        in_sight = (
            renderer.console.height - below - len(reasons) - len(head_rows(question, renderer, told, self._number))
        )
        above = min(max(len(body) - in_sight, 0), len(body))
        told = _scrolled(lines, above) if above else ""
        if not told and len(head) + len(reasons) > room:
            told = "shortened; the whole has scrolled off"
        return [*head_rows(question, renderer, told, self._number), *reasons][: max(room, 3)]

    def _choice_rows(self, open_: _Open) -> list[Text]:
        width, sign = self._renderer.width, self._renderer.signs.choice
        if open_.reason is not None:
            hint = Text("enter confirm · esc back", QUIET)
            reason = Text.assemble("Reason for the model (optional): ", clean(open_.reason))
            return [*wrap_indented(hint, width, "  "), *wrap_indented(reason, width, "  ")]
        if open_.rule is not None:
            told = Text(open_.problem, WARN) if open_.problem else Text(_RULE_HINT, QUIET)
            rows = [
                *wrap_indented(told, width, "  "),
                *wrap_indented(Text(f"Rule: {visible(open_.rule)}"), width, "  "),
            ]
            if open_.question.covered and open_.rule == open_.question.verdict.suggestion:
                examples = visible(" · ".join(open_.question.covered))
                rows += wrap_indented(Text(f"It allows, for example: {examples}", QUIET), width, "  ")[:_MOST_EXAMPLES]
            return rows
        rows = []
        line_first = bool(self._draft.text) and not open_.on_menu and open_.pressed is None
        for place, choice in enumerate(open_.choices):
            marked = place == open_.mark and not line_first
            words = Text.assemble((visible(choice.words), "bold" if marked else ""), (f" ({choice.key})", QUIET))
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

    def _key(self, key: Key) -> None:
        open_ = self._open
        assert open_ is not None
        if open_.reason is not None:
            self._reason_key(key, open_, open_.reason)
            return
        if open_.rule is not None:
            self._rule_key(key, open_, open_.rule)
            return
        match key.meaning:
            case "escape" | "interrupt":
                self._stop()
            case "suspend":
                self._to_line(key)
                self._show()
            case "up" | "down":
                self._cancel_press(open_)
                open_.on_menu = True
                open_.mark = (open_.mark + (1 if key.meaning == "down" else -1)) % len(open_.choices)
                if not self._renderer.is_live:
                    choice = open_.choices[open_.mark]
                    self._renderer.say([Text(f"{self._renderer.signs.choice} {visible(choice.words)}")])
                self._show()
            case "mode":
                wanted = next((choice for choice in open_.choices if choice.means == "mode"), None)
                if wanted is not None and self._is_calm(open_):
                    self._take(open_, wanted)
            case "tab" if offered_rule(open_.question) is not None:
                self._cancel_press(open_)
                open_.rule = offered_rule(open_.question)
                self._show()
            case "enter":
                self._enter(open_, key)
            case "text":
                self._text(open_, key)
            case _:
                self._type(open_, key)

    def _text(self, open_: _Open, key: Key) -> None:
        """A letter: an answer if it stays alone, else a part of what the user types."""
        letter = key.text.lower()
        numbered = {str(place): choice for place, choice in enumerate(open_.choices, 1)}
        choice = numbered.get(letter) or next((choice for choice in open_.choices if choice.key == letter), None)
        recent = time.monotonic() - self._typed_here < _ALONE_SECONDS
        if choice is None or open_.pressed is not None or recent:
            self._type(open_, key)
            return
        open_.pressed, open_.pressed_at, open_.pressed_key = choice, time.monotonic(), letter
        open_.mark = open_.choices.index(choice)
        if not (choice.means == "always" and self._draft.text):  # "a" is a word: behind a begun line it wants Enter
            open_.timer = asyncio.get_running_loop().call_later(_ALONE_SECONDS, self._take, open_, choice)
        self._show()

    def _type(self, open_: _Open, key: Key) -> None:
        """Send the key to the line for the next prompt, along with a letter pressed right before it."""
        pressed = self._cancel_press(open_)
        for each in ([Key("text", open_.pressed_key)] if pressed is not None else []) + [key]:
            self._to_line(each)
        self._typed_here = time.monotonic()
        open_.on_menu, open_.mark = False, open_.first
        asyncio.get_running_loop().call_soon(self.redraw)  # after the line has drawn itself

    def _enter(self, open_: _Open, key: Key) -> None:
        choice = open_.pressed
        if choice is not None:
            if choice.means in ("yes", "always") and time.monotonic() - open_.pressed_at < _PASTE_SECONDS:
                self._type(open_, Key("text", ""))
            elif choice.means == "no":
                self._settle(open_, Answer(allow=False))
            else:
                self._take(open_, choice)
        elif self._draft.text and not open_.on_menu:
            self._type(open_, key)
        elif self._is_calm(open_):
            self._take(open_, open_.choices[open_.mark])

    def _is_calm(self, open_: _Open) -> bool:
        """Whether a key can be meant for this question: it has been there for a moment, and nothing was typed."""
        return time.monotonic() - max(open_.shown_at, self._typed_here) >= _ALONE_SECONDS

    def _take(self, open_: _Open, choice: AnswerChoice) -> None:
        self._cancel_press(open_)
        match choice.means:
            case "no":
                open_.reason = ""
                self._show()
            case "stop":
                self._stop()
            case _:
                self._settle(open_, Answer(True, always=choice.means == "always", mode=choice.means == "mode"))

    def _reason_key(self, key: Key, open_: _Open, reason: str) -> None:
        match key.meaning:
            case "text" | "paste":
                open_.reason = reason + key.text
            case "backspace":
                open_.reason = reason[:-1]
            case "line" | "word":
                open_.reason = ""
            case "enter":
                self._settle(open_, Answer(allow=False, reason=reason.strip()))
                return
            case "escape":
                open_.reason = None
            case "interrupt":
                self._stop()
                return
        self._show()

    def _rule_key(self, key: Key, open_: _Open, rule: str) -> None:
        """A key while the rule is changed: Enter allows what it says, if it is a rule."""
        open_.problem = ""
        match key.meaning:
            case "text" | "paste":
                open_.rule = rule + key.text.replace("\n", " ")
            case "backspace":
                open_.rule = rule[:-1]
            case "word":
                open_.rule = rule[: len(rule.rstrip()) - len((rule.split() or [""])[-1])]
            case "line":
                open_.rule = ""
            case "enter":
                self._take_rule(open_, rule.strip())
                return
            case "escape":
                open_.rule = None
            case "interrupt":
                self._stop()
                return
        self._show()

    def _is_new_rule(self, open_: _Open) -> bool:
        """Whether the rule's rows say something new: each key would print them again where nothing is redrawn."""
        return open_.rule is not None and (bool(open_.problem) or open_.rule == open_.question.verdict.suggestion)

    def _take_rule(self, open_: _Open, rule: str) -> None:
        from codelet.safety.rules import parse_rule

        try:
            text = parse_rule(rule).text
        except UsageError as error:
            open_.problem = one_line(str(error), 200)
            self._show()
            return
        changed = "" if text == open_.question.verdict.suggestion else text
        self._settle(open_, Answer(True, always=True, rule=changed))

    def _cancel_press(self, open_: _Open) -> AnswerChoice | None:
        """Stop waiting for a letter to stay alone; return its choice, if there was one."""
        if open_.timer is not None:
            open_.timer.cancel()
        pressed, open_.pressed, open_.timer = open_.pressed, None, None
        return pressed

    def _settle(self, open_: _Open, answer: Answer) -> None:
        if not open_.answer.done():
            open_.answer.set_result(answer)

    def _tell(self, question: Question, answer: Answer) -> None:
        """Say what the answer allows beyond this call."""
        verdict = question.verdict
        if answer.mode and verdict.lifted_by:
            self._note(f"{verdict.lifted_by} mode: edits in the workspace no longer ask; /mode ask turns this off")
        elif answer.always:
            self._note(f"allowed for this session: {answer.rule or verdict.suggestion or 'exactly this command'}")

        if answer.allow:
            self._renderer.approved.add(question.call_id)

    def _note(self, text: str) -> None:
        note = Text(f"{self._renderer.signs.note} {visible(text)}", QUIET)
        self._renderer.say(wrap_behind_sign(note, self._renderer.width))


def _scrolled(lines: str, above: int) -> str:
    return f"{lines}; the first {above:,} have scrolled off"
