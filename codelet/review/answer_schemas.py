"""The JSON schemas of a review's answers, for servers that hold a model to one; what comes is read leniently anyway.

Every object names all of its properties as required and allows no others: OpenAI's strict mode asks for that.
"""

from __future__ import annotations

from typing import Any

from codelet.review.findings import SEVERITIES
from codelet.review.rule_list import CATEGORIES, RULES

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_SEVERITY: Schema = {"type": "string", "enum": list(SEVERITIES)}

FINDINGS = _object(
    findings=_list(
        _object(
            trigger=_TEXT,
            title=_TEXT,
            explanation=_TEXT,
            severity=_SEVERITY,
            confidence={"type": "number"},
            rule={"type": "string", "enum": list(RULES)},
            category={"type": "string", "enum": list(CATEGORIES)},
            path=_TEXT,
            line=_NUMBER,
            quote=_TEXT,
            replacement={"type": ["string", "null"]},
        )
    )
)
VERDICTS = _object(
    verdicts=_list(
        _object(
            n=_NUMBER,
            why=_TEXT,
            holds={"type": "boolean"},
            severity=_SEVERITY,
            same_as={"type": ["integer", "null"]},
        )
    )
)
CLOSING = _object(summary=_TEXT, duplicates=_list(_list(_NUMBER)))
