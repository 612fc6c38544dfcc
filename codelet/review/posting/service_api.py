"""Requests to the API of GitHub or GitLab: JSON both ways, no redirects; and patience with failures that may pass."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.parse import urlsplit

from codelet.errors import ProviderError, UsageError
from codelet.system.text import one_line

_SECONDS, _LONGEST_WAIT, _ATTEMPTS = 30.0, 60.0, 20
_MOST_BYTES = 32 << 20
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))

Acted = TypeVar("Acted")


class ServiceRefusal(Exception):
    """The service answered with a status of 400 to 499 that another attempt would not change."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status {status}: {message}")
        self.status = status


class PassingFailure(Exception):
    """A request failed, and the service may have acted on it. It asks to wait `wait` seconds, None if it does not."""

    def __init__(self, problem: str, wait: float | None = None) -> None:
        super().__init__(problem)
        self.wait = wait


def patiently(act: Callable[[], Acted], deadline: float) -> Acted:
    """Return the result of `act`, called again after a passing failure. Raises ProviderError at the deadline."""
    for attempt in range(_ATTEMPTS):
        try:
            return act()
        except PassingFailure as failure:
            problem = str(failure)
            asked = "" if failure.wait is None else f"; it asks to wait {failure.wait:.0f} s"
            seconds = min(2.0**attempt, _LONGEST_WAIT) if failure.wait is None else failure.wait
        if time.monotonic() + seconds > deadline:
            break
        time.sleep(seconds)
    raise ProviderError(f"{problem}{asked}; run the same command again later: nothing is posted twice")


class ServiceApi:
    """Requests below one base address."""

    def __init__(self, base: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(base)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme != "https" and not (parts.scheme == "http" and local):
            raise UsageError(f"{one_line(base, 200)}: the address of the service must begin with https://")
        self._base = base.rstrip("/")
        self._host = parts.netloc.rpartition("@")[2]
        self._headers = {"Accept": "application/json", "User-Agent": "codelet", **headers}
        self._opener = urllib.request.build_opener(_NoRedirect)

    def call(self, method: str, path: str, body: object = None) -> tuple[Any, Message]:
        """Return the JSON of an answer (None without a body) and its headers. Raises ServiceRefusal, PassingFailure."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, self._headers, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                text = answer.read(_MOST_BYTES + 1)
                if len(text) > _MOST_BYTES:
                    raise ValueError("the answer is too long")
                return json.loads(text) if text else None, answer.headers
        except urllib.error.HTTPError as error:
            with error:
                wait, message = _wait(error.headers), _message(error)
            # GitHub answers 403 at its primary and secondary limits, with a time to wait.
            if error.code not in _PASSING and (error.code != 403 or wait is None):
                raise ServiceRefusal(error.code, message) from None
            raise PassingFailure(f"{self._host} answers with status {error.code}: {message}", wait) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = one_line(str(getattr(error, "reason", None) or error), 200) or type(error).__name__
            raise PassingFailure(f"cannot reach {self._host}: {reason}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token must not travel to a host that the user did not name."""

    def redirect_request(self, *given: Any) -> None:
        return None


def _message(error: urllib.error.HTTPError) -> str:
    """The service's own message, on one line."""
    try:
        document = json.loads(error.read(1 << 16))
    except (OSError, HTTPException, ValueError):
        return error.reason or "no message"
    fields = document if isinstance(document, dict) else {"message": document}
    texts = [str(fields[name]) for name in ("message", "error", "errors") if fields.get(name)]
    return one_line(" ".join(texts), 300) or "no message"


def _wait(headers: Message) -> float | None:
    """The seconds to wait that the service names; None if it names none."""
    times = {"retry-after": 0.0}
    if headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining")) == "0":
        times |= dict.fromkeys(("x-ratelimit-reset", "ratelimit-reset"), time.time())
    for name, since in times.items():
        text = headers.get(name, "").strip()
        if text.isascii() and text.isdigit():
            return min(max(float(text[:12]) - since, 0.0), 86_400.0)
    return None
