"""The one place that starts child processes: commands for the model, short helpers of our own, and services.

Every child gets stdin from /dev/null, a session of its own and an environment without secrets. Whatever it
prints, memory stays bounded; reading stops when it exits, even if something in the background holds its pipe.
When it exits, runs out of time or its caller is cancelled, everything that it started ends with it.

Short because it only names what most callers use. `service` (a child that is spoken to) and `brief` (one that is waited
for outside the event loop) are imported where they are needed.
"""

from codelet.system.process.child import Captured, Finished, capture, run_child
from codelet.system.process.environment import child_environment
from codelet.system.process.start import StartError, find_program, outside_path, shell_argv

__all__ = [
    "Captured",
    "Finished",
    "StartError",
    "capture",
    "child_environment",
    "find_program",
    "outside_path",
    "run_child",
    "shell_argv",
]
