"""Amazon Bedrock's Converse stream as a server on loopback: what botocore decodes, made by hand.

A message of the stream is its length, that of its headers, a checksum of the two, headers, JSON, and a checksum of it
all: https://docs.aws.amazon.com/lexv2/latest/dg/event-stream-encoding.html.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from zlib import crc32

from tests.support.script import HttpError, Reply

_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "refused": "content_filtered"}
Events = list[tuple[str, dict[str, Any]]]


def encoded(kind: str, content: dict[str, Any], *, exception: bool = False) -> bytes:
    """One message of the stream: an event, or an exception that ends it."""
    sort = "exception" if exception else "event"
    told = {f":{sort}-type": kind, ":content-type": "application/json", ":message-type": sort}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in told.items()
    )
    payload = json.dumps(content).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return message + struct.pack(">I", crc32(message))


def events(reply: Reply) -> Events:
    """The reply as Converse tells it: reasoning, text and calls, each a block of its own."""
    deltas: list[tuple[dict[str, Any] | None, list[dict[str, Any]]]] = []
    if reply.reasoning:
        deltas.append((None, [{"reasoningContent": {"text": piece}} for piece in reply.reasoning_pieces]))
    if reply.text:
        deltas.append((None, [{"text": piece} for piece in reply.text_pieces]))
    for call in reply.calls:
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        deltas.append((start, [{"toolUse": {"input": piece}} for piece in call.pieces]))
    made: Events = [("messageStart", {"role": "assistant"})]
    for index, (first, pieces) in enumerate(deltas):
        if first is not None:
            made.append(("contentBlockStart", {"contentBlockIndex": index, "start": first}))
        made += [("contentBlockDelta", {"contentBlockIndex": index, "delta": piece}) for piece in pieces]
        made.append(("contentBlockStop", {"contentBlockIndex": index}))
    made.append(("messageStop", {"stopReason": _REASONS[reply.reason]}))
    if (used := reply.usage) is not None:
        usage = {
            "inputTokens": used.total_input - used.cache_read - used.cache_write,
            "outputTokens": used.output,
            "totalTokens": used.total_input + used.output,
            "cacheReadInputTokens": used.cache_read,
            "cacheWriteInputTokens": used.cache_write,
        }
        made.append(("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}))
    return made


class ConverseServer:
    """Answers each request with the next step of `script`; `requests` are the paths, the keys and the bodies."""

    def __init__(self, script: Sequence[Reply | HttpError | bytes]) -> None:
        self.script = list(script)
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.base = ""


@contextmanager
def converse_server(*script: Reply | HttpError | bytes) -> Iterator[ConverseServer]:
    """A server that is up; bytes of a script are sent as the whole stream, which then is cut."""
    told = ConverseServer(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told.requests.append((self.path, self.headers["authorization"] or "", body))
            step = told.script.pop(0)
            if isinstance(step, HttpError):
                kind, answer = "application/json", json.dumps({"message": step.message}).encode()
            else:
                made = step if isinstance(step, bytes) else b"".join(encoded(*event) for event in events(step))
                kind, answer = "application/vnd.amazon.eventstream", made
            self.send_response(step.status if isinstance(step, HttpError) else 200)
            self.send_header("content-type", kind)
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(answer)
            self.close_connection = True

        def log_message(self, *arguments: Any) -> None:
            """Nothing: the tests say what went wrong."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        told.base = f"http://127.0.0.1:{server.server_port}"
        yield told
        server.shutdown()
