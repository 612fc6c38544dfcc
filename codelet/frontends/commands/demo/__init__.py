"""The demo: a recorded model fixes a small project through the real loop and the real tools.

It needs no network, key, git or test runner. The model's words are recorded; the files are read, edited and
tested as in any session, and the end says whether the test passes and how to continue with a real model.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, EXIT_INCOMPLETE, CodeletError, UsageError
from codelet.frontends.streams import Stopper
from codelet.loop.session import Session
from codelet.providers.content.replay import Recording, ReplayProvider, read_recording
from codelet.safety import Policy
from codelet.safety.verdict import Answer, Question
from codelet.system.process import child_environment, run_child

if TYPE_CHECKING:
    from codelet.frontends.terminal.show.renderer import Renderer

PROMPT = "A test in this project fails. Find the bug and fix it."

_NEXT = (
    "Next, use a real model in your project:",
    "  export ANTHROPIC_API_KEY=...",
    "  (or OPENAI_API_KEY, GEMINI_API_KEY)",
    "  cd your/project && codelet",
)
_FRAME_SECONDS = 0.1
_TEST_SECONDS = 60.0

_CODE = '''\
"""What a basket of goods costs. All amounts are in cents."""


def subtotal(basket):
    """The sum of price times quantity over (name, price, quantity)."""
    return sum(price * quantity for _, price, quantity in basket)


def total(basket, discount_percent=0):
    """What the customer pays: the subtotal less the discount."""
    amount = subtotal(basket)
    return amount - amount * discount_percent
'''

_TEST = """\
import unittest

from till import subtotal, total

BASKET = [("tea", 350, 2), ("bread", 300, 1)]


class TillTest(unittest.TestCase):
    def test_subtotal(self):
        self.assertEqual(subtotal(BASKET), 1000)

    def test_total_without_discount(self):
        self.assertEqual(total(BASKET), 1000)

    def test_total_with_discount(self):
        self.assertEqual(total(BASKET, discount_percent=10), 900)
"""


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


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """A new folder with the project, removed at the end unless it is to be kept."""
    import shutil
    import tempfile

    try:
        folder = Path(tempfile.mkdtemp(prefix="codelet-demo-")).resolve()
    except OSError as error:
        raise UsageError(f"no folder for the demo: {error.strerror or error}; set TMPDIR to one") from error
    try:
        (folder / "till.py").write_text(_CODE, encoding="utf-8")
        (folder / "test_till.py").write_text(_TEST, encoding="utf-8")
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder)


async def _show(folder: Path, *, keep: bool) -> int:
    renderer = _renderer()
    _introduce(renderer, folder, keep=keep)
    command = f"{shlex.quote(Path(sys.executable).name)} -m unittest"  # this Python, without any other program
    text = Path(__file__).with_name("recording.json").read_text(encoding="utf-8")
    recording = read_recording(text.replace("$TEST", json.dumps(command)[1:-1]), "of the demo")
    session = Session(
        ReplayProvider(recording, "of the demo", pace=None if sys.stdout.isatty() else 0),
        workspace=folder,
        policy=Policy(folder),
        ask=_RecordedAnswers(renderer, recording).ask,
        environment=_environment(),
        bare=True,
    )
    try:
        failure = await _turn(session, renderer)
    finally:
        await session.close()
    done = await run_child(
        [sys.executable, "-m", "unittest"],
        cwd=folder,
        environment=_environment(),
        timeout=_TEST_SECONDS,
        output_limit=10_000,
    )
    passes = done.exit_code == 0 and not done.timed_out
    _say(renderer, "", *([f"Kept: {folder}"] if keep else []))
    if failure is None and passes:
        _say(renderer, "✓ The test passes.", style="bold green")
        _say(renderer, "", *_NEXT)
        return EXIT_DONE
    if failure is not None:
        _say(renderer, f"The demo did not finish: {failure}")
    _say(renderer, f"✗ The test {'passes' if passes else 'does not pass'}.", style="bold red")
    return EXIT_INCOMPLETE


def _environment() -> dict[str, str]:
    """Return the environment for commands: this Python first on the path; no bytecode, which could be older than the
    fix.
    """
    environment = child_environment()
    path = environment.get("PATH", os.defpath)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


async def _turn(session: Session, renderer: Renderer) -> str | None:
    """Run the one turn on the screen; return what went wrong, or None."""

    async def tick() -> None:
        while True:
            await asyncio.sleep(_FRAME_SECONDS)
            renderer.tick()

    ticker = asyncio.create_task(tick())
    try:
        async with aclosing(session.send(PROMPT)) as events:
            async for event in events:
                renderer.show(event)
    except CodeletError as error:
        return str(error)
    finally:
        ticker.cancel()
        renderer.stop()
    return f"{len(session.toolbox.approvals.refused)} calls were refused" if session.toolbox.approvals.refused else None


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

    recorded = "The model is a recording: its words were written in advance. The rest is real: the loop, the tools, "
    paragraphs = (
        ("·", f"{recorded}the files, and the test.", "dim"),
        ("·", f"The project is in {folder}, which is {'kept' if keep else 'removed at the end'}.", "dim"),
        ("·", "codelet asks before it changes or runs something; here the demo answers for you.", "dim"),
        ("›", PROMPT, "bold"),
    )
    _say(renderer, "codelet demo", style="bold")
    for sign, text, style in paragraphs:
        first, *rest = wrap(Text(text, style), renderer.width - 2)
        blank = [Text()] if sign == "›" else []
        renderer.say([*blank, Text.assemble((f"{sign} ", "dim"), first), *(Text("  ") + row for row in rest)])


def _say(renderer: Renderer, *lines: str, style: str = "") -> None:
    from rich.text import Text

    renderer.say([Text(line, style) for line in lines])


class _RecordedAnswers:
    """Answers in the user's place: yes to what the recording asks for, no to anything else."""

    def __init__(self, renderer: Renderer, recording: Recording) -> None:
        self._renderer = renderer
        self._expected = [(call.name, json.loads(call.sent())) for step in recording.steps for call in step.tool_calls]

    async def ask(self, question: Question) -> Answer:
        """The answer, shown as a row."""
        from rich.text import Text

        from codelet.frontends.terminal.show.console import truncate
        from codelet.frontends.terminal.show.event_rows import call_title

        if (question.tool, question.arguments) not in self._expected:
            return Answer(False, "the demo approves only what was recorded")
        row = Text(f"· approved by the demo: {call_title(question.tool, question.arguments)}", "dim")
        self._renderer.say([truncate(row, self._renderer.width)])
        return Answer(True)
