"""Render: events to rows on a console, by rich. `renderer.Renderer` is the face; the rest serves it.

Nothing is imported here: the styles and numbers are wanted before rich is.
"""
