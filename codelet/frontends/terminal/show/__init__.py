"""Events to rows on a console, by rich: `renderer.Renderer` shows events, the other modules make its rows.

Nothing is imported here: `style` and `numbers` are needed before rich is.
"""
