"""Private names of prompt_toolkit that the bottom of the screen depends on, and a redraw after each key."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from prompt_toolkit import renderer
from prompt_toolkit.application import Application
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import DummyStyle

from codelet.frontends.terminal.show.bottom import Bottom, SessionApplication
from tests.support.waiting import PATIENCE

OF_RENDERER = ("_cursor_pos", "_attrs_for_style", "_style_string_has_style")
OF_APPLICATION = ("_redraw", "_on_resize", "_running_in_terminal")


@pytest.mark.parametrize("name", OF_RENDERER)
def test_a_renderer_has(name: str) -> None:
    assert name in vars(Renderer(DummyStyle(), DummyOutput()))


@pytest.mark.parametrize("name", OF_APPLICATION)
def test_an_application_has(name: str) -> None:
    assert hasattr(Application[None](output=DummyOutput()), name)


def test_the_difference_of_two_screens_is_drawn_with_these_arguments() -> None:
    draw = vars(renderer)["_output_screen_diff"]
    assert list(inspect.signature(draw).parameters) == [
        "app", "output", "screen", "current_pos", "color_depth", "previous_screen", "last_style", "is_done",
        "full_screen", "attrs_for_style_string", "style_string_has_style", "size", "previous_width",
    ]  # fmt: skip


async def test_a_key_whose_handler_fails_keeps_nothing_back(capsys: pytest.CaptureFixture[str]) -> None:
    shown = ["before"]
    bindings = KeyBindings()

    @bindings.add("a")
    def _fail(event: KeyPressEvent) -> None:
        raise RuntimeError

    with create_pipe_input() as keys:
        layout = Layout(Window(FormattedTextControl(lambda: shown[0])))
        app = SessionApplication(Bottom(), input=keys, key_bindings=bindings, layout=layout)
        running = asyncio.create_task(app.run_async(set_exception_handler=False))
        failed = asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda *_: failed.set())
        keys.send_text("a")
        await asyncio.wait_for(failed.wait(), PATIENCE)
        shown[0] = "gone by"
        app.invalidate()
        for _ in range(5):
            await asyncio.sleep(0)
        drawn = capsys.readouterr().out
        app.exit()
        await running
    assert "gone by" in drawn
