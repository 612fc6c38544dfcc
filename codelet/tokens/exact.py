"""Exact counts by tiktoken, from the files that lie in litellm's package: no import of litellm, no download.

Loading takes a second, so it happens once, on first use or in the background, behind a lock. Texts are fed in pieces: a
run of a million blanks would make the tokeniser's engine panic.
"""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

PIECE = 200_000
# Encodings by the file they are read from. tiktoken names a cached file by the SHA-1 of its address.
_FILES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
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


def load(name: str = "cl100k_base") -> Any:
    """The encoding, loaded once. Safe to call from any thread; raises ExactUnavailable."""
    found = _loaded.get(name)
    if found is not None:
        return found
    with _lock:
        if name not in _loaded:
            _loaded[name] = _read(name)
        return _loaded[name]


def count(text: str, name: str = "cl100k_base") -> int:
    """How many tokens a text has; special tokens count as the plain text they are written in.

    A text over 200,000 characters is counted in pieces, which may add a token for each. Raises ExactUnavailable.
    """
    encoding = load(name)
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
    """Build an encoding: ranks from the file, pattern and special tokens from tiktoken's own definition.

    tiktoken's loader would copy the file to a temporary folder and could fetch it; so its definition runs with a
    loader of ours that hands over the ranks.
    """
    try:
        import tiktoken

        openai_public = import_module("tiktoken_ext.openai_public")
    except ImportError as error:
        raise ExactUnavailable(f"tiktoken is not installed: {error}") from error
    ranks = _ranks(_file(name))
    globals_of_definition = {**vars(openai_public), "load_tiktoken_bpe": lambda *_, **__: ranks}
    definition = FunctionType(getattr(openai_public, name).__code__, globals_of_definition)()
    return tiktoken.Encoding(**definition)


def _ranks(path: Path) -> dict[bytes, int]:
    """The ranks in a file of lines `base64 rank`; raises ExactUnavailable where it cannot be read."""
    from base64 import b64decode

    try:
        pairs = (line.split() for line in path.read_bytes().splitlines() if line)
        return {b64decode(token): int(rank) for token, rank in pairs}
    except (OSError, ValueError) as error:
        raise ExactUnavailable(f"the tokeniser's file cannot be read: {error}") from error


def _file(name: str) -> Path:
    """The file of an encoding inside litellm's package, found without importing it; raises ExactUnavailable."""
    from importlib.util import find_spec

    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "litellm_core_utils" / "tokenizers" / _FILES[name]
        if path.is_file():
            return path
    raise ExactUnavailable(f"the file of {name} is not on this machine")
