"""What the model is sent, in the user's hands: how full the window is, what compaction does, what the cache gave."""

from codelet.context.compactor import Compactor
from codelet.context.entry import Entry
from codelet.context.inputs import Piped
from codelet.context.reminders import ReminderLedger, Renewal
from codelet.context.tokens.budget import CompactionOptions, ContextLimits
from codelet.context.window import CacheWatch, ContextWindow

__all__ = [
    "CacheWatch",
    "CompactionOptions",
    "Compactor",
    "ContextLimits",
    "ContextWindow",
    "Entry",
    "Piped",
    "ReminderLedger",
    "Renewal",
]
