"""Exact counts by tiktoken with the files in litellm's package, without importing litellm or downloading.

Loading takes a second, so it happens once, on first use or in the background, under a lock. Texts are counted in
pieces, as the tokeniser panics at a run of a million spaces.
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
    """The tokeniser or its files are missing, or it failed; use the estimate."""


def encoding_name(model: str) -> str:
    """Return the encoding closest to a model's: o200k for newer OpenAI models, cl100k for all others."""
    name = model.rpartition("/")[2].lower()
    return (
        "o200k_base"
        if name.startswith(("gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4", "chatgpt-4o"))
        else "cl100k_base"
    )


def has_own_encoding(model: str) -> bool:
    """Return whether tiktoken has the model's own encoding; otherwise counts are not exact."""
    return model.rpartition("/")[2].lower().startswith(("gpt-3.5", "gpt-4", "gpt-5", "chatgpt-", "o1", "o3", "o4"))


def exact_size(messages: Sequence[AnyMessage], fixed: Sequence[str], model: str) -> int:
    """Return the tokens of a request by the encoding closest to the model's; `fixed` are its system prompt and tools.

    Blocks while the encoding loads. Raises ExactUnavailable.
    """
    total, encoding = 0, encoding_name(model)
    for message in messages:
        calls = json.dumps(message["tool_calls"], ensure_ascii=False, default=str) if message.get("tool_calls") else ""
        sent = f"{text_of(message)}{calls}{message.get('tool_call_id') or ''}"
        total += count_tokens(sent, encoding) + _PER_MESSAGE + picture_tokens(message)
    return total + sum(count_tokens(part, encoding) for part in fixed)


def load_encoding(name: str = "cl100k_base") -> Any:
    """Return the encoding, loaded once, from any thread. Raises ExactUnavailable."""
    found = _loaded.get(name)
    if found is not None:
        return found
    with _lock:
        if name not in _loaded:
            _loaded[name] = _read(name)
        return _loaded[name]


def count_tokens(text: str, name: str = "cl100k_base") -> int:
    """Return the tokens of a text; special tokens count as plain text.

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
    """Load the encoding from a file of litellm's package.

    tiktoken deletes and downloads a file that it does not expect, so the file is checked first.
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
    """Return the folder in litellm's package with an encoding's valid file. Raises ExactUnavailable."""
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
