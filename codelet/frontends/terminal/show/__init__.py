"""Rows of events on a console, by rich. Nothing is imported here: `style` and `numbers` are needed before rich is."""
