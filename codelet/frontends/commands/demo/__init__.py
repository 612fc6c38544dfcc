"""The demo: a recorded model fixes a small project through the real loop and the real tools.

It needs no network, key, git or test runner. The model's words are recorded; the files are read, edited and
tested as in any session, and the end says whether the test passes and how to continue with a real model.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, EXIT_INCOMPLETE, CodeletError, UsageError
from codelet.frontends.commands.demo.project import test_command, test_environment, test_passes, write_project
from codelet.frontends.streams import Stopper
from codelet.loop.session import Session
from codelet.providers.content.replay import Recording, ReplayProvider, read_recording
from codelet.safety import Policy
from codelet.safety.verdict import Answer, Question

if TYPE_CHECKING:
    from codelet.frontends.terminal.show.renderer import Renderer

PROMPT = "A test in this project fails. Find the bug and fix it."

_RECORDING = Path(__file__).with_name("recording.json")
_NEXT = (
    "Next, use a real model in your project:",
    "  export ANTHROPIC_API_KEY=...",
    "  (or OPENAI_API_KEY, GEMINI_API_KEY)",
    "  cd your/project && codelet",
)
_FRAME_SECONDS = 0.1


async def run_demo(*, keep: bool) -> int:
    """Show the demo on stdout; return the exit status. Its folder is removed, or kept and named."""
    stopper = Stopper()
    try:
        with stopper, _folder(keep=keep) as folder:
            return await _show(folder, keep=keep)
    except asyncio.CancelledError:
        status, _ = stopper.take_back()
        sys.stderr.write("codelet: the demo was stopped\n")
        return status
    except BrokenPipeError:  # the reader has seen enough (`codelet demo | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE


def load_recording() -> Recording:
    """The recording, with its command adapted to this machine."""
    command = json.dumps(test_command())[1:-1]
    text = _RECORDING.read_text(encoding="utf-8").replace("$TEST", command)
    return read_recording(text, "of the demo")


async def _show(folder: Path, *, keep: bool) -> int:
    write_project(folder)
    renderer = _renderer()
    _introduce(renderer, folder, keep=keep)
    recording = load_recording()
    session = Session(
        ReplayProvider(recording, "of the demo", pace=None if sys.stdout.isatty() else 0),
        workspace=folder,
        policy=Policy(folder),
        ask=_RecordedAnswers(renderer, recording).ask,
        environment=test_environment(),
        bare=True,
    )
    try:
        failure = await _turn(session, renderer)
    finally:
        await session.close()
    passes = await test_passes(folder)
    _say(renderer, "", "")
    if keep:
        _say(renderer, f"Kept: {folder}", "")
    if failure is None and passes:
        _say(renderer, f"{renderer.signs.done} The test passes.", "bold green")
        _say(renderer, "", "")
        for line in _NEXT:
            _say(renderer, line, "")
        return EXIT_DONE
    if failure is not None:
        _say(renderer, f"The demo did not finish: {failure}", "")
    _say(renderer, f"{renderer.signs.failed} The test {'passes' if passes else 'does not pass'}.", "bold red")
    return EXIT_INCOMPLETE


async def _turn(session: Session, renderer: Renderer) -> str | None:
    """Run the one turn on the screen; return what went wrong, or None."""
    ticker = asyncio.create_task(_tick(renderer))
    try:
        renderer.quiet = session.reminders.quiet
        async with aclosing(session.send(PROMPT)) as events:
            async for event in events:
                renderer.show(event)
    except CodeletError as error:
        return str(error)
    finally:
        ticker.cancel()
        renderer.stop()
    return f"{len(session.toolbox.approvals.refused)} calls were refused" if session.toolbox.approvals.refused else None


async def _tick(renderer: Renderer) -> None:
    while True:
        await asyncio.sleep(_FRAME_SECONDS)
        renderer.tick()


def _renderer() -> Renderer:
    from codelet.frontends.terminal.show.console import OutputConsole
    from codelet.frontends.terminal.show.renderer import Renderer

    console = OutputConsole()
    if not console.is_terminal or console.is_dumb_terminal:
        return Renderer(console)
    from codelet.frontends.terminal.show.bottom import Bottom

    return Renderer(console, hint="ctrl-c stops", bottom=Bottom())


def _introduce(renderer: Renderer, folder: Path, *, keep: bool) -> None:
    from rich.text import Text

    from codelet.frontends.terminal.show.console import wrap

    end = "which is kept" if keep else "which is removed at the end"
    facts = (
        "The model is a recording: its words were written in advance. The rest is real: the loop, the tools, "
        "the files, and the test.",
        f"The project is in {folder}, {end}.",
        "codelet asks before it changes or runs something; here the demo answers for you.",
    )
    signs, width = renderer.signs, renderer.width

    def paragraph(sign: str, text: str, style: str) -> list[Text]:
        first, *rest = wrap(Text(text, style), width - 2)
        return [Text.assemble((f"{sign} ", "dim"), first), *(Text("  ") + row for row in rest)]

    rows = [Text("codelet demo", "bold")]
    for fact in facts:
        rows += paragraph(signs.note, fact, "dim")
    rows += [Text(), *paragraph(signs.prompt, PROMPT, "bold")]
    renderer.say(rows)


def _say(renderer: Renderer, text: str, style: str) -> None:
    from rich.text import Text

    renderer.say([Text(text, style)])


class _RecordedAnswers:
    """Answers in the user's place: yes to what the recording asks for, no to anything else."""

    def __init__(self, renderer: Renderer, recording: Recording) -> None:
        self._renderer = renderer
        self._expected = [(call.name, json.loads(call.sent())) for step in recording.steps for call in step.tool_calls]

    async def ask(self, question: Question) -> Answer:
        """The answer, shown as a row."""
        from rich.text import Text

        from codelet.frontends.terminal.show.call_rows import call_title
        from codelet.frontends.terminal.show.console import truncate

        if (question.tool, question.arguments) not in self._expected:
            return Answer(False, "the demo approves only what was recorded")
        signs, width = self._renderer.signs, self._renderer.width
        row = Text(f"{signs.note} approved by the demo: {call_title(question.tool, question.arguments)}", "dim")
        self._renderer.say([truncate(row, width, signs.more)])
        return Answer(True)


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """A new folder, removed at the end unless it is to be kept."""
    import shutil
    import tempfile

    try:
        folder = Path(tempfile.mkdtemp(prefix="codelet-demo-")).resolve()
    except OSError as error:
        raise UsageError(f"no folder for the demo: {error.strerror or error}; set TMPDIR to one") from error
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder)
