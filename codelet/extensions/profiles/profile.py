"""A profile from the text of a file: our YAML, flat or with `config:`, or the Markdown agent of another tool.

In YAML every name must be known. In a Markdown file, names for its own tool are skipped, but limits are applied or are
an error, so that no agent gets more rights than its file gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from codelet.extensions.front_matter import FileFault, converted, read_yaml, split_front
from codelet.providers.protocol import Effort
from codelet.safety.verdict import Tier
from codelet.system.text import clean, one_line
from codelet.system.text.spelling import did_you_mean
from codelet.tools.other_agents import OTHER_TOOLS

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


_LONGEST_PROMPT = 32_000
_LONGEST_LINE = 500
_Line = Annotated[str, Meta(min_length=1, max_length=_LONGEST_LINE)]
_Prompt = Annotated[str, Meta(max_length=_LONGEST_PROMPT)]
_Names = Annotated[tuple[_Line, ...], Meta(max_length=100)]


class Profile(Struct, kw_only=True, frozen=True):
    """The contents of a profile. `allowed_tools` None means all tools, `max_iterations` None no limit.

    `autonomy_mode` `confirm` asks before each change, whatever the mode and the rules; `auto` leaves that to them.
    `risk_tolerance` is the highest tier that can run: low up to write, medium up to execute, high all. `source` is the
    file; `notes` are its parts that codelet ignores.
    """

    name: str
    system_prompt: _Prompt = ""
    allowed_tools: _Names | None = None
    autonomy_mode: Autonomy = "auto"
    max_iterations: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    risk_tolerance: Risk = "high"
    verbosity: Verbosity = "normal"
    model: _Line | None = None
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


_ELSEWHERE = OTHER_TOOLS | {"file_read": "read", "file_write": "write", "ls": "find"}
"""Other programs' names of tools in lower case, with codelet's names."""

_LIMITING = re.compile(r"permi|allow|den[yi]|read_?only|sandbox|approv|autonom|risk", re.IGNORECASE)
"""Names in front matter that may be limits; unknown ones are an error."""


_KEYS = frozenset(Profile.__struct_fields__) - {"name", "source", "notes"} | {"id"}


class _Agent(Struct, rename={"permission_mode": "permissionMode", "forbidden": "disallowedTools"}):
    """The front matter of another tool's agent, as far as codelet uses it."""

    description: str = ""
    model: _Line | UnsetType = UNSET
    tools: Annotated[str, Meta(pattern=r"\S")] | _Names | dict[str, bool] | UnsetType = UNSET
    forbidden: str | _Names = ()
    permission_mode: Literal["plan", "default", "acceptEdits", "auto", "bypassPermissions", "dontAsk"] | None = None


def profile_from_yaml(name: str, text: str, source: str, own: frozenset[str]) -> Profile:
    """Return the profile in YAML. `own` are codelet's tools. Raises FileFault."""
    value, lines = read_yaml(text)
    fields = _mapping(value, lines, "")
    for key, inner in _mapping(fields.pop("config", {}), lines, ".config").items():
        if key in fields:
            raise FileFault(lines[f".config.{key}"], f"has {one_line(key, 60)!r} twice, in config and outside")
        fields[key] = inner
    lines = lines | {path.removeprefix(".config"): line for path, line in lines.items()}
    for key, value in fields.items():
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS, "{!r}")
            raise FileFault(lines[f".{key}"], f"has the unknown name {one_line(key, 60)!r}{hint}")
        if value is None:
            raise FileFault(lines[f".{key}"], f"{key} must have a value")
    if (given := fields.pop("id", name)) != name:
        problem = f"has the id {one_line(repr(given), 60)}, but the file's name says {name!r}: give both the same"
        raise FileFault(lines[".id"], problem)
    profile = converted({**fields, "name": name, "source": source}, Profile, lines)
    changes: dict[str, Any] = {}
    for key in fields.keys() & {"system_prompt", "model", "description"}:
        if not (text := clean(getattr(profile, key)).strip()):
            raise FileFault(lines[f".{key}"], f"{key} must not be empty")
        changes[key] = text if key == "system_prompt" else one_line(text, _LONGEST_LINE)
    if profile.allowed_tools is not None:
        changes["allowed_tools"], changes["notes"] = _known(profile.allowed_tools, lines, ".allowed_tools", own)
    return structs.replace(profile, **changes)


