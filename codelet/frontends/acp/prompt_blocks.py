"""The content of an editor's prompt: words, files that it names or brings, pictures.

A module of its own, small as it is: only this of the protocol is about what goes to the model.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from codelet.errors import UsageError


def taken(blocks: Sequence[dict[str, Any]]) -> tuple[str, str, dict[str, bytes]]:
    """Return the words of a prompt, the texts that go with it, and its pictures by the names that the words have.

    Raises UsageError for content of another kind.
    """
    words, texts = "", ""
    pictures: dict[str, bytes] = {}
    for block in blocks:
        match block["type"]:
            case "text":
                words += block["text"]
            case "resource_link":
                path = _path_of(block["uri"])
                words += block["uri"] if path is None else f'@"{path}"'
            case "resource" if "text" in block["resource"]:
                uri, text = block["resource"]["uri"], block["resource"]["text"]
                texts += f"\n\n<file path={_path_of(uri) or uri!r}>\n{text}\n</file>"
            case "image":
                name = f"image-{len(pictures) + 1}.{block['mimeType'].partition('/')[2]}"
                pictures[name] = base64.b64decode(block["data"])
                words += f" @{name} "
            case kind:
                raise UsageError(f"a prompt with content of the kind {kind} is not supported")
    return words, texts, pictures


def _path_of(uri: str) -> str | None:
    """Return the path of a file's address, None for any other address."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else None
