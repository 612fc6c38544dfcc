"""Render: events to rows on a console, by rich. `Renderer` is the face; the rest serves it."""

from codelet.frontends.render.renderer import Renderer

__all__ = ["Renderer"]
