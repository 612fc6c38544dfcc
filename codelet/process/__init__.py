"""The one place that starts child processes: commands for the model, and short helper calls of our own.

Every child gets stdin from /dev/null, a session of its own and an environment without secrets. Whatever it
prints, memory stays bounded; reading stops when it exits, even if something in the background holds its pipe.
When it exits, runs out of time or its caller is cancelled, all that it started is ended with it.
"""

from codelet.process.child import Captured, Finished, capture, run
from codelet.process.environment import child_environment
from codelet.process.start import StartError, find_program, outside_path, shell_argv

__all__ = [
    "Captured",
    "Finished",
    "StartError",
    "capture",
    "child_environment",
    "find_program",
    "outside_path",
    "run",
    "shell_argv",
]
