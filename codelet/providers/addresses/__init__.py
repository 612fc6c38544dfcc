"""Vendors' addresses from the user's variables."""

from __future__ import annotations

from urllib.parse import urlsplit


def local_base(address: str, usual: str) -> str:
    """A local server's address from a variable, which may lack scheme, host, port or path, or name a listening address.

    Missing parts come from the `usual` address.
    """
    try:
        url = urlsplit(address if "//" in address else f"http://{address}")
        own = urlsplit(usual)
        port = url.port or (None if "//" in address else own.port)
    except ValueError:
        return address  # the wire says what is wrong with it
    host = own.hostname if url.hostname in (None, "0.0.0.0", "::") else url.hostname
    place = f"[{host}]" if ":" in (host or "") else host
    path = url.path.rstrip("/")
    return f"{url.scheme}://{place}{f':{port}' if port else ''}{path if path.endswith('/v1') else path + '/v1'}"
