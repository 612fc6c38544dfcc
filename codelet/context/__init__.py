"""The model's input. The next request fits its budget; what shrank can be seen, recalled, and undone.

tests/context/test_machine.py checks sizes and undo in any order of the user's actions, tests/context/test_recall.py the
recall.
"""

from codelet.context.compactor import Compactor
from codelet.context.entry import Entry
from codelet.context.inputs import Attached, Piped
from codelet.context.reminders import Reminders
from codelet.context.tokens import CompactionOptions, ContextLimits, ContextWindow

__all__ = [
    "Attached",
    "CompactionOptions",
    "Compactor",
    "ContextLimits",
    "ContextWindow",
    "Entry",
    "Piped",
    "Reminders",
]
