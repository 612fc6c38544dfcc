"""Addresses that a terminal may open (OSC 8): only where a terminal is known to take them, and only of harmless kinds.

The address itself always stands on the screen, too: a label that names another one is seen to lead elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache

from rich.style import Style

_ADDRESS = re.compile(r"https?://[^\s<>\"`|\\^{}]+")
_SAFE = re.compile(r"(?:https?://|mailto:)[!#$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]{1,2000}")
_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby"})
_OLDEST_VTE = 5000


def addresses(content: str) -> Iterator[tuple[int, str, int]]:
    """The addresses in running text: where each begins, without the signs of the sentence, and where those end."""
    for found in _ADDRESS.finditer(content):
        address = found[0].rstrip(".,;:!?]'*")
        while address.endswith(")") and address.count(")") > address.count("("):
            address = address[:-1].rstrip(".,;:!?]'*")
        yield found.start(), address, found.end()


@cache
def takes_links() -> bool:
    """Whether the terminal is one that is known to take links; others may show what they do not know."""
    told = os.environ
    if told.get("TERM", "dumb") in ("dumb", "linux") or "TMUX" in told or told.get("TERM", "").startswith("screen"):
        return False
    vte = told.get("VTE_VERSION", "")
    return bool(
        told.get("TERM_PROGRAM") in _PROGRAMS
        or told.keys() & {"KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION", "ALACRITTY_WINDOW_ID"}
        or told.get("TERM", "").startswith(("xterm-kitty", "foot", "alacritty", "xterm-ghostty", "wezterm"))
        or (vte.isascii() and vte.isdigit() and int(vte) >= _OLDEST_VTE)
    )


def link_to(address: str) -> Style | None:
    """The style that makes a row's part lead to an address; None where it may not, or the terminal does not take it."""
    return Style(link=address) if takes_links() and _SAFE.fullmatch(address) else None
