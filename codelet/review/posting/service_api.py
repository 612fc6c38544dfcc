"""Requests to the API of GitHub or GitLab: JSON both ways, patience with rate limits, no redirects."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from codelet.errors import ProviderError, UsageError
from codelet.system.text import one_line

_SECONDS = 30.0
_MOST_BYTES = 32 << 20
_LONGEST_WAIT = 60.0
_ATTEMPTS = 8
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
_LATER = "run the same command again later: nothing is posted twice"


class ServiceRefusal(Exception):
    """The service answered with a status of 400 to 499 that another attempt would not change."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status {status}: {message}")
        self.status = status


class MaybeDone(Exception):
    """A request that must not be made twice failed, and the service may have acted on it."""


class ServiceApi:
    """Requests below one base address. `deadline` is a time of `time.monotonic` after which nothing is tried again."""

    def __init__(self, base: str, headers: Mapping[str, str], deadline: float) -> None:
        parts = urlsplit(base)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme != "https" and not (parts.scheme == "http" and local):
            raise UsageError(f"{one_line(base, 200)}: the address of the service must begin with https://")
        self._base = base.rstrip("/")
        self._host = parts.netloc.rpartition("@")[2]
        self._headers = {"Accept": "application/json", "User-Agent": "codelet", **headers}
        self._deadline = deadline
        self._opener = urllib.request.build_opener(_NoRedirect)

    def call(self, method: str, path: str, body: object = None, *, repeatable: bool = True) -> tuple[Any, Message]:
        """Make a request, again after a passing failure. Return the JSON (None if there is no body) and the headers.

        With `repeatable` false it is only made again if the service said that it did not act on it.

        Raises:
            ServiceRefusal: the service refused it.
            MaybeDone: it failed in a way that leaves open whether the service acted on it.
            ProviderError: the service cannot be reached, or did not answer in time.
        """
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(1, _ATTEMPTS + 1):
            request = urllib.request.Request(self._base + path, data, self._headers, method=method)
            if data is not None:
                request.add_header("Content-Type", "application/json")
            wait = None
            try:
                with self._opener.open(request, timeout=_SECONDS) as answer:
                    text = answer.read(_MOST_BYTES + 1)
                    if len(text) > _MOST_BYTES:
                        raise ValueError("the answer is too long")
                    return json.loads(text) if text else None, answer.headers
            except urllib.error.HTTPError as error:
                with error:
                    headers, message = error.headers, _message(error)
                wait = _wait(headers)
                # GitHub answers 403 at its primary and secondary limits.
                is_limited = error.code == 429 or (
                    error.code == 403 and (_is_exhausted(headers) or "retry-after" in headers)
                )
                problem = f"{self._host} answers with status {error.code}: {message}"
                if error.code not in _PASSING and not is_limited:
                    raise ServiceRefusal(error.code, message) from None
                if not repeatable and not is_limited:
                    raise MaybeDone(problem) from None
            except (OSError, HTTPException, ValueError) as error:
                reason = getattr(error, "reason", None) or error
                problem = f"cannot reach {self._host}: {one_line(str(reason), 200) or type(error).__name__}"
                if not repeatable:
                    raise MaybeDone(problem) from None
            seconds = min(2.0 ** (attempt - 1), _LONGEST_WAIT) if wait is None else wait
            if time.monotonic() + seconds > self._deadline:
                asked = "" if wait is None else f"; it asks to wait {wait:.0f} s"
                raise ProviderError(f"{problem}{asked}; {_LATER}")
            time.sleep(seconds)
        raise ProviderError(f"{problem}; tried {_ATTEMPTS} times")


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
    texts = (
        [document.get(name) for name in ("message", "error", "errors")] if isinstance(document, dict) else [document]
    )
    return one_line(" ".join(str(each) for each in texts if each), 300) or "no message"


def _is_exhausted(headers: Message) -> bool:
    return headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining")) == "0"


def _wait(headers: Message) -> float | None:
    """The seconds to wait that the service names; None if it names none."""
    times = {"retry-after": 0.0}
    if _is_exhausted(headers):
        times |= dict.fromkeys(("x-ratelimit-reset", "ratelimit-reset"), time.time())
    for name, since in times.items():
        text = headers.get(name, "").strip()
        if text.isascii() and text.isdigit():
            return min(max(float(text[:12]) - since, 0.0), 86_400.0)
    return None
