"""NO_PROXY: the addresses to reach without a proxy, as curl, requests and Go agree on. Imported if it is set."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_PORT = re.compile(r"(\[[^\]]*\]|[^:]*):(\d+)")


def goes_direct(host: str, port: int, exceptions: str) -> bool:
    """Return whether a host at a port is among the exceptions, which commas or spaces separate.

    An exception is `*`, a domain (with its subdomains; a leading `.` or `*.` changes nothing), an address, or a range
    of addresses such as `10.0.0.0/8` or `fd00::/8`. Domains and addresses may name a port, IPv6 then in brackets.
    """
    host = host.lower().rstrip(".").strip("[]")
    address = _address(host)
    return any(_covers(each.lower(), host, port, address) for each in re.split(r"[,\s]+", exceptions) if each)


def _covers(exception: str, host: str, port: int, address: IPv4Address | IPv6Address | None) -> bool:
    if exception == "*":
        return True
    if "/" in exception:
        try:
            return address is not None and address in ip_network(exception, strict=False)
        except ValueError:
            return False
    if found := _PORT.fullmatch(exception):
        exception = found[1]
        if int(found[2]) != port:
            return False
    exception = exception.strip("[]").removeprefix("*").strip(".")
    if address is not None:
        return address == _address(exception)
    return exception != "" and (host == exception or host.endswith(f".{exception}"))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
