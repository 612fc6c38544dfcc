"""Who may do what. Nothing runs without a verdict, and no secret leaves.

tests/safety/test_unseen_tool.py brings a tool that nobody knows, tests/safety/test_secrets.py lets tools print keys.
Short because it only names what the rest of codelet uses; how a command line is read is loaded with the first command.
"""

from __future__ import annotations

from codelet.safety.judge import Policy

__all__ = ["Policy"]
