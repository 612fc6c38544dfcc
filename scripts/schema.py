"""Write codelet/export/schema.json from the types in codelet/export/document.py.

Use: python -m scripts.schema
"""

from __future__ import annotations

import json
from pathlib import Path

from codelet.export.document import schema

PLACE = Path(__file__).resolve().parent.parent / "codelet" / "export" / "schema.json"


def text() -> str:
    """What the file is to hold."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
