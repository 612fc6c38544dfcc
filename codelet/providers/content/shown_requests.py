"""`--debug-requests`: every request on stderr as it is sent, without keys.

Over the native wires: request line, headers and body; through litellm: its arguments. Written where the bytes leave,
because any other place would show another text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress

from codelet.safety.secrets import mask
from codelet.system.text import clean

_KEYS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization", "cookie"})
_HIDDEN = "[masked]"


def show_request(line: str, headers: Mapping[str, str], body: bytes) -> None:
    """Print a request over HTTP."""
    rows = [line, *(f"{name}: {_HIDDEN if name.lower() in _KEYS else value}" for name, value in headers.items())]
    secrets = [value.rpartition(" ")[2] for name, value in headers.items() if name.lower() in _KEYS]
    _print([*rows, "", body.decode("utf-8", "replace")], secrets)


def show_arguments(arguments: Mapping[str, object]) -> None:
    """Print litellm's arguments."""
    shown = {name: _HIDDEN if name == "api_key" else value for name, value in arguments.items()}
    text = json.dumps(shown, ensure_ascii=False, default=str)
    _print(["litellm.acompletion", text], [str(arguments.get("api_key") or "")])


def _print(lines: list[str], secrets: list[str]) -> None:
    """Write lines to stderr, one line each. They are lost if stderr is closed or full."""
    text = "\n".join(f"> {clean(mask(line, patterns=True))}" for line in lines)
    for secret in secrets:
        text = text.replace(secret, _HIDDEN) if len(secret) > 3 else text
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
