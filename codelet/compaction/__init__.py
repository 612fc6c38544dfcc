"""Compaction: replacing old messages by less, without forgetting what matters."""

from codelet.compaction.engine import compact
from codelet.compaction.plan import CompactionSettings, IrreducibleContext
from codelet.compaction.report import Compacted, CompactionReport

__all__ = ["Compacted", "CompactionReport", "CompactionSettings", "IrreducibleContext", "compact"]
