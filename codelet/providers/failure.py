"""An HTTP error as one line for the user, and whether to try again."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from typing import Any, Literal

from codelet.errors import ProviderError
from codelet.providers.catalog import table
from codelet.providers.connection import PROXY_LOGIN
from codelet.providers.protocol import json_value
from codelet.system.text import valid_unicode
from codelet.system.text.secret_shapes import SHORTEST_SECRET

_WORDS = "refusals.toml"

# Statuses below 500 that a retry may cure; all from 500 on may be.
_PASSING = frozenset({408, 409, 425, 429})

PATIENCE = 30.0
"""Seconds of attempts at a server that does not answer."""

_PATIENCE_REFUSED = 10.0

# Google reports each limit as an exceeded quota, with the time to wait, which the day's quota has too.
_DELAY = re.compile(r'"retrydelay":\s*"(\d{1,9}(?:\.\d{1,9})?)s"')
_OF_THE_DAY = "perday"

_LEAST_WINDOW = 256

_OVERFLOW_STATUSES = (400, 413, 422, 500)
_PAGE = re.compile(r"\s*<(?:!doctype html|html|head|\?xml)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_WRONG_KEY = "api key not valid"  # Google's, with status 400


def http_failure(
    status: int,
    headers: dict[str, str],
    body: str,
    *,
    place: str,
    key_name: str,
    key: str | None = None,
    other_base: str | None = None,
    proxy: str = "",
) -> ProviderError:
    """The error for an answer with that status. `key_name` is the key's variable.

    The key is removed from messages that repeat it. `other_base` is the address to suggest if nothing is found at this
    one. `proxy` is the plain proxy that may have answered instead of the server.
    """
    detail = error_detail(without_key(body, key))
    lowered = detail.lower() + body[:2_000].lower()
    overflow = is_overflow(lowered, status)
    of_proxy = status == 407 or any(name.startswith("proxy-") for name in headers)
    has_message = isinstance(json_error(body), str)
    if proxy and status != 413 and (of_proxy or not has_message):  # after a 413 the prompt has to be shorter
        headline = f"{place}, through the proxy {proxy}, answered with status {status}; check the proxy variables"
        if status == 407:
            headline = f"the proxy {proxy} wants credentials (407); {PROXY_LOGIN}"
    elif overflow:
        headline = f"the prompt does not fit the model's window ({status})"
    elif status in (400, 404) and _says(lowered, "no_tools"):
        headline = f"the model takes no tools here ({status}); name another with --model, or talk without: --tools ''"
    elif status in (401, 403) and _PAGE.match(body):
        gateway = f"a gateway ({headers['server'][:40]})" if headers.get("server") else "a gateway"
        headline = (
            f"{gateway}, not the API at {place}, refused the request ({status}); "
            "check --api-base, and the network, VPN or proxy in use"
        )
    elif status in (401, 403) or (status == 400 and _WRONG_KEY in lowered):
        rejected = f"{place} rejected the key ({status}); check {key_name}"
        headline = rejected if key else f"{place} wants a key ({status}); set {key_name}"
    else:
        headline = f"{place} {_HEADLINES.get(300 if 300 <= status < 400 else status, _OTHER).format(status)}"
    if status == 404 and other_base:
        headline += f" (is it {other_base}?)"
    asks_again = {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())
    passing = is_passing(status) if asks_again is None else asks_again
    error = _failure(f"{headline}: {detail or 'no details'}", body, lowered, status, passing=passing, overflow=overflow)
    if (asked := retry_after(headers)) is not None:
        error.retry_after = asked
    return error


_HEADLINES = {
    300: "redirects elsewhere ({}), which is not followed; check --api-base",
    402: "requires a payment ({})",
    404: "does not know this model or path ({}); check --model and --api-base",
    413: "reports a rate limit ({})",
    429: "reports a rate limit ({})",
}
_OTHER = "answered with status {}"


def _failure(
    message: str, body: str, lowered: str, status: int | None, *, passing: bool, overflow: bool
) -> ProviderError:
    """The error with what a body says of waiting and of the window."""
    start = body[:20_000].lower()
    found = None if _OF_THE_DAY in start else _DELAY.search(start)
    used_up = found is None and _says(lowered, "exhausted")
    return ProviderError(
        message,
        status=status,
        retryable=passing and not (overflow or used_up or _says(lowered, "alternation")),
        retry_after=float(found[1]) if found else None,
        overflow=overflow,
        window=reported_number("window", body) if overflow else None,
        prompt_size=reported_number("prompt_size", body) if overflow else None,
    )


def json_error(body: str) -> Any:
    """The error in a JSON body: its message or details, or an object that says more; None for another body."""
    found = json_value(body)
    found = found[0] if isinstance(found, list) and found else found
    error = found.get("error") or found if isinstance(found, dict) else None
    return (error.get("message") or error.get("detail") or error) if isinstance(error, dict) else error


def stream_failure(error: object) -> ProviderError:
    """The error for an error event, or for an error in a body with status 200.

    Its type, code or status, as number or name, says whether to retry; without any of them a retry is worth it.
    """
    text = error if isinstance(error, str) else valid_unicode(json.dumps({"error": error}, ensure_ascii=False))
    fields = error if isinstance(error, dict) else {}
    names = [str(fields[name]) for name in ("code", "type", "status") if fields.get(name)]
    statuses = [int(name) for name in names if len(name) == 3 and name.isascii() and name.isdigit()]
    status = statuses[0] if statuses else None
    letters = ("".join(filter(str.isalpha, name.lower())) for name in names)
    passing = (
        is_passing(status)
        if status
        else not names or any(name in table("passing", _WORDS)["names"] for name in letters)
    )
    lowered = text[:5_000].lower()
    overflow = is_overflow(lowered, status)
    headline = "the prompt does not fit the model's window" if overflow else "the provider broke off"
    return _failure(f"{headline}: {error_detail(text)}", text, lowered, status, passing=passing, overflow=overflow)


def unreachable(message: str, *, local: bool = False, refused: bool = False) -> ProviderError:
    """The error for a server that cannot be reached, or sends nothing in time.

    A network recovers, and so does a gateway; an address on this machine, or one that refuses, rather has no server.
    """
    return ProviderError(message, retryable=True, patience=_PATIENCE_REFUSED if local or refused else PATIENCE)


def is_overflow(text: str, status: int | None = None) -> bool:
    """Return whether the prompt is too long. An error event has no `status`.

    Rate limits use the same words, but a shorter prompt does not help with them.
    """
    lowered = text.lower()
    if status not in (None, *_OVERFLOW_STATUSES) or _says(lowered, "rate"):
        return False
    return status == 413 or _says(lowered, "overflow")


def _says(lowered: str, kind: str) -> bool:
    return any(words in lowered for words in table(kind, _WORDS))


def reported_number(kind: Literal["window", "prompt_size"], text: str) -> int | None:
    """A number of tokens in the refusal of a long prompt; None without one.

    The model's window, or the prompt's size as the server counts it, without the answer's room.
    """
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text[:5_000].lower())
    found = (re.search(pattern, plain) for pattern in table(kind, _WORDS))
    numbers = [int(match[1]) for match in found if match is not None and len(match[1]) <= 10]
    return next((number for number in numbers if number >= _LEAST_WINDOW), None)


def is_passing(status: int) -> bool:
    """Return whether the same request may succeed later, after that status."""
    return status in _PASSING or 500 <= status < 600


def without_key(text: str, key: str | None) -> str:
    """The text without the key. One too short to be masked elsewhere is an ordinary word."""
    return text.replace(key, "[key]") if key and len(key) >= SHORTEST_SECRET else text


def error_detail(body: str) -> str:
    """The message in a JSON error body, a page's title, or the start of another body, on one line."""
    found = json_error(body)
    if found is None:
        title = _TITLE.search(body[:20_000]) if _PAGE.match(body) else None
        found = title[1] if title and title[1].strip() else body
    text = found if isinstance(found, str) else json.dumps(found)
    return " ".join(text[:5_000].split())[:300]


def retry_after(headers: dict[str, str]) -> float | None:
    """The seconds in `retry-after-ms` or `retry-after`, which may be a date; None without any."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError, KeyError):
            return max(0.0, float(headers[name]) / unit)
    from calendar import timegm  # for dates only
    from email.utils import parsedate

    date = parsedate(headers.get("retry-after", ""))
    with suppress(ValueError):
        return max(0.0, timegm(date) - time.time()) if date else None  # HTTP's dates are in GMT
    return None
