"""Questions on the screen: a choice from a list, and whether a tool call may run.

A question about a call is answered by a single letter or number, or by Enter on the marked choice. Typing (several
keys, a paste, a line begun earlier) goes to the input line and answers nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from rich.text import Text

from codelet.errors import UsageError
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
from codelet.frontends.terminal.show.console import truncate, wrap, wrap_indented
from codelet.frontends.terminal.show.numbers import plural, tokens
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.show.style import ACCENT, QUIET, WARN
from codelet.frontends.terminal.status_row import Attention
from codelet.providers.choice.known import KnownModel
from codelet.safety.verdict import Answer, Question
from codelet.system.text import clean, one_line, visible

_Result = TypeVar("_Result")
_HINT = "↑↓ select · enter confirm"
_CALM_SECONDS = 0.2
"""Enter within this time was meant for what was there before."""
_FEWEST_ROWS = 3
_SHORT_HEAD = 2
"""Rows of a question's first line that are shown below its text in any case."""
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


async def choose(
    renderer: Renderer, line: PromptLine, head: Sequence[Text], options: Sequence[Text], mark: int = 0
) -> int | None:
    """Print `head` and return the index of the chosen option, or None."""
    for first, *more in (wrap(each, renderer.width - 2) for each in head):
        renderer.say([first, *(Text.assemble("  ", row) for row in more)])
    return await _Menu(renderer, lambda: options, mark).ask(line)


async def pick_model(renderer: Renderer, line: PromptLine, models: Sequence[KnownModel], current: str) -> str | None:
    """Return the name of the chosen model, or None. `current` is marked first."""
    if not models:
        return None
    mark = next((at for at, model in enumerate(models) if model.name == current), 0)
    searched = [f"{model.name} {model.vendor.name}".lower() for model in models]
    menu = _Menu(renderer, lambda: _model_rows(models, current, renderer.width), mark, "Choose a model", searched)
    place = await menu.ask(line)
    return None if place is None else models[place].name


def _model_rows(models: Sequence[KnownModel], current: str, width: int) -> list[Text]:
    columns = min(max(len(model.name) for model in models), max(width - 26, 30))
    rows = []
    for model in models:
        facts = model.facts
        window = tokens(facts.window) if facts.known else f"~{tokens(facts.window)}"
        price = model.price if facts.free else f"${model.price}"
        details = f" {window:>6}  {price}{' now' if model.name == current else ''}"
        rows.append(Text.assemble(f"{one_line(model.name, columns):<{columns}}", (details, QUIET)))
    return rows


