"""A profile as a value and as text."""

from __future__ import annotations

from typing import Literal

from codelet.providers.protocol import Effort
from codelet.record import Record
from codelet.safety.verdict import Tier

_QUIET = "Answer in as few words as will do: the result, without what led to it."
_VERBOSE = "Explain what you do and why, also where it seems plain; the user wants to follow."


Autonomy = Literal["auto", "confirm"]
Risk = Literal["low", "medium", "high"]
Verbosity = Literal["quiet", "normal", "verbose"]

MEMORY_TOOLS = frozenset({"forget", "recall", "remember", "search_sessions", "plan", "skill"})
"""Tools that only use this process's memory: every profile permits them."""

_TIERS: tuple[Tier, ...] = ("read", "write", "execute", "critical")
_HIGHEST: dict[Risk, Tier] = {"low": "write", "medium": "execute", "high": "critical"}
_ANSWERS: dict[Verbosity, str] = {"quiet": _QUIET, "normal": "", "verbose": _VERBOSE}


class Profile(Record, kw_only=True):
    """The contents of a profile. `allowed_tools` None means all tools, `max_iterations` None no limit.

    `autonomy_mode` `confirm` asks before each change, whatever the mode and the rules; `auto` leaves that to them.
    `risk_tolerance` is the highest tier that can run: low up to write, medium up to execute, high all. `source` is the
    file; `notes` are its parts that codelet ignores.
    """

    name: str
    system_prompt: str = ""
    allowed_tools: tuple[str, ...] | None = None
    autonomy_mode: Autonomy = "auto"
    max_iterations: int | None = None
    risk_tolerance: Risk = "high"
    verbosity: Verbosity = "normal"
    model: str | None = None
    effort: Effort | None = None
    description: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()

    def permits(self, tier: Tier) -> bool:
        return _TIERS.index(tier) <= _TIERS.index(_HIGHEST[self.risk_tolerance])

    def instructed(self, system: str) -> str:
        """The system prompt with what the profile adds to it."""
        return "\n\n".join(part for part in (system, self.system_prompt, _ANSWERS[self.verbosity]) if part)

    @property
    def permitted_tools(self) -> frozenset[str] | None:
        """The names of the permitted tools; None for all."""
        return None if self.allowed_tools is None else MEMORY_TOOLS.union(self.allowed_tools)

    def steps(self, most: int | None) -> int | None:
        """The limit on the steps of a turn, where the user's is `most`."""
        return min((count for count in (most, self.max_iterations) if count is not None), default=None)

    @property
    def limits(self) -> str:
        """The limits of the profile, its model and effort, in one line."""
        parts = []
        if self.allowed_tools is not None:
            parts.append(f"tools {', '.join(self.allowed_tools)}" if self.allowed_tools else "no tools")
        if self.autonomy_mode == "confirm":
            parts.append("asks before each change")
        if self.risk_tolerance == "low":
            parts.append("no command that does more than read")
        elif self.risk_tolerance == "medium":
            parts.append("nothing critical")
        if self.max_iterations is not None:
            parts.append(f"at most {self.max_iterations} steps a turn")
        if self.verbosity != "normal":
            parts.append(self.verbosity)
        if self.model is not None:
            parts.append(f"model {self.model}")
        if self.effort is not None:
            parts.append(f"effort {self.effort}")
        return "; ".join(parts) or "takes nothing away"