def profile_from_markdown(name: str, text: str, source: str, own: frozenset[str]) -> Profile:
    """Return the profile in a Markdown agent: front matter, and below it the system prompt. Raises FileFault."""
    front, rest = split_front(text)
    if front is None:
        raise FileFault(1, "has no front matter between two lines of three dashes")
    value, lines = read_yaml(front, above=1)
    fields, body = _mapping(value, lines, ""), clean(rest).strip()
    if len(body) > _LONGEST_PROMPT:
        first = text.count("\n", 0, len(text) - len(rest)) + 1
        raise FileFault(first, f"is longer than {_LONGEST_PROMPT:,} characters")
    known = {"name", *_Agent.__struct_encode_fields__}
    for key in fields.keys() - known:
        if _LIMITING.search(key):
            problem = f"has {one_line(key, 60)!r}, which is not known here and may be a limit"
            raise FileFault(lines[f".{key}"], problem)
    agent = converted(fields, _Agent, lines)
    allowed, notes = _agent_tools(agent, lines, own)
    values: dict[str, Any] = {"system_prompt": body, "description": one_line(agent.description, _LONGEST_LINE)}
    if agent.model is not UNSET and "/" in agent.model:
        values["model"] = agent.model
    elif agent.model is not UNSET and agent.model != "inherit":
        notes = (*notes, f"its model {agent.model!r} is no name as litellm spells it: the session's is used")
    if agent.permission_mode in ("plan", "default"):  # the others would give rights: they give none
        values["autonomy_mode"] = "confirm"
        values["risk_tolerance"] = "low" if agent.permission_mode == "plan" else "high"
    return Profile(name=name, source=source, allowed_tools=allowed, notes=notes, **values)


def _agent_tools(
    agent: _Agent, lines: Mapping[str, int], own: frozenset[str]
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the tools that a Markdown agent names less those that it forbids, and notes on unknown ones."""
    allowed: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    forbidden = set(_several(agent.forbidden))
    if isinstance(agent.tools, dict):  # each tool with a switch
        forbidden.update(name for name, is_on in agent.tools.items() if not is_on)
    elif agent.tools is not UNSET and agent.tools != "*":
        allowed, notes = _known(_several(agent.tools), lines, ".tools", own)
    if forbidden:
        gone = {_own_name(each, own) for each in forbidden}
        allowed = tuple(each for each in (sorted(own) if allowed is None else allowed) if each not in gone)
    return allowed, notes


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return names from a list, or from a text with commas."""
    given = names.split(",") if isinstance(names, str) else names
    return tuple(name.strip() for name in given if name.strip())


def _mapping(value: object, lines: Mapping[str, int], path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise FileFault(lines[path], "must hold names with values")
    return {str(key): each for key, each in value.items()}


def _known(
    names: Sequence[str], lines: Mapping[str, int], path: str, own: frozenset[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return codelet's names of the tools, and a note on unknown tools; a misspelt name is an error."""
    found: list[str] = []
    strangers: list[str] = []
    for place, name in enumerate(names):
        here = _own_name(name, own)
        if here in own or here.startswith("mcp__"):
            found.append(here)
        elif meant := did_you_mean(name, own, "{!r}"):
            line = lines.get(f"{path}[{place}]", lines[path])
            raise FileFault(line, f"names the unknown tool {one_line(name, 60)!r}{meant}")
        else:
            strangers.append(name)
    notes = (f"codelet has no tool {', '.join(strangers)}: left out",) if strangers else ()
    return tuple(dict.fromkeys(found)), notes


def _own_name(name: str, own: frozenset[str]) -> str:
    """Return codelet's name of a tool; an unknown name is returned unchanged."""
    lower = name.lower()
    return lower if lower in own else _ELSEWHERE.get(lower, name)
