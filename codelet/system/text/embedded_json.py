"""The JSON values in a text that has words around them, as models answer where JSON alone was asked for.

Short because the final answer and a review's answers share nothing else.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

_OPENING = re.compile(r"""\{(?=\s*["}])|\[(?=\s*(?:[\[\]{"\d-]|(?:true|false|null)\b))""")
"""The beginning of an object or an array, unlike `{x}` and `[link]` in prose."""
_MOST = 20


def json_values(text: str) -> list[tuple[str, object]]:
    """Return the outermost objects and arrays in a text, each with its own text.

    None if one of them is broken or cut, as its parts would pass for values, and none of more than 20.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse)
    found: list[tuple[str, object]] = []
    place = 0
    while (opening := _OPENING.search(text, place)) is not None:
        start = opening.start()
        try:
            value, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return []
        found.append((text[start:place], value))
        if len(found) > _MOST:
            return []
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
