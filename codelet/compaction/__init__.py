"""Compaction: replacing old messages by less, without forgetting what matters."""

from codelet.compaction.engine import compact
from codelet.compaction.errors import IrreducibleContext
from codelet.compaction.report import Compacted, Report
from codelet.compaction.settings import Settings

__all__ = ["Compacted", "IrreducibleContext", "Report", "Settings", "compact"]
