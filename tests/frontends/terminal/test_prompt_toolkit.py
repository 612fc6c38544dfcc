"""The names of prompt_toolkit's own that the bottom of the screen depends on: they are private, so a release may drop
them.
"""

from __future__ import annotations

import inspect

import pytest
from prompt_toolkit import renderer
from prompt_toolkit.application import Application
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import DummyStyle

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
