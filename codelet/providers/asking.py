"""Asks a server about a model: window, output limit, tools, images.

Sources: the model lists of llama.cpp (`meta.n_ctx`), vLLM (`max_model_len`), LM Studio, OpenRouter, Groq and litellm's
proxy; llama.cpp's `/props` (`modalities`); Ollama's `/api/ps` and `/api/show`. The smallest of several sizes holds: a
model may be trained for more than a server gives it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from codelet.errors import CodeletError
from codelet.providers.http import HttpClient
from codelet.providers.protocol import Deadlines, ServerFacts, json_value, value_at

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
            listed = value_at(await _answer(base, "/models", headers), "data")
            entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
            named = [entry for entry in entries if entry.get("id") == name]
            found += map(_of_entry, named or (entries if len(entries) == 1 else ()))  # one alone has any name
            if local:
                root = base.rstrip("/").removesuffix("/v1")
                props = await _answer(root, "/props", headers)
                sizes = value_at(props, "n_ctx"), value_at(props, "default_generation_settings", "n_ctx")
                tools = _flag(value_at(props, "chat_template_caps", "supports_tools"))
                images = _flag(value_at(props, "modalities", "vision"))
                found.append(ServerFacts(_least(sizes), None, tools, images))
                if all(facts.window is None for facts in found):
                    found.append(await _ask_ollama(root, headers, name))

    def first(field: str) -> bool | None:
        return next((value for facts in found if (value := getattr(facts, field)) is not None), None)

    windows, outputs = (each.window for each in found), (each.max_output for each in found)
    return ServerFacts(_least(windows), _least(outputs), first("tools"), first("images"))


def _of_entry(entry: dict[str, Any]) -> ServerFacts:
    places = [entry, value_at(entry, "meta"), value_at(entry, "top_provider")]
    return ServerFacts(
        window=_least(value_at(place, name) for place in places for name in _WINDOWS),
        max_output=_least(value_at(place, name) for place in places for name in _OUTPUTS),
        tools=_lists(value_at(entry, "supported_parameters"), "tools"),
        images=_lists(value_at(entry, "architecture", "input_modalities"), "image"),
    )


async def _ask_ollama(root: str, headers: Mapping[str, str], name: str) -> ServerFacts:
    """The report of Ollama's own API: the window of a running model, else of the model's file.

    The trained length alone says nothing: Ollama gives a model less, and silently cuts the rest.
    """
    running, names = value_at(await _answer(root, "/api/ps", headers), "models"), (name, f"{name}:latest")
    if not isinstance(running, list):
        return ServerFacts()  # another server
    details = await _answer(root, "/api/show", headers, {"model": name})
    matching = (each for each in running if value_at(each, "name") in names or value_at(each, "model") in names)
    window = _least(value_at(each, "context_length") for each in matching)
    in_file = re.search(r"^num_ctx\s+(\d{1,12})$", str(value_at(details, "parameters")), re.MULTILINE)
    if window is None and in_file is not None:
        window = _least([int(in_file[1])])
    about = value_at(details, "model_info")
    trained = [about[key] for key in about if key.endswith(".context_length")] if isinstance(about, dict) else []
    able = value_at(details, "capabilities")
    return ServerFacts(
        _least([window, *trained]) if window else None, None, _lists(able, "tools"), _lists(able, "vision")
    )


async def _answer(base: str, path: str, headers: Mapping[str, str], question: object = None) -> Any:
    """The JSON of a server's answer; None without one."""
    answer = await exchange(base, path, headers, question)
    return json_value(answer[1]) if answer is not None and answer[0] == 200 else None


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


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _lists(values: object, word: str) -> bool | None:
    """Return whether a list has the word; None without a list."""
    return word in values if isinstance(values, list) and values else None


def _least(sizes: Iterable[object]) -> int | None:
    """The smallest usable size, if any."""
    numbers = (size for size in sizes if isinstance(size, int) and not isinstance(size, bool))
    return min((size for size in numbers if 0 < size <= _LARGEST_SIZE), default=None)
