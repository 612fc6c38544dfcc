"""`--debug-requests`: every request on stderr as it is sent, without keys.

Over the native wires: request line, headers and body; through litellm: its arguments. Written where the bytes leave,
because any other place would show another text.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress

from codelet.safety.secrets import mask
from codelet.system.text import clean

_KEYS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization", "cookie"})
_HIDDEN = "[masked]"


def show_request(line: str, headers: Mapping[str, str], body: bytes) -> None:
    """Print a request to stderr. It is lost if stderr is closed or full."""
    rows = [line, *(f"{name}: {_HIDDEN if name.lower() in _KEYS else value}" for name, value in headers.items())]
    rows += ["", body.decode("utf-8", "replace")]
    text = "\n".join(f"> {clean(mask(row, patterns=True))}" for row in rows)
    for secret in (value.rpartition(" ")[2] for name, value in headers.items() if name.lower() in _KEYS):
        text = text.replace(secret, _HIDDEN) if len(secret) > 3 else text
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
