"""The meaning of litellm's exceptions. Classes and texts mislead, so the exceptions underneath decide.

Measured: a refused connection has status 500, Anthropic's 413 becomes 400 and its 529 becomes 500, a missing key 500,
any failure within a stream 503. The HTTP client's exception is still in the chain, with the server's real status and
headers.
"""

from __future__ import annotations

import ast
import json
import ssl
from collections.abc import Iterator
from typing import Any

from codelet.errors import CodeletError, ProviderError, UsageError
from codelet.providers.addresses.clouds import missing
from codelet.providers.failure import (
    http_failure,
    is_overflow,
    is_passing,
    reported_window,
    stream_failure,
    unreachable,
    without_key,
)

_MISSING_KEY = (
    "missing credentials",
    "api key",
    "api_key",
    "unable to locate credentials",
    "default credentials were not found",
)


def translated(
    error: Exception, *, model: str, place: str, key_name: str, begun: bool, local: bool, key: str | None = None
) -> CodeletError:
    """The error to raise instead of `error`.

    `begun`: the stream had yielded something; `local`: the server is on this machine.
    """
    made = _translated(error, model=model, place=place, key_name=key_name, begun=begun, local=local, key=key)
    made.args = (without_key(str(made), key),)
    return made


def _translated(
    error: Exception, *, model: str, place: str, key_name: str, begun: bool, local: bool, key: str | None
) -> CodeletError:
    chain = list(_chain(error))
    headers = next((found for link in chain if (found := _headers(link)) is not None), None)
    if headers is not None:
        answer = http_failure(_status(chain), headers, _body(chain), place=place, key_name=key_name, key=key)
        answer.overflow = answer.overflow or _has(chain, "ContextWindowExceededError")
        return answer
    if (lost := _lost_connection(chain, place, begun=begun, local=local)) is not None:
        return lost
    if _has(chain, "JSONDecodeError"):
        return ProviderError(f"the answer is garbled: {_text(chain[-1])}", retryable=True)
    if _has(chain, "MidStreamFallbackError"):
        return _broken_off(chain)
    text = _text(error)
    if "LLM Provider NOT provided" in text:
        return UsageError(f"unknown model {model!r}: write it as provider/name, as litellm spells it")
    if any(words in text.lower() for words in _MISSING_KEY):
        return ProviderError(f"no key for {place}: set {key_name} ({text})", status=401)
    if (package := missing(model.partition("/")[0], text)) is not None:
        return ProviderError(package)
    overflow = is_overflow(text)
    return ProviderError(f"{place}: {text}", overflow=overflow, window=reported_window(text) if overflow else None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, outermost first."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        link = waiting.pop(0)
        if not isinstance(link, BaseException) or link in seen:
            continue
        seen.append(link)
        yield link
        waiting += [getattr(link, "original_exception", None), link.__cause__, link.__context__]


def _has(chain: list[BaseException], name: str) -> bool:
    return any(parent.__name__ == name for link in chain for parent in type(link).__mro__)


def _headers(link: BaseException) -> dict[str, str] | None:
    """The headers of the server's error, if this link has them."""
    headers = getattr(link, "litellm_response_headers", None)
    return None if headers is None else {str(name).lower(): str(value) for name, value in headers.items()}


def _status(chain: list[BaseException]) -> int:
    """The answer's status: the innermost, as the outer ones are guesses."""
    found = [code for link in chain if isinstance(code := getattr(link, "status_code", None), int)]
    return found[-1] if found else 500


def _body(chain: list[BaseException]) -> str:
    for link in reversed(chain):
        body = getattr(link, "body", None)
        if isinstance(body, dict):
            return json.dumps({"error": body})
        message = getattr(link, "message", None)
        if isinstance(message, str) and message:
            return _unquoted(message)
    return _text(chain[0])


def _unquoted(message: str) -> str:
    """The body, out of the repr of bytes."""
    if message[:2] not in ("b'", 'b"'):
        return message
    try:
        return bytes(ast.literal_eval(message)).decode("utf-8", "replace")
    except (ValueError, SyntaxError, TypeError):
        return message


def _lost_connection(chain: list[BaseException], place: str, *, begun: bool, local: bool) -> ProviderError | None:
    for link in chain:
        if isinstance(link, ssl.SSLError):
            reason = getattr(link, "verify_message", "") or link.reason or str(link)
            return ProviderError(f"TLS with {place} failed: {reason}; is SSL_CERT_FILE needed?")
    if begun and any(_has(chain, name) for name in ("OSError", "TransportError", "ClientError")):
        return ProviderError("the connection was cut in the middle of the answer", retryable=True)
    if any(_has(chain, name) for name in ("ConnectTimeout", "ConnectionTimeoutError")):
        return unreachable(f"{place} did not accept a connection in time", local=local)
    for link in reversed(chain):
        if isinstance(link, OSError):
            reason = link.strerror or str(link) or type(link).__name__
            message = f"cannot reach {place}: {reason}; check the network and --api-base"
            return unreachable(message, local=local, refused=isinstance(link, ConnectionRefusedError))
    if _has(chain, "TransportError") or _has(chain, "ClientError"):
        return unreachable(f"{place} closed the connection without an answer", local=local)
    return None


def _broken_off(chain: list[BaseException]) -> ProviderError:
    """An error event. The adapter for Anthropic invents a status, which is a good hint."""
    body = next((found for link in chain if isinstance(found := getattr(link, "body", None), dict)), None)
    if body is not None:
        return stream_failure(body)
    found = stream_failure(_body(chain))
    own = (link for link in chain if type(link).__module__.startswith("litellm.llms."))
    hints = [status for link in own if isinstance(status := getattr(link, "status_code", None), int)]
    if hints:
        found.retryable = found.retryable and is_passing(hints[-1])
    return found


def _text(error: BaseException) -> str:
    """The exception's message on one line, without litellm's prefix and traceback."""
    text = str(error).partition("\nTraceback")[0]
    head, separator, rest = text.partition(": ")
    if separator and head.startswith("litellm."):
        text = rest
    return " ".join(text.split())[:300]
