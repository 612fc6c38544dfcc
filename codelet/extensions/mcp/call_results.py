"""The result of a call as the model gets it: texts, structured content, pictures, and names of what else there is."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping

from codelet.errors import ToolError
from codelet.messages import Picture
from codelet.system.text import one_line, valid_unicode
from codelet.tools.tool import ToolOutput

_LONGEST_RESULT = 30_000
_MOST_PICTURES = 10


def output_from(result: Mapping[str, object], name: str, *, sees: bool) -> ToolOutput:
    """Return the output for a result of the tool `name`; of a long text the rest can be recalled.

    Pictures are shown to a model that `sees`, and named to one that does not.
    """
    content, pictures = result.get("content"), list[Picture]()
    texts: list[str] = []
    for item in content if isinstance(content, list) else ():
        if isinstance(item, dict):
            texts += _text_of(item, name, pictures, sees=sees)
    if not texts and not pictures and "structuredContent" in result:
        texts.append(json.dumps(result["structuredContent"], ensure_ascii=False, indent=1))
    failed = result.get("isError") is True
    text = valid_unicode("\n".join(texts)) or ("The call failed without a word." if failed else "Done, without a word.")
    return ToolOutput(text, failed=failed, most=_LONGEST_RESULT, images=pictures)


def _text_of(item: Mapping[str, object], name: str, pictures: list[Picture], *, sees: bool) -> Iterator[str]:
    """Yield what one part of the content says; a picture goes to `pictures`."""
    match item.get("type"):
        case "text":
            yield str(item.get("text", ""))
        case "image" if sees and len(pictures) < _MOST_PICTURES:
            from codelet.tools.pictures import memory_file, read_picture

            shown = f"picture {len(pictures) + 1} of {name}"
            try:
                data = b64decode(str(item.get("data", "")))
                with memory_file(data) as file:
                    pictures.append(read_picture(file, data[:64], shown, len(data)))
                yield f"[{shown}]"
            except (ToolError, ValueError) as error:
                yield f"[{one_line(str(error), 200)}]"
        case "resource" | "resource_link" as kind:
            found = item.get("resource") if kind == "resource" else item
            resource = found if isinstance(found, dict) else {}
            yield f"[{one_line(str(resource.get('uri')), 200)}]"
            if isinstance(resource.get("text"), str):
                yield resource["text"]
        case kind:
            yield f"[{one_line(str(kind), 40)}, which cannot be shown]"
