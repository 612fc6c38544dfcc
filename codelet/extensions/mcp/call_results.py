"""The result of a call for the model: texts, structured content, images, and the names of other content."""

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
    """Return the output for a result of the tool `name`; `recall` reads the rest of a long text.

    Images are attached if the model `sees`, otherwise named.
    """
    content, pictures = result.get("content"), list[Picture]()
    texts: list[str] = []
    for item in content if isinstance(content, list) else ():
        if isinstance(item, dict):
            texts += _text_of(item, name, pictures, sees=sees)
    if not texts and not pictures and "structuredContent" in result:
        texts.append(json.dumps(result["structuredContent"], ensure_ascii=False, indent=1))
    failed = result.get("isError") is True
    text = valid_unicode("\n".join(texts)) or (
        "The call failed without a message." if failed else "Done, without output."
    )
    return ToolOutput(text, failed=failed, most=_LONGEST_RESULT, images=pictures)


def _text_of(item: Mapping[str, object], name: str, pictures: list[Picture], *, sees: bool) -> Iterator[str]:
    """Yield the text of one content item; an image is added to the list."""
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
