"""Asks a server about a model: window, output limit, tools, images.

Sources: the model lists of llama.cpp (`meta.n_ctx`), vLLM (`max_model_len`), LM Studio, OpenRouter, Groq and litellm's
proxy; llama.cpp's `/props` (`modalities`); Ollama's `/api/ps` and `/api/show`. The smallest of several sizes holds: a
model may be trained for more than a server gives it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult

import h11

from codelet.errors import CodeletError
from codelet.providers.connection import Connection, checked_url, open_direct, open_through, proxy_for
from codelet.record import Record

_WINDOWS = (
    "n_ctx",
    "max_model_len",
    "max_input_tokens",
    "loaded_context_length",
    "max_context_length",
    "context_length",
    "context_window",
)
_OUTPUTS = ("max_output_tokens", "max_completion_tokens")
_LARGEST_SIZE = 1 << 32
_LARGEST_ANSWER = 8 << 20
_READ_SIZE = 65_536
TIMEOUT = 5.0
"""Seconds for all questions together."""


class ServerFacts(Record):
    """A server's report on a model, sizes in tokens. None if it says nothing."""

    window: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    images: bool | None = None


async def ask(base: str, headers: Mapping[str, str], name: str, *, local: bool) -> ServerFacts:
    """The report of the server at `base` on its model `name`; empty if it does not answer in time.

    A `local` server is also asked in the ways of llama.cpp and Ollama.
    """
    found: list[ServerFacts] = []
    try:
        async with asyncio.timeout(TIMEOUT):
            listed = await _answer(base, "/models", headers)
            found += [_of_entry(entry) for entry in _entries(listed, name)]
            if local:
                root = base.rstrip("/").removesuffix("/v1")
                found.append(_of_props(await _answer(root, "/props", headers)))
                if all(facts.window is None for facts in found):
                    found.append(await _ask_ollama(root, headers, name))
    except TimeoutError:
        pass  # earlier answers count
    return ServerFacts(
        window=_least(facts.window for facts in found),
        max_output=_least(facts.max_output for facts in found),
        tools=next((facts.tools for facts in found if facts.tools is not None), None),
        images=next((facts.images for facts in found if facts.images is not None), None),
    )


def _entries(listed: object, name: str) -> list[dict[str, Any]]:
    """The model's entries in a list; a single entry counts under any name."""
    entries = [entry for entry in _list(_object(listed).get("data")) if isinstance(entry, dict)]
    named = [entry for entry in entries if entry.get("id") == name]
    return named or (entries if len(entries) == 1 else [])


def _of_entry(entry: dict[str, Any]) -> ServerFacts:
    places = [entry, *(_object(entry.get(place)) for place in ("meta", "top_provider"))]
    options = _list(entry.get("supported_parameters"))
    return ServerFacts(
        window=_smallest(places, _WINDOWS),
        max_output=_smallest(places, _OUTPUTS),
        tools="tools" in options if options else None,
        images="image" in taken
        if (taken := _list(_object(entry.get("architecture")).get("input_modalities")))
        else None,
    )


def _of_props(props: object) -> ServerFacts:
    props = _object(props)
    tools = _object(props.get("chat_template_caps")).get("supports_tools")
    sees = _object(props.get("modalities")).get("vision")
    places = [props, _object(props.get("default_generation_settings"))]
    return ServerFacts(
        window=_smallest(places, _WINDOWS[:1]),
        tools=tools if isinstance(tools, bool) else None,
        images=sees if isinstance(sees, bool) else None,
    )


async def _ask_ollama(root: str, headers: Mapping[str, str], name: str) -> ServerFacts:
    """The report of Ollama's own API: the window of a running model, else of the model's file.

    The trained length alone says nothing: Ollama gives a model less, and silently cuts the rest.
    """
    listed = _object(await _answer(root, "/api/ps", headers))
    if "models" not in listed:
        return ServerFacts()  # another server
    names = (name, f"{name}:latest")
    running = [entry for entry in _list(listed["models"]) if isinstance(entry, dict)]
    matching = [entry for entry in running if entry.get("name") in names or entry.get("model") in names]
    details = _object(await _answer(root, "/api/show", headers, {"model": name}))
    set_in_file = [
        size
        for line in str(details.get("parameters") or "").splitlines()
        if len(words := line.split()) == 2 and words[0] == "num_ctx" and words[1].isdecimal()
        if _is_size(size := int(words[1][:12]))
    ]
    trained = [value for key, value in _object(details.get("model_info")).items() if key.endswith(".context_length")]
    window = _smallest(matching, ("context_length",)) or _least(set_in_file)
    limit = _least(size for size in trained if _is_size(size))
    able = _list(details.get("capabilities"))
    return ServerFacts(
        window=_least([window, limit]) if window else None,
        tools="tools" in able if able else None,
        images="vision" in able if able else None,
    )


async def _answer(base: str, path: str, headers: Mapping[str, str], question: object = None) -> Any:
    """The JSON of a server's answer; None without one."""
    answer = await exchange(base, path, headers, question)
    try:
        return json.loads(answer[1]) if answer is not None and answer[0] == 200 else None
    except (ValueError, RecursionError):
        return None


async def exchange(
    base: str,
    path: str,
    headers: Mapping[str, str],
    question: object = None,
    *,
    timeout: float | None = None,
    direct: bool = False,
) -> tuple[int, bytes] | None:
    """Status and body of an answer to a GET, or to a POST of a `question`; None without an answer.

    A large body is cut. After `timeout` seconds the bytes so far count: some servers neither give a length nor close.
    `direct` bypasses any proxy.
    """
    status, body = 0, bytearray()
    with suppress(OSError, CodeletError, h11.ProtocolError):
        async with asyncio.timeout(timeout):
            url = checked_url(base)
            proxy = None if direct else proxy_for(url)
            connection = await (open_through(proxy, url) if proxy else open_direct(url))
            try:
                _ask(connection, url, path, headers, question)
                state = connection.state
                while not isinstance(event := state.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
                    if event is h11.NEED_DATA:
                        state.receive_data(await connection.reader.read(_READ_SIZE))
                    status = event.status_code if isinstance(event, h11.Response) else status
                    body += event.data if isinstance(event, h11.Data) else b""
                    if len(body) > _LARGEST_ANSWER:
                        break
            finally:
                connection.close()
    return (status, bytes(body)) if status else None


def _ask(connection: Connection, url: SplitResult, path: str, headers: Mapping[str, str], question: object) -> None:
    data = b"" if question is None else json.dumps(question).encode()
    sent = {
        "host": url.netloc.rpartition("@")[2],
        "accept": "application/json",
        "connection": "close",
        **({"content-type": "application/json", "content-length": str(len(data))} if data else {}),
        **connection.extra_headers,
        **headers,
    }
    target = connection.target_prefix + url.path.rstrip("/") + path
    request = h11.Request(method="POST" if data else "GET", target=target, headers=list(sent.items()))
    for part in (request, *([h11.Data(data=data)] if data else []), h11.EndOfMessage()):
        connection.writer.write(connection.state.send(part) or b"")


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_SIZE


def _smallest(places: Iterable[Mapping[str, Any]], names: Iterable[str]) -> int | None:
    listed = list(names)

    def sizes() -> Iterator[int]:
        for place in places:
            yield from (place[name] for name in listed if _is_size(place.get(name)))

    return _least(sizes())


def _least(sizes: Iterable[int | None]) -> int | None:
    return min((size for size in sizes if size is not None), default=None)
