"""The parameters of an editor's requests, and the content of its prompts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from codelet.errors import UsageError
from codelet.record import Record


class _Pair(Struct):
    name: str
    value: str


class McpServer(Struct):
    """An MCP server that the editor's user configured: a `command` or a `url`."""

    name: str
    type: str | None = None
    command: str | None = None
    args: list[str] | None = None
    url: str | None = None
    env: list[_Pair] | None = None
    headers: list[_Pair] | None = None

    def settings(self) -> tuple[str, dict[str, object]]:
        """Return its name and its table in the settings."""
        table: dict[str, object] = {
            key: value for key in ("type", "command", "args", "url") if (value := getattr(self, key)) is not None
        }
        for key, pairs in (("env", self.env), ("headers", self.headers)):
            if pairs is not None:
                table[key] = {pair.name: pair.value for pair in pairs}
        return self.name, table


class _Resource(Struct):
    uri: str
    text: str | None = None


class Block(Struct, rename="camel"):
    """One piece of a prompt's content."""

    type: str
    text: str = ""
    uri: str = ""
    resource: _Resource | None = None
    mime_type: str = ""
    data: str = ""


class Params(Struct, rename="camel"):
    """The parameters of all requests; each uses some of them."""

    cwd: str | None = None
    cursor: str | None = None
    mcp_servers: list[McpServer] | None = None
    session_id: str = ""
    prompt: list[Block] = []
    config_id: str = ""
    value: str = ""


class _Outcome(Struct, rename="camel"):
    option_id: str | None = None


class Permission(Struct):
    """The answer to `session/request_permission`; without an option if the turn was cancelled."""

    outcome: _Outcome


class PromptContent(Record, kw_only=True):
    """A prompt's words, the texts that go with them, and its images by the names that the words use."""

    words: str
    texts: str
    images: dict[str, bytes]


def content_of(blocks: Sequence[Block]) -> PromptContent:
    """Return a prompt's content. Raises UsageError for a kind that is not supported."""
    words, texts = "", ""
    images: dict[str, bytes] = {}
    for block in blocks:
        if block.type == "text":
            words += block.text
        elif block.type == "resource_link":
            path = _path_of(block.uri)
            words += block.uri if path is None else f'@"{path}"'
        elif block.type == "resource" and block.resource is not None and block.resource.text is not None:
            uri, text = block.resource.uri, block.resource.text
            texts += f"\n\n<file path={_path_of(uri) or uri!r}>\n{text}\n</file>"
        elif block.type == "image":
            name = f"image-{len(images) + 1}.{block.mime_type.partition('/')[2]}"
            try:
                images[name] = base64.b64decode(block.data)
            except binascii.Error as error:
                raise UsageError(f"an image of the prompt is not base64: {error}") from None
            words += f" @{name} "
        else:
            raise UsageError(f"content of the type {block.type} is not supported in a prompt")
    if not (words.strip() or texts or images):
        raise UsageError("the prompt is empty")
    return PromptContent(words=words, texts=texts, images=images)


def _path_of(uri: str) -> str | None:
    """Return the path in a file's URI, None for any other URI."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else None
