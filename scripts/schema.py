"""Write codelet/export/schema.json from the types in codelet/export/document.py and codelet's own extensions.

Use: python -m scripts.schema
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codelet.export.document import schema
from codelet.extensions.memory.remembering import ORIGINS_FORM
from codelet.extensions.statistics import APPROVALS, METRICS

PLACE = Path(__file__).resolve().parent.parent / "codelet" / "export" / "schema.json"
EXTENSION_KEYS = {"fact_origins": ORIGINS_FORM, "metrics": METRICS, "approvals": APPROVALS}
"""The keys of codelet's own extensions with their schemas."""


def text() -> str:
    """The text of the file: a line for each field of the document, and for each of the forms that it refers to."""
    return _lines(_on_one_line(schema(EXTENSION_KEYS)), 0) + "\n"


def _on_one_line(value: Any) -> Any:
    """With descriptions that are not broken: how far Python indents a docstring differs between its versions."""
    if isinstance(value, list):
        return [_on_one_line(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        name: " ".join(part.split()) if name == "description" and isinstance(part, str) else _on_one_line(part)
        for name, part in value.items()
    }


def _lines(value: object, level: int) -> str:
    if not isinstance(value, dict) or level == 2:
        return json.dumps(value, ensure_ascii=False)
    rows = (f"{' ' * (level + 1)}{json.dumps(name)}: {_lines(part, level + 1)}" for name, part in value.items())
    return "{\n" + ",\n".join(rows) + f"\n{' ' * level}}}"


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