class _Menu:
    """The list on the screen. `options` makes its rows for the current width; typing filters by `searched`."""

    def __init__(
        self,
        renderer: Renderer,
        options: Callable[[], Sequence[Text]],
        mark: int,
        title: str = "",
        searched: Sequence[str] = (),
    ) -> None:
        self._taken: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._renderer, self._options, self._mark, self._title = renderer, options, mark, title
        self._places = list(range(len(options())))
        self._searched, self._words = searched, ""
        self._shown_at = time.monotonic()

    async def ask(self, line: PromptLine) -> int | None:
        """Show the list until an option is chosen; None for none."""
        with line.asking(self._key, self._show):
            try:
                return await self._taken
            finally:
                self._renderer.ask(())
                self._renderer.stop()

    def _show(self) -> None:
        """Draw the list, or the part around the mark."""
        renderer, options = self._renderer, self._options()
        width = renderer.width
        room = max(renderer.console.height - 5, _FEWEST_ROWS)
        first = min(max(self._mark - room // 2, 0), max(len(self._places) - room, 0))
        rows = []
        if self._title:
            title = Text.assemble(("? ", f"bold {ACCENT}"), self._title, (f"  {clean(self._words)}", ACCENT))
            rows.append(truncate(title, width))
        for at, place in enumerate(self._places[first : first + room], first):
            marked = at == self._mark
            row = Text.assemble((f"{'▸' if marked else ' '} ", ACCENT), options[place])
            if marked:
                row.stylize("bold")
            rows.append(truncate(row, width))
        if not self._places:
            rows.append(Text("  no match", QUIET))
        hidden = len(self._places) - min(room, len(self._places))
        hints = [_HINT, *(["type to filter"] if self._searched else []), "esc cancel"]
        hints += [f"{hidden} more"] if hidden else []
        renderer.ask([*rows, truncate(Text(f"  {' · '.join(hints)}", QUIET), width)])

    def _key(self, press: KeyPress) -> list[KeyPress]:
        match press.key:
            case Keys.Up | Keys.Down if self._places:
                self._mark = (self._mark + (1 if press.key == Keys.Down else -1)) % len(self._places)
            case Keys.ControlM if self._places and time.monotonic() - self._shown_at >= _CALM_SECONDS:
                _settle(self._taken, self._places[self._mark])
                return []
            case Keys.Escape | Keys.ControlC | Keys.ControlD:
                _settle(self._taken, None)
                return []
            case Keys.ControlZ:
                return [press]
            case Keys.ControlH:
                self._narrow(self._words[:-1])
            case _ if len(press.key) == 1 or press.key == Keys.BracketedPaste:
                self._narrow(self._words + one_line(press.data, 40))
        self._show()
        return []

    def _narrow(self, words: str) -> None:
        if self._searched:
            self._words, self._mark = words, 0
            matches = words.lower().split()
            self._places = [at for at, text in enumerate(self._searched) if all(word in text for word in matches)]


class ApprovalDialog:
    """The session's `ask`. `stop` ends the turn; keys that are not answers go to `line`."""

    def __init__(self, renderer: Renderer, line: PromptLine, stop: Callable[[], None], attention: Attention) -> None:
        self._renderer, self._line, self._stop, self._attention = renderer, line, stop, attention
        self._lock = asyncio.Lock()
        self._number, self._following = 1, 0

    async def ask(self, question: Question) -> Answer:
        """Ask; questions wait for one another. Cancelled with the turn."""
        renderer, verdict = self._renderer, question.verdict
        self._attention.asked()
        async with self._lock:
            while True:
                wait = self._line.typed_at + _TYPING_SECONDS - time.monotonic()
                if wait <= 0:
                    break
                await asyncio.sleep(wait)
            self._number = self._number + 1 if question.following == self._following - 1 else 1
            self._following = question.following
            answer = await _OpenQuestion(question, self._number, renderer, self._line, self._stop).answered()
            if answer.mode and verdict.lifted_by:
                note = f"{verdict.lifted_by} mode: edits in the workspace no longer ask; /mode ask turns this off"
                renderer.say(renderer.rows.note(visible(note)))
            elif answer.always:
                rule = answer.rule or verdict.suggestion or "exactly this command"
                renderer.say(renderer.rows.note(visible(f"allowed for this session: {rule}")))
            if answer.allow:
                renderer.approved.add(question.call_id)
            self._attention.title("working")
            return answer


class _OpenQuestion:
    """The question on the screen, the `number`-th of its step."""

    def __init__(
        self, question: Question, number: int, renderer: Renderer, line: PromptLine, stop: Callable[[], None]
    ) -> None:
        self._question, self._number = question, number
        self._renderer, self._line, self._stop = renderer, line, stop
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._choices = choices_for(question)
        self._first = next(
            at for at, choice in enumerate(self._choices) if choice.means == "no" or not question.verdict.person_may
        )
        self._mark = self._first
        self._shown_at = 0.0
        self._typed_at = float("-inf")
        self._writes: Literal["", "reason", "rule"] = ""
        """The text that the user edits: a reason, or the rule to add."""
        self._problem = ""
        """The error in that rule."""
        self._on_menu = False
        """The arrows chose the menu over a begun line."""
        self._pressed: tuple[AnswerChoice, KeyPress, float] | None = None
        """The choice of a key that waits to be alone, and when it came."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_printed = False
        self._bodies: dict[int, list[Text]] = {}

    async def answered(self) -> Answer:
        try:
            with self._line.asking(self._key, self._show):
                self._line.read_pressed()
                self._shown_at = time.monotonic()
                if self._line.buffer.text:
                    self._show()
                return await self._answer
        finally:
            self._cancel_press()
            self._renderer.shown_parts.asked = ()
            self._renderer.ask(())

    def _show(self) -> None:
        """Draw the question for the current window size."""
        renderer, question = self._renderer, self._question
        if self._answer.done():
            return
        if renderer.width not in self._bodies:  # thousands of rows, in the worst case
            self._bodies = {renderer.width: [*body_rows(question, renderer), *where_rows(question, renderer)]}
        body, choices = self._bodies[renderer.width], self._choice_rows()
        head = head_rows(question, renderer, number=self._number)
        rows = [*head, *body, *reason_rows(question, renderer)]
        renderer.shown_parts.asked = rows
        room = renderer.console.height - 2 - len(choices) - len(renderer.waiting) - self._line.height
        if len(rows) > room and not self._is_printed:
            renderer.say([*(head if len(head) > _SHORT_HEAD else ()), *body], "asked")
            renderer.seen.add(question.shown)
            self._is_printed = True
        renderer.ask([*(self._below(body, room) if self._is_printed else rows), *choices])

    def _below(self, body: list[Text], room: int) -> list[Text]:
        """Return the question below its printed body: how much of that is out of sight, and what is dangerous."""
        question, renderer = self._question, self._renderer

        def rows(above: int) -> list[Text]:
            gone = "the first has" if above == 1 else f"the first {above:,} have"
            hint = f"{plural(len(body), 'line')}; {gone} scrolled off" if above else ""
            if not above and len(head_rows(question, renderer, number=self._number)) > _SHORT_HEAD:
                hint = "shortened; the whole has scrolled off"
            head = head_rows(question, renderer, hint, self._number)
            return [*head, *reason_rows(question, renderer, max(room - len(head), 2))][: max(room, 3)]

        in_sight = room + 2 - len(rows(len(body)))
        return rows(min(max(len(body) - in_sight, 0), len(body)))

    def _choice_rows(self) -> list[Text]:
        if self._writes:
            return self._written_rows()
        width = self._renderer.width
        rows = []
        line_first = bool(self._line.buffer.text) and not self._on_menu and self._pressed is None
        for place, choice in enumerate(self._choices):
            marked = place == self._mark and not line_first
            key = f" ({choice.key})" if choice.key else ""
            first, *more = wrap(
                Text.assemble((visible(choice.words), "bold" if marked else ""), (key, QUIET)), width - 5
            )
            lead = Text.assemble((f"{'▸' if marked else ' '} ", ACCENT), (f"{place + 1}", f"bold {ACCENT}"))
            rows += [Text.assemble(lead, "  ", first), *(Text.assemble(" " * 5, row) for row in more)]
        hint = _HINT + (" · tab edit the rule" if offered_rule(self._question) is not None else "")
        hints = ["enter queues your message · ↑↓ back to the choices" if line_first else hint]
        if self._question.timeout is not None:
            hints.append(f"{self._question.timeout:g} s without an answer: no")
        return [*rows, *(row for each in hints for row in wrap_indented(Text(each, QUIET), width, "  "))]

    def _written_rows(self) -> list[Text]:
        """Return the rows below a reason or a rule that is edited."""
        width, covered = self._renderer.width, self._question.covered
        if self._writes == "reason":
            return wrap_indented(Text("enter confirm · esc back", QUIET), width, "  ")
        hint = Text(self._problem, WARN) if self._problem else Text(_RULE_HINT, QUIET)
        rows = wrap_indented(hint, width, "  ")
        if covered and self._line.answer.text == self._question.verdict.suggestion:
            for count in range(len(covered), 0, -1):  # the most that fit, each of them whole
                words = f"It allows, for example: {visible(' · '.join(covered[:count]))}"
                examples = wrap_indented(Text(words, QUIET), width, "  ")
                if len(examples) <= _MOST_EXAMPLES:
                    return [*rows, *examples]
        return rows

    def _key(self, press: KeyPress) -> list[KeyPress]:
        """Handle a key; return keys for the input line."""
        if not self._shown_at and press.key not in (Keys.Escape, Keys.ControlC):
            return [press]  # it is being drawn, which may take a second: no one has seen what this would answer
        if self._writes and press.key not in (Keys.ControlC, Keys.ControlM, Keys.Escape):
            return [press]
        match press.key:
            case Keys.Escape if self._writes:
                self._write("")
            case Keys.ControlM if self._writes:
                self._take_written()
            case Keys.Escape | Keys.ControlC:
                self._stop()
            case Keys.ControlZ:
                return [press]
            case Keys.Up | Keys.Down:
                self._cancel_press()
                self._on_menu = True
                self._mark = (self._mark + (1 if press.key == Keys.Down else -1)) % len(self._choices)
                self._show()
            case Keys.BackTab:
                wanted = next((choice for choice in self._choices if choice.means == "mode"), None)
                if wanted is not None and self._is_calm():
                    self._take(wanted)
            case Keys.ControlI if (rule := offered_rule(self._question)) is not None:
                self._cancel_press()
                self._write("rule", rule)
            case Keys.ControlM:
                return self._enter(press)
            case _ if len(press.key) == 1:
                return self._letter(press)
            case _:
                return self._type(press)
        return []

    def _letter(self, press: KeyPress) -> list[KeyPress]:
        """Handle a letter: an answer if it stays alone, else typing."""
        letter, now = press.key.lower(), time.monotonic()
        numbered = {str(place): choice for place, choice in enumerate(self._choices, 1)}
        choice = numbered.get(letter) or next((choice for choice in self._choices if choice.key == letter), None)
        if choice is None or self._pressed is not None or now - self._typed_at < _ALONE_SECONDS:
            return self._type(press)
        self._pressed, self._mark = (choice, press, now), self._choices.index(choice)
        if not (choice.means == "always" and self._line.buffer.text):  # "a" may be a word of the line
            self._timer = asyncio.get_running_loop().call_later(_ALONE_SECONDS, self._take, choice)
        self._show()
        return []

    def _type(self, *presses: KeyPress) -> list[KeyPress]:
        """Return keys for the input line, with a letter pressed right before them."""
        before = [self._pressed[1]] if self._pressed is not None else []
        self._cancel_press()
        self._typed_at = time.monotonic()
        self._on_menu, self._mark = False, self._first
        asyncio.get_running_loop().call_soon(self._show)  # after the line has taken them
        return [*before, *presses]

    def _enter(self, press: KeyPress) -> list[KeyPress]:
        if self._pressed is not None:
            choice, _, pressed_at = self._pressed
            if choice.means in ("yes", "always") and time.monotonic() - pressed_at < _PASTE_SECONDS:
                return self._type()
            if choice.means == "no":
                _settle(self._answer, Answer(allow=False))
            else:
                self._take(choice)
        elif self._line.buffer.text and not self._on_menu:
            return self._type(press)
        elif self._is_calm():
            self._take(self._choices[self._mark])
        return []

    def _is_calm(self) -> bool:
        """Return whether the question was on screen long enough, with no typing, for a key to be an answer."""
        return time.monotonic() - max(self._shown_at, self._typed_at) >= _ALONE_SECONDS

    def _take(self, choice: AnswerChoice) -> None:
        self._cancel_press()
        match choice.means:
            case "no":
                self._write("reason")
            case "stop":
                self._stop()
            case means:
                _settle(self._answer, Answer(True, choice.option, always=means == "always", mode=means == "mode"))

    def _write(self, what: Literal["", "reason", "rule"], text: str = "") -> None:
        """Edit a reason or a rule in the input line, or go back to the choices."""
        self._writes, self._problem = what, ""
        label = "Answer: " if what and self._question.options is not None else _WRITTEN.get(what)
        self._line.edit_answer(label, text)
        self._show()

    def _take_written(self) -> None:
        """Handle Enter while editing: no with a reason, or yes with a rule."""
        text = self._line.answer.text.strip()
        if self._writes == "reason":
            _settle(self._answer, Answer(allow=False, reason=text))
            return
        from codelet.safety.rules import parse_rule

        try:
            rule = parse_rule(text).text
        except UsageError as error:
            self._problem = one_line(str(error), 200)
            self._show()
            return
        _settle(self._answer, Answer(True, always=True, rule="" if rule == self._question.verdict.suggestion else rule))

    def _cancel_press(self) -> None:
        """Drop a letter that waits to be alone."""
        if self._timer is not None:
            self._timer.cancel()
        self._pressed = self._timer = None


def _settle(future: asyncio.Future[_Result], result: _Result) -> None:
    if not future.done():
        future.set_result(result)
