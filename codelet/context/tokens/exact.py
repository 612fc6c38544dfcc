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
from codelet.messages import ForeignMessage, text_of

PIECE = 200_000
_PER_MESSAGE = 4
# By encoding: its file, the file's SHA-256, and the pattern that splits a text before its tokens are looked up.
_ENCODINGS = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}
_lock = threading.Lock()
_loaded: dict[str, Any] = {}


class ExactUnavailable(RuntimeError):
    """The tokeniser or its files are missing, or it failed; use the estimate."""


def encoding_name(model: str) -> str:
    """Return the encoding closest to a model's: o200k for newer OpenAI models, cl100k for all others."""
    newer = ("gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4", "chatgpt-4o")
    return "o200k_base" if model.rpartition("/")[2].lower().startswith(newer) else "cl100k_base"


def has_own_encoding(model: str) -> bool:
    """Return whether tiktoken has the model's own encoding; otherwise counts are not exact."""
    return model.rpartition("/")[2].lower().startswith(("gpt-3.5", "gpt-4", "gpt-5", "chatgpt-", "o1", "o3", "o4"))


def exact_size(messages: Sequence[ForeignMessage], fixed: Sequence[str], model: str) -> int:
    """Return the tokens of a request by the encoding closest to the model's; `fixed` are its system prompt and tools.

    Blocks while the encoding loads. Raises ExactUnavailable.
    """
    total, encoding = 0, encoding_name(model)
    for message in messages:
        calls = json.dumps(message["tool_calls"], ensure_ascii=False, default=str) if message.get("tool_calls") else ""
        sent = f"{text_of(message)}{calls}{message.get('tool_call_id') or ''}"
        total += count_tokens(sent, encoding) + _PER_MESSAGE + picture_tokens(message)
    return total + sum(count_tokens(part, encoding) for part in fixed)


def count_tokens(text: str, name: str = "cl100k_base") -> int:
    """Return the tokens of a text; special tokens count as plain text.

    A text over 200,000 characters is counted in pieces, which may add a token for each. Raises ExactUnavailable.
    """
    with _lock:
        if name not in _loaded:
            _loaded[name] = _read(name)
    encoding, total = _loaded[name], 0
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
    """Load the encoding from a file of litellm's package. Raises ExactUnavailable."""
    from base64 import b64decode
    from hashlib import sha256
    from importlib.util import find_spec

    file, digest, pattern = _ENCODINGS[name]
    spec = find_spec("litellm")  # found without importing it
    try:
        import tiktoken

        folder = Path(next(iter(spec.submodule_search_locations or ()), "")) if spec is not None else Path()
        data = (folder / "litellm_core_utils" / "tokenizers" / file).read_bytes()
    except (ImportError, OSError) as error:
        raise ExactUnavailable(f"tiktoken cannot count as {name}: {error}") from error
    if sha256(data).hexdigest() != digest:
        raise ExactUnavailable(f"the file of {name} is not what it should be")
    ranks = {b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
