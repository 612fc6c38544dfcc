"""The policy: what decides on an action of the model. The one place where a tool call is judged."""

from __future__ import annotations

from codelet.policy.judge import Policy

__all__ = ["Policy"]
