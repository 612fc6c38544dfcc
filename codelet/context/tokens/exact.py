"""Exact counts by tiktoken, from the files that lie in litellm's package: no import of litellm, no download.

Loading takes a second, so it happens once, on first use or in the background, behind a lock. Texts are fed in pieces: a
run of a million spaces would make the tokeniser's engine panic.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codelet.context.tokens import picture_tokens
from codelet.messages import AnyMessage, text_of
from codelet.system.process.start import lent

PIECE = 200_000
_PER_MESSAGE = 4
CACHE_VARIABLE = "TIKTOKEN_CACHE_DIR"
# Encodings by the file they are read from and its SHA-256. tiktoken names a cached file by the SHA-1 of its address.
_FILES = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}
_lock = threading.Lock()
_loaded: dict[str, Any] = {}


class ExactUnavailable(RuntimeError):
    """The tokeniser or its files are not on this machine, or it failed; the estimate has to do."""


def encoding_name(model: str) -> str:
    """The encoding that comes nearest to a model's: o200k for newer OpenAI models, cl100k for all others."""
    name = model.rpartition("/")[2].lower()
    return (
        "o200k_base"
        if name.startswith(("gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4", "chatgpt-4o"))
        else "cl100k_base"
    )


def has_own_encoding(model: str) -> bool:
    """Return whether the model's own tokeniser is in tiktoken: for another its counts are not exact."""
    return model.rpartition("/")[2].lower().startswith(("gpt-3.5", "gpt-4", "gpt-5", "chatgpt-", "o1", "o3", "o4"))


def exact_size(messages: Sequence[AnyMessage], beside: Sequence[str], model: str) -> int:
    """Tokens of a request by the encoding that comes nearest to the model's; `beside` are its system prompt and tools.

    Waits for the encoding: for a thread. Raises ExactUnavailable.
    """
    total, encoding = 0, encoding_name(model)
    for message in messages:
        calls = json.dumps(message["tool_calls"], ensure_ascii=False, default=str) if message.get("tool_calls") else ""
        sent = f"{text_of(message)}{calls}{message.get('tool_call_id') or ''}"
        total += count_tokens(sent, encoding) + _PER_MESSAGE + picture_tokens(message)
    return total + sum(count_tokens(part, encoding) for part in beside)


def load_encoding(name: str = "cl100k_base") -> Any:
    """The encoding, loaded once. Safe to call from any thread; raises ExactUnavailable."""
    found = _loaded.get(name)
    if found is not None:
        return found
    with _lock:
        if name not in _loaded:
            _loaded[name] = _read(name)
        return _loaded[name]


def count_tokens(text: str, name: str = "cl100k_base") -> int:
    """Return how many tokens a text has; special tokens count as the plain text they are written in.

    A text over 200,000 characters is counted in pieces, which may add a token for each. Raises ExactUnavailable.
    """
    encoding = load_encoding(name)
    total = 0
    for start in range(0, len(text), PIECE):
        piece = text[start : start + PIECE]
        try:
            total += len(encoding.encode_ordinary(piece))
        except BaseException as error:
            # The engine's panic is no Exception. Nothing else may be swallowed with it.
            if type(error).__name__ != "PanicException":
                raise
            raise ExactUnavailable(f"the tokeniser failed on {len(piece)} characters") from None
    return total


def _read(name: str) -> Any:
    """The encoding by tiktoken, from a file on this machine.

    tiktoken would delete a file that is not what it expects, and fetch it: so only a file that is comes before it.
    """
    try:
        import tiktoken
    except (ImportError, OSError) as error:
        raise ExactUnavailable(f"tiktoken cannot be imported: {error}") from error
    with lent(CACHE_VARIABLE, str(_folder(name))):
        try:
            return tiktoken.get_encoding(name)
        except (OSError, ValueError) as error:
            raise ExactUnavailable(f"tiktoken cannot load {name}: {error}") from error


def _folder(name: str) -> Path:
    """The folder in litellm's package that holds the file of an encoding, whole; raises ExactUnavailable."""
    from hashlib import sha256
    from importlib.util import find_spec

    file, digest = _FILES[name]
    spec = find_spec("litellm")  # found without importing it
    for package in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(package) / "litellm_core_utils" / "tokenizers"
        try:
            found = sha256((folder / file).read_bytes()).hexdigest()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ExactUnavailable(f"the tokeniser's file cannot be read: {error}") from error
        if found != digest:
            raise ExactUnavailable(f"the file of {name} is not what it should be")
        return folder
    raise ExactUnavailable(f"the file of {name} is not on this machine")
