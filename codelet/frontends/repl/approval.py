"""Asks the person whether a tool call may run: everything shown, nothing decided by accident."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.text import Text

from codelet.frontends.render.diff import is_diff, set_diff
from codelet.frontends.render.renderer import Renderer
from codelet.frontends.render.style import ACCENT, ADDED, MARGIN, QUIET, REMOVED, WARN
from codelet.frontends.render.wrap import wrap
from codelet.frontends.repl.keys import Key, Keyboard
from codelet.policy.verdict import Answer, Question
from codelet.text import clean, confusables, visible

_TYPING_SECONDS = 1.0
"""Keys within this time after the last typed-ahead one are still meant for the line, not for a question."""


@dataclass
class _Open:
    """The question on the screen. `reason` is None until the user has said no and may say why."""

    question: Question
    answer: asyncio.Future[Answer]
    reason: str | None = None
    rows: list[Text] = field(default_factory=list)


class Approver:
    """The session's `ask`. `stop` ends the turn; `typed` tells when the user last typed ahead."""

    def __init__(
        self, renderer: Renderer, keyboard: Keyboard, stop: Callable[[], None], typed: Callable[[], float]
    ) -> None:
        self._renderer = renderer
        self._keyboard = keyboard
        self._stop = stop
        self._typed = typed
        self._lock = asyncio.Lock()
        self._open: _Open | None = None

    async def ask(self, question: Question) -> Answer:
        """Put one question after the other; cancelled with the turn."""
        async with self._lock:
            await self._until_typing_ends()
            handler = self._keyboard.handler
            self._open = _Open(question, asyncio.get_running_loop().create_future())
            self._keyboard.handler = self._key
            self._show()
            try:
                answer = await self._open.answer
            finally:
                self._open = None
                self._keyboard.handler = handler
                self._renderer.ask(())
            if answer.always and question.verdict.suggestion:
                self._note(f"allowed for this session: {question.verdict.suggestion}")
            return answer

    def redraw(self) -> None:
        """The window has another width: set the question anew."""
        if self._open is not None:
            self._show()

    async def _until_typing_ends(self) -> None:
        if (wait := self._typed() + _TYPING_SECONDS - time.monotonic()) > 0:
            await asyncio.sleep(wait)
            await self._until_typing_ends()

    def _show(self) -> None:
        assert self._open is not None
        renderer = self._renderer
        rows = question_rows(self._open.question, renderer)
        choices = self._choices()
        if len(rows) + len(choices) > renderer.console.height - 2 or not renderer.is_live:
            if not self._open.rows:
                renderer.say(rows)
                renderer.seen(self._open.question.shown)
            self._open.rows, rows = rows, rows[:1]
        if renderer.is_live:
            renderer.ask([*rows, *choices], cursor=self._open.reason is not None)
        elif not self._open.reason:
            renderer.say(choices)

    def _choices(self) -> list[Text]:
        assert self._open is not None
        if self._open.reason is not None:
            hint = "" if self._open.reason else "enter to say nothing, esc goes back"
            line = Text.assemble("  no, because: ", clean(self._open.reason), (hint, QUIET))
            return wrap(line, self._renderer.width)
        suggestion = self._open.question.verdict.suggestion
        parts = [("y", "yes")]
        if suggestion:
            parts.append(("a", f"always in this session: {clean(suggestion)}"))
        parts += [("n", "no, and say why"), ("esc", "no, and stop")]
        if (timeout := self._open.question.timeout) is not None:
            parts.append((f"{timeout:g} s", "without an answer: no"))
        rows = [Text(" ")]
        for key, meaning in parts:
            choice = Text.assemble(" ", (key, f"bold {ACCENT}"), f" {meaning}  ")
            if rows[-1].cell_len > 1 and rows[-1].cell_len + choice.cell_len - 2 > self._renderer.width:
                rows.append(Text(" "))
            rows[-1].append_text(choice)
        return [row for fitting in rows for row in wrap(fitting, self._renderer.width)]

    def _key(self, key: Key) -> None:
        assert self._open is not None
        if self._open.reason is not None:
            self._reason_key(key, self._open.reason)
            return
        letter = key.text.lower() if key.meaning == "text" else ""
        if letter == "y":
            self._settle(Answer(allow=True))
        elif letter == "a" and self._open.question.verdict.suggestion:
            self._settle(Answer(allow=True, always=True))
        elif letter == "n":
            self._open.reason = ""
            self._show()
        elif key.meaning in ("escape", "interrupt"):
            self._stop()

    def _reason_key(self, key: Key, reason: str) -> None:
        assert self._open is not None
        match key.meaning:
            case "text" | "paste":
                self._open.reason = reason + key.text
            case "backspace":
                self._open.reason = reason[:-1]
            case "line" | "word":
                self._open.reason = ""
            case "enter":
                self._settle(Answer(allow=False, reason=reason.strip()))
                return
            case "escape":
                self._open.reason = None
            case "interrupt":
                self._stop()
                return
        self._show()

    def _settle(self, answer: Answer) -> None:
        assert self._open is not None
        if not self._open.answer.done():
            self._open.answer.set_result(answer)

    def _note(self, text: str) -> None:
        self._renderer.say([Text(f"{self._renderer.signs.note} {clean(text)}", QUIET)])


def question_rows(question: Question, renderer: Renderer) -> list[Text]:
    """The whole command or diff with nothing hidden, and why it is asked."""
    width, signs = renderer.width, renderer.signs
    indent = " " * (MARGIN + 2)
    what = _what(question)
    about = question.arguments.get("path") if question.tool in ("edit", "write") else None
    head = Text.assemble(("? ", f"bold {WARN}"), (clean(question.tool), "bold"), " asks to ")
    rows = wrap(head.append(f"change {visible(str(about))}" if about else "run"), width)
    if is_diff(what):
        rows.extend(set_diff(visible(what), width, signs, limit=10_000))
    else:
        for line in visible(what).split("\n"):
            style = {"+": ADDED, "-": REMOVED}.get(line[:1], "") if about else ""
            rows.extend(Text.assemble(indent, row) for row in wrap(Text(line, style), width - len(indent)))
    for warning in confusables(question.shown):
        rows.extend(wrap(Text(f"  {signs.failed} {clean(warning)}", WARN), width))
    reason = Text.assemble("  ", (f"why: {clean(question.verdict.reason)}", QUIET))
    if question.verdict.tier == "critical":
        reason = Text.assemble("  ", ("dangerous: ", f"bold {WARN}"), clean(question.verdict.reason))
    return [*rows, *wrap(reason, width)]


def _what(question: Question) -> str:
    """The command, the diff, or, where no diff was made, the lines that would go and come."""
    arguments = question.arguments
    if question.tool == "bash":
        return question.shown
    if is_diff(question.shown):
        return question.shown
    lines: list[str] = []
    edits = arguments.get("edits")
    for edit in edits if isinstance(edits, list) else ():
        if isinstance(edit, dict):
            lines += [f"- {line}" for line in str(edit.get("old", "")).split("\n")]
            lines += [f"+ {line}" for line in str(edit.get("new", "")).split("\n")]
    if isinstance(arguments.get("content"), str):
        lines += [f"+ {line}" for line in arguments["content"].split("\n")]
    return "\n".join(lines) or question.shown.removeprefix(f"{question.tool} ")
