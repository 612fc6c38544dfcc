"""What the model is sent. The next request fits its budget, and what shrank it can be seen, recalled and undone.

tests/context/test_machine.py holds sizes and undo in any order of what a user does, tests/context/test_recall.py
what can be recalled.
"""

from codelet.context.compactor import Compactor
from codelet.context.entry import Entry
from codelet.context.inputs import Attached, Piped
from codelet.context.reminders import ReminderLedger, Renewal
from codelet.context.tokens.budget import CompactionOptions, ContextLimits
from codelet.context.window import CacheWatch, ContextWindow

__all__ = [
    "Attached",
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
