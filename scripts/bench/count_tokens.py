"""Count tokens of o200k_base in the text on stdin, with the file that litellm brings along: no download."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def tokens(text: str) -> int:
    """The number of o200k_base tokens in the text."""
    found = importlib.util.find_spec("litellm")
    if found is None or found.origin is None:
        raise SystemExit("count_tokens: litellm is not installed, its tokenizer files are needed")
    files = Path(found.origin).parent / "litellm_core_utils" / "tokenizers"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(files)
    import tiktoken

    return len(tiktoken.get_encoding("o200k_base").encode(text, disallowed_special=()))


if __name__ == "__main__":
    print(tokens(sys.stdin.read()))
