"""A Jupyter notebook as text: its cells with their output, without the JSON of the file."""

from __future__ import annotations

import json
from typing import Any

from codelet.system.text.printout import as_printed

LARGEST = 16 << 20
"""Bytes; a larger notebook is shown as the text that it is."""
_OUTPUT_LINES = 40


def cells_as_text(data: bytes) -> str | None:
    """The cells, each under a line that numbers it and names its kind; None if the file is no notebook."""
    try:
        found = json.loads(data)
        cells = found["cells"]
        parts = [_cell(number, cell) for number, cell in enumerate(cells, 1)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return "\n\n".join(parts) + "\n"


def _cell(number: int, cell: dict[str, Any]) -> str:
    kind = str(cell["cell_type"])
    run = cell.get("execution_count")
    head = f"# cell {number}, {kind}{f', run as {run}' if run is not None else ''}"
    parts = [head, _text(cell.get("source", "")).rstrip("\n")]
    for output in cell.get("outputs") or ():
        parts += ["# output:", _output(output)]
    return "\n".join(part for part in parts if part)


def _output(output: dict[str, Any]) -> str:
    """Return what a cell printed or gave; of what is no text only the kind."""
    if "text" in output:
        return _shortened(_text(output["text"]))
    if "traceback" in output:
        return _shortened(_text([f"{line}\n" for line in output["traceback"]]))
    data = output.get("data") or {}
    kinds = ", ".join(kind for kind in data if kind != "text/plain")
    plain = _shortened(_text(data.get("text/plain", "")))
    return "\n".join(part for part in (plain, f"({kinds}, not shown)" if kinds else "") if part)


def _text(source: str | list[str]) -> str:
    """A text, which notebooks keep whole or as a list of its lines."""
    return as_printed(source if isinstance(source, str) else "".join(source))


def _shortened(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if len(lines) <= _OUTPUT_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:_OUTPUT_LINES], f"(and {len(lines) - _OUTPUT_LINES} more lines)"])
