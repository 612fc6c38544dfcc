"""NO_PROXY: which addresses are reached without the proxy."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from codelet.providers.connection import proxy_for

DIRECT = [
    ("127.0.0.0/8", "http://127.0.0.1:8000"),
    ("10.0.0.0/8", "https://10.1.2.3"),
    ("10.1.2.9/8", "https://10.1.2.3"),
    ("fd00::/8", "http://[fd12::1]:8000"),
    ("[::1]", "http://[::1]:8000"),
    ("::1", "http://[::1]:8000"),
    ("[::1]:8000", "http://[::1]:8000"),
    ("127.0.0.1:8000", "http://127.0.0.1:8000"),
    ("example.com", "https://example.com"),
    ("example.com", "https://api.EXAMPLE.com."),
    (".example.com", "https://api.example.com"),
    ("*.example.com", "https://api.example.com"),
    ("example.com:443", "https://example.com"),
    ("other.example, 10.0.0.0/8 ,x", "http://10.0.0.1"),
    ("*", "https://example.com"),
    ("other.example,*", "https://example.com"),
]
PROXIED = [
    ("127.0.0.0/8", "http://128.0.0.1:8000"),
    ("fd00::/8", "http://[fe80::1]"),
    ("10.0.0.0/8", "http://ten.example"),
    ("10.0.0.0/99", "http://10.0.0.1"),
    ("127.0.0.1:8000", "http://127.0.0.1:8001"),
    ("[::1]:80", "http://[::1]:8000"),
    ("example.com", "https://notexample.com"),
    ("example.com:80", "https://example.com"),
    (".", "https://example.com"),
    ("", "https://example.com"),
    ("0.0.1", "http://10.0.0.1"),
]


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
@pytest.mark.parametrize(
    ("exceptions", "url", "direct"), [*((*each, True) for each in DIRECT), *((*each, False) for each in PROXIED)]
)
def test_what_goes_without_the_proxy(
    monkeypatch: pytest.MonkeyPatch, name: str, exceptions: str, url: str, direct: bool
) -> None:
    for each in ("no_proxy", "NO_PROXY", "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv(name, exceptions)
    assert (proxy_for(urlsplit(url)) is None) is direct


@pytest.mark.parametrize("names", [("https_proxy", "HTTPS_PROXY"), ("all_proxy", "ALL_PROXY")])
def test_an_empty_variable_in_small_letters_switches_the_proxy_off(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    for each in ("no_proxy", "NO_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(names[1], "http://proxy.example:3128")
    assert proxy_for(urlsplit("https://example.com")) is not None
    monkeypatch.setenv(names[0], "")
    assert proxy_for(urlsplit("https://example.com")) is None
