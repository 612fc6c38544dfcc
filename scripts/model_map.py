"""Write codelet/providers/models.json: the part of litellm's map that serves an installation without litellm.

Use: python -m scripts.model_map, after a change of litellm's version. It has the models that talk and take tools, of
the vendors in codelet/providers/vendors.toml, with what `codelet.providers.facts` reads of them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from codelet.providers.catalog import WIRES, vendors
from codelet.providers.facts import COPY, whole_map

_READ = re.compile(
    r"litellm_provider|mode|deprecation_date|max_(?:input_|output_)?tokens|off_peak_pricing"
    r"|(?:input|output)_cost_per_(?:reasoning_)?token(?:_above_\d+k_tokens)?"
    r"|cache_(?:read|creation)_input_token_cost(?:_above_1hr)?(?:_above_\d+k_tokens)?"
    r"|supports_(?:function_calling|vision|reasoning|adaptive_thinking|prompt_cache_breakpoint|\w+_reasoning_effort)"
    r"|default_reasoning_effort|reasoning_effort_levels|thinking_always_on"
)


def text() -> str:
    """Return what the file is to hold, a line for each model: `facts` looks for the beginnings of lines."""
    hosted = {vendor.prefix for vendor in vendors() if not vendor.local}
    listed: dict[str, dict[str, Any]] = whole_map()
    rows = [
        f"    {json.dumps(name)}: {json.dumps({key: entry[key] for key in entry if _READ.fullmatch(key)})}"
        for name, entry in listed.items()
        if entry.get("litellm_provider") in hosted
        and entry.get("mode") in WIRES
        and entry.get("supports_function_calling")
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    COPY.write_text(text(), encoding="utf-8")
