"""What the model is sent, in the user's hands: how full the window is, what compaction does, what the cache gave."""

from codelet.context.asked import Size
from codelet.context.cache import CacheWatch
from codelet.context.compactor import Compactor
from codelet.context.entry import Entry
from codelet.context.gauge import Gauge
from codelet.context.inputs import Piped
from codelet.context.options import CompactionOptions, Limits
from codelet.context.renewal import ReminderLedger, ReminderRow, Renewal
from codelet.context.rows import ContextRow, context_rows
from codelet.context.shares import Share

__all__ = [
    "CacheWatch",
    "CompactionOptions",
    "Compactor",
    "ContextRow",
    "Entry",
    "Gauge",
    "Limits",
    "Piped",
    "ReminderLedger",
    "ReminderRow",
    "Renewal",
    "Share",
    "Size",
    "context_rows",
]
