"""What an HTTP error answer means: one line for the user, and whether to try again."""

from __future__ import annotations

import json
from typing import Any

from codelet.errors import ProviderError
from codelet.process.environment import SHORTEST_SECRET

_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504, 529})

# Words by which servers say that the prompt is longer than the window; the status alone (400, 413) does not.
_OVERFLOW = (
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "context limit",
    "maximum context",
    "maximum prompt length",
    "maximum number of tokens",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "exceeds the limit of tokens",
    "token limit",
)

# Words by which servers and chat templates say that user and assistant must take turns; the status is 400 or 500.
_ALTERNATION = (
    "must alternate",
    "roles should alternate",
    "unexpected role 'user'",
    "roles in a row",
    "consecutive user messages",
)

# Words by which servers say that the model, or they for it, take no tools; the status is 400 or 404.
_NO_TOOLS = ("not support tools", "support tool use", "not support function calling", "tool-call-parser")

# A 429 that no waiting will cure.
_EXHAUSTED = ("insufficient_quota", "billing", "credit balance", "exceeded your current quota")


def failure(
    status: int,
    headers: dict[str, str],
    body: str,
    *,
    place: str,
    key_name: str,
    key: str | None = None,
    other_base: str | None = None,
) -> ProviderError:
    """The error for an answer with that status. `key_name` is the variable that holds the key.

    Some servers repeat the key in their message: it is taken out. `other_base` is the address that may have been
    meant where nothing is found at this one.
    """
    detail = error_detail(without_key(body, key))
    lowered = detail.lower() + body[:2_000].lower()
    overflow = status == 413 or (status in (400, 422) and any(words in lowered for words in _OVERFLOW))
    exhausted = any(words in lowered for words in _EXHAUSTED)
    headline = _headline(status, overflow=overflow, place=place, key_name=key_name)
    if status in (400, 404) and any(words in lowered for words in _NO_TOOLS):
        headline = f"the model takes no tools here ({status}); name another with --model, or talk without: --tools ''"
    elif status == 404 and other_base:
        headline += f" (is it {other_base}?)"
    return ProviderError(
        f"{headline}: {detail or 'no details'}",
        status=status,
        retryable=status in _RETRYABLE and not exhausted and not any(words in lowered for words in _ALTERNATION),
        retry_after=retry_after(headers),
        overflow=overflow,
    )


def without_key(text: str, key: str | None) -> str:
    """The text without the key, which some servers repeat. A shorter one than is masked elsewhere is a mere word."""
    return text.replace(key, "[key]") if key and len(key) >= SHORTEST_SECRET else text


def wants_alternation(error: ProviderError) -> bool:
    """Whether the error says that user and assistant must take turns in the messages."""
    lowered = str(error).lower()
    return any(words in lowered for words in _ALTERNATION)


def _headline(status: int, *, overflow: bool, place: str, key_name: str) -> str:
    if overflow:
        return f"the prompt does not fit the model's window ({status})"
    if status in (401, 403):
        return f"{place} rejected the key ({status}); check {key_name}"
    if status == 402:
        return f"{place} wants a payment (402)"
    if status == 404:
        return f"{place} does not know this model or path (404); check --model and --api-base"
    if status == 429:
        return f"{place} limits the rate (429)"
    if 300 <= status < 400:
        return f"{place} redirects elsewhere ({status}), which is not followed; check --api-base"
    return f"{place} answered with status {status}"


def error_detail(body: str) -> str:
    """The message inside a JSON error body, or the start of any other body, on one line."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        found = body
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, dict):
        found = found.get("error") or found
    if isinstance(found, dict):
        found = found.get("message") or found.get("detail") or json.dumps(found)
    return " ".join(str(found)[:5_000].split())[:300]


def retry_after(headers: dict[str, str]) -> float | None:
    """The seconds that the server asks us to wait, from `retry-after-ms` or `retry-after`."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        if "retry-after" in headers:
            return max(0.0, float(headers["retry-after"]))
    except ValueError:
        return _seconds_until(headers.get("retry-after", ""))
    return None


def _seconds_until(date: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None
