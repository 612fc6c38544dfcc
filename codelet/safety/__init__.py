"""The policy decides what the model may do: the one place where a tool call is judged.

Short because it only names what the rest of codelet uses; how a command line is read is loaded with the first command.
"""

from __future__ import annotations

from codelet.safety.judge import Policy

__all__ = ["Policy"]
