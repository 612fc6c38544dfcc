"""Compaction: old messages replaced by a text that keeps what matters and says nothing untrue.

The names are imported when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codelet.context.compaction.engine import compact
    from codelet.context.compaction.plan import CompactionSettings, IrreducibleContext
    from codelet.context.compaction.report import Compacted, CompactionReport

__all__ = ["Compacted", "CompactionReport", "CompactionSettings", "IrreducibleContext", "compact"]

_MODULES = {
    "compact": "engine",
    "CompactionSettings": "plan",
    "IrreducibleContext": "plan",
    "Compacted": "report",
    "CompactionReport": "report",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
