"""The schema of the final answer, for servers that can hold a model to it.

Sources: OpenAI's references for Structured Outputs (`response_format` of Chat Completions, `text.format` of Responses),
Anthropic's for `output_config.format`: there an answer may still be tool calls. Elsewhere schema and tools exclude each
other: local servers hold every answer to the grammar, Groq and Gemini refuse such requests. Then the system prompt has
the schema as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from codelet.providers.quirks import Structured

AnswerField = Literal["response_format", "text", "output_config"]
"""The field for the schema: of Chat Completions, Responses or Messages."""

_NAME = "answer"


def answer_fields(form: AnswerField, schema: Mapping[str, object], use: Structured, *, tools: bool) -> dict[str, Any]:
    """The fields of a request: `always`, `alone` (only without tools) or `never`."""
    if use == "never" or (tools and use != "always"):
        return {}
    if form == "output_config":
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    named = {"name": _NAME, "schema": schema, "strict": _is_strict(schema)}
    if form == "text":
        return {"text": {"format": {"type": "json_schema", **named}}}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _is_strict(schema: object) -> bool:
    """Return whether OpenAI's strict mode takes a schema: objects require all their properties and allow no others."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or schema.get("additionalProperties") is not False:
            return False
        if not isinstance(required := schema.get("required"), list) or set(map(str, required)) != set(properties):
            return False
    return all(map(_is_strict, schema.values()))
