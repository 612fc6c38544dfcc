"""Asks a server about a model: window, output limit, tools, images.

Sources: the model lists of llama.cpp (`meta.n_ctx`), vLLM (`max_model_len`), LM Studio, OpenRouter, Groq and litellm's
proxy; llama.cpp's `/props` (`modalities`); Ollama's `/api/ps` and `/api/show`. The smallest of several sizes holds: a
model may be trained for more than a server gives it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from codelet.errors import CodeletError
from codelet.providers.http import HttpClient
from codelet.providers.protocol import Deadlines, ServerFacts

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
TIMEOUT = 5.0
"""Seconds for all questions together."""


async def ask(base: str, headers: Mapping[str, str], name: str, *, local: bool) -> ServerFacts:
    """The report of the server at `base` on its model `name`; empty if it does not answer in time.

    A `local` server is also asked in the ways of llama.cpp and Ollama.
    """
    found: list[ServerFacts] = []
    with suppress(TimeoutError):  # earlier answers count
        async with asyncio.timeout(TIMEOUT):
            listed = await _answer(base, "/models", headers)
            entries = [entry for entry in _list(_object(listed).get("data")) if isinstance(entry, dict)]
            named = [entry for entry in entries if entry.get("id") == name]
            found += map(_of_entry, named or (entries if len(entries) == 1 else ()))  # one alone has any name
            if local:
                root = base.rstrip("/").removesuffix("/v1")
                found.append(_of_props(_object(await _answer(root, "/props", headers))))
                if all(facts.window is None for facts in found):
                    found.append(await _ask_ollama(root, headers, name))

    def least(field: str) -> int | None:
        return min((size for facts in found if (size := getattr(facts, field)) is not None), default=None)

    def first(field: str) -> bool | None:
        return next((value for facts in found if (value := getattr(facts, field)) is not None), None)

    return ServerFacts(least("window"), least("max_output"), first("tools"), first("images"))


def _of_entry(entry: dict[str, Any]) -> ServerFacts:
    places = [entry, _object(entry.get("meta")), _object(entry.get("top_provider"))]
    takes = _list(_object(entry.get("architecture")).get("input_modalities"))
    options = _list(entry.get("supported_parameters"))
    return ServerFacts(
        window=min(_sizes(places, _WINDOWS), default=None),
        max_output=min(_sizes(places, _OUTPUTS), default=None),
        tools="tools" in options if options else None,
        images="image" in takes if takes else None,
    )


def _of_props(props: dict[str, Any]) -> ServerFacts:
    tools = _object(props.get("chat_template_caps")).get("supports_tools")
    sees = _object(props.get("modalities")).get("vision")
    return ServerFacts(
        window=min(_sizes([props, _object(props.get("default_generation_settings"))], _WINDOWS[:1]), default=None),
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
    running = [_object(entry) for entry in _list(listed["models"])]
    matching = [entry for entry in running if entry.get("name") in names or entry.get("model") in names]
    details = _object(await _answer(root, "/api/show", headers, {"model": name}))
    lines = [line.split() for line in str(details.get("parameters") or "").splitlines()]
    in_file = {words[0]: int(words[1][:12]) for words in lines if len(words) == 2 and words[1].isdecimal()}
    window = min([*_sizes(matching, ["context_length"])] or _sizes([in_file], ["num_ctx"]), default=None)
    about = _object(details.get("model_info"))
    trained = _sizes([about], [key for key in about if key.endswith(".context_length")])
    able = _list(details.get("capabilities"))
    return ServerFacts(
        window=min([window, *trained]) if window else None,
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
    timeout: float = TIMEOUT,
    direct: bool = False,
) -> tuple[int, bytes] | None:
    """Status and body of an answer to a GET, or to a POST of a `question`; None without an answer.

    A large body is cut. The whole exchange takes `timeout` seconds: then the bytes of the body so far count, as some
    servers neither give a length nor close. `direct` bypasses any proxy.
    """
    until = asyncio.get_running_loop().time() + timeout
    limits = Deadlines(connect=timeout, first_token=timeout, between_chunks=timeout)
    data = b"" if question is None else json.dumps(question).encode()
    sent = {"accept": "application/json", "connection": "close", **headers}
    with suppress(CodeletError, TimeoutError):
        client = HttpClient(base, limits, method="POST" if data else "GET", direct=direct)
        try:
            async with asyncio.timeout_at(until) as head_limit, client.post(path, sent, data) as response:
                head_limit.reschedule(None)
                return response.status, await response.read(_LARGEST_ANSWER, until)
        finally:
            await client.close()
    return None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _sizes(places: list[dict[str, Any]], names: Iterator[str] | list[str] | tuple[str, ...]) -> Iterator[int]:
    """The usable sizes of those names in these places."""
    for place in places:
        for name in names:
            size = place.get(name)
            if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= _LARGEST_SIZE:
                yield size
