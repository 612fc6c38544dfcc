"""The one place that cleans untrusted text for a terminal, a log or a CI runner.

All text from a model, a file, a tool or a repository passes through here before it is shown: `Cleaner` for text that
arrives in chunks, `clean` for whole text, `visible` for approvals. Front ends that use rich put the result into
`rich.text.Text`, never into a markup string. `shown` is loaded at its first use, so that a request does not wait for
it.
"""

from __future__ import annotations

from codelet.system.text.cleaner import Cleaner, clean, is_blank, valid_unicode

TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from codelet.system.text.shown import (
        first_sentence,
        one_line,
        visible,
        visible_command,
        with_codes,
    )

__all__ = [
    "Cleaner",
    "clean",
    "first_sentence",
    "is_blank",
    "one_line",
    "valid_unicode",
    "visible",
    "visible_command",
    "with_codes",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'codelet.system.text' has no attribute {name!r}")
    from codelet.system.text import shown  # no request needs it

    return getattr(shown, name)
