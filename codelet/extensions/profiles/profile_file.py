"""A profile from the text of a file: our YAML, flat or with `config:`, or the Markdown agent of another tool.

In YAML every name must be known. In a Markdown file, names for its own tool are skipped, but limits are applied or are
an error, so that no agent gets more rights than its file gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from codelet.extensions.front_matter import FileFault, Node, read_nodes, split_front
from codelet.extensions.profiles.profile import AUTONOMY, RISKS, VERBOSITIES, Profile
from codelet.providers.protocol import EFFORTS
from codelet.system.text import clean, one_line

_LONGEST_PROMPT = 32_000
_LONGEST_LINE = 500
_MOST_TOOLS = 100
_MOST_STEPS = 10_000

_ELSEWHERE = {
    "askuserquestion": "ask_user",
    "bash": "bash",
    "edit": "edit",
    "file_edit": "edit",
    "file_read": "read",
    "file_write": "write",
    "glob": "find",
    "grep": "grep",
    "ls": "find",
    "multiedit": "edit",
    "read": "read",
    "shell": "bash",
    "skill": "skill",
    "task": "task",
    "todowrite": "plan",
    "webfetch": "fetch",
    "write": "write",
}
"""Other programs' names of tools in lower case, with codelet's names."""

_LIMITING = re.compile(r"permi|allow|den[yi]|read_?only|sandbox|approv|autonom|risk", re.IGNORECASE)
"""Names in front matter that may be limits; unknown ones are an error."""


def read_yaml(name: str, text: str, source: str, own: frozenset[str]) -> Profile:
    """The profile in YAML. `own` are codelet's tools. Raises FileFault."""
    fields = dict(_mapping(read_nodes(text)))
    inner = fields.pop("config", None)
    if inner is not None:
        for key, node in _mapping(inner).items():
            if key in fields:
                raise FileFault(node.line, f"has {one_line(key, 60)!r} twice, in config and outside")
            fields[key] = node
    for key, node in fields.items():
        if key not in _READERS and key != "id":
            raise FileFault(node.line, f"has the unknown name {one_line(key, 60)!r}{_meant(key, [*_READERS, 'id'])}")
    given = fields.pop("id", None)
    if given is not None and (told := _line(given, "id")) != name:
        raise FileFault(given.line, f"has the id {told!r}, but the file's name says {name!r}: give both the same")
    values: dict[str, Any] = {key: _READERS[key](node, key) for key, node in fields.items()}
    values["allowed_tools"], notes = _known(values.get("allowed_tools"), fields.get("allowed_tools"), own)
    return Profile(name=name, source=source, notes=notes, **values)


def read_markdown(name: str, text: str, source: str, own: frozenset[str]) -> Profile:
    """The profile in a Markdown agent: its front matter, and below it the system prompt. Raises FileFault."""
    front, rest = split_front(text)
    if front is None:
        raise FileFault(1, "has no front matter between two lines of three dashes")
    fields = dict(_mapping(read_nodes(front, above=1)))
    body = clean(rest).strip()
    if len(body) > _LONGEST_PROMPT:
        raise FileFault(
            text.count("\n", 0, len(text) - len(rest)) + 1, f"is longer than {_LONGEST_PROMPT:,} characters"
        )
    notes: list[str] = []
    values: dict[str, Any] = {"system_prompt": body}
    if "description" in fields:
        values["description"] = _line(fields["description"], "description", cut=True)
    if "model" in fields:
        wanted = _line(fields["model"], "model")
        if "/" in wanted:
            values["model"] = wanted
        elif wanted != "inherit":
            notes.append(f"its model {wanted!r} is no name as litellm spells it: the session's is used")
    known = {"name", "description", "model", "tools", "disallowedTools", "permissionMode"}
    for key, node in fields.items():
        if key not in known and _LIMITING.search(key):
            raise FileFault(node.line, f"has {one_line(key, 60)!r}, which is not known here and may be a limit")
    allowed, more = _agent_tools(fields, own)
    if "permissionMode" in fields:
        values |= _permission(fields["permissionMode"])
    return Profile(name=name, source=source, allowed_tools=allowed, notes=(*notes, *more), **values)


def _agent_tools(fields: dict[str, Node], own: frozenset[str]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The tools of a Markdown agent: those that it names less those that it forbids, and what was left out."""
    allowed: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    tools = fields.get("tools")
    forbidden: set[str] = set()
    if tools is not None and isinstance(tools.value, dict):  # each tool with a switch
        for key, node in tools.value.items():
            if node.kind != "bool":
                raise FileFault(node.line, f"must say true or false for the tool {one_line(key, 60)!r}")
            if node.value.lower() in ("false", "no", "off", "n"):
                forbidden.add(_ELSEWHERE.get(key.lower(), key))
    elif tools is not None and not (isinstance(tools.value, str) and tools.value.strip() in ("", "*")):
        allowed, notes = _known(_several(tools, "tools"), tools, own)
    elif tools is not None and isinstance(tools.value, str) and not tools.value.strip():
        raise FileFault(tools.line, "has tools without a name: leave the line out for all, or write [] for none")
    if (gone := fields.get("disallowedTools")) is not None:
        forbidden |= {_ELSEWHERE.get(name.lower(), name) for name in _several(gone, "disallowedTools")}
    if forbidden:
        names = sorted(own) if allowed is None else allowed
        allowed = tuple(name for name in names if name not in forbidden)
    return allowed, notes


def _permission(node: Node) -> dict[str, Any]:
    """Return what a permission mode of elsewhere takes away here; those that would give rights give none."""
    mode = _line(node, "permissionMode")
    if mode == "plan":
        return {"autonomy_mode": "confirm", "risk_tolerance": "low"}
    if mode == "default":
        return {"autonomy_mode": "confirm"}
    if mode in ("acceptEdits", "auto", "bypassPermissions", "dontAsk"):
        return {}
    raise FileFault(node.line, f"has the unknown permissionMode {mode!r}")


def _mapping(node: Node) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise FileFault(node.line, "must hold names with values")
    return node.value


def _text(node: Node, key: str) -> str:
    if not isinstance(node.value, str) or node.kind != "str":
        hint = ": put it in quotes" if isinstance(node.value, str) and node.value else ""
        raise FileFault(node.line, f"{key} must be a text{hint}")
    text = clean(node.value).strip()
    if not text:
        raise FileFault(node.line, f"{key} must not be empty")
    if len(text) > _LONGEST_PROMPT:
        raise FileFault(node.line, f"{key} is longer than {_LONGEST_PROMPT:,} characters")
    return text


def _line(node: Node, key: str, *, cut: bool = False) -> str:
    text = " ".join(_text(node, key).split())
    if len(text) > _LONGEST_LINE and not cut:
        raise FileFault(node.line, f"{key} is longer than {_LONGEST_LINE} characters")
    return text[:_LONGEST_LINE]


def _several(node: Node, key: str) -> tuple[str, ...]:
    """Names as a list, or as a text with commas."""
    if isinstance(node.value, str) and node.kind == "str":
        return tuple(name.strip() for name in node.value.split(",") if name.strip())
    return _names(node, key)


def _names(node: Node, key: str) -> tuple[str, ...]:
    if not isinstance(node.value, list):
        raise FileFault(node.line, f"{key} must be a list of names")
    if len(node.value) > _MOST_TOOLS:
        raise FileFault(node.line, f"{key} has more than {_MOST_TOOLS} names")
    return tuple(_line(item, f"each of {key}") for item in node.value)


def _count(node: Node, key: str) -> int:
    text = node.value if node.kind == "int" else ""
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MOST_STEPS):
        raise FileFault(node.line, f"{key} must be a whole number from 1 to {_MOST_STEPS:,}")
    return int(text)


def _one_of(*choices: str) -> Callable[[Node, str], str]:
    def read(node: Node, key: str) -> str:
        if node.value not in choices:
            raise FileFault(node.line, f"{key} must be one of {', '.join(choices)}")
        return str(node.value)

    return read


_READERS: dict[str, Callable[[Node, str], Any]] = {
    "system_prompt": _text,
    "allowed_tools": _names,
    "autonomy_mode": _one_of(*AUTONOMY),
    "max_iterations": _count,
    "risk_tolerance": _one_of(*RISKS),
    "verbosity": _one_of(*VERBOSITIES),
    "model": _line,
    "effort": _one_of(*EFFORTS),
    "description": _line,
}


def _known(
    names: tuple[str, ...] | None, node: Node | None, own: frozenset[str]
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return codelet's names of the tools, and a note on unknown tools; a misspelt name is an error."""
    if names is None or node is None:
        return None, ()
    found: list[str] = []
    strangers: list[str] = []
    for name in names:
        here = _ELSEWHERE.get(name.lower(), name)
        if here in own or here.startswith("mcp__"):
            found.append(here)
        elif meant := _meant(name, own):
            raise FileFault(_line_of(node, name), f"names the unknown tool {name!r}{meant}")
        else:
            strangers.append(name)
    notes = (f"codelet has no tool {', '.join(strangers)}: left out",) if strangers else ()
    return tuple(dict.fromkeys(found)), notes


def _line_of(node: Node, name: str) -> int:
    items = node.value if isinstance(node.value, list) else []
    return next((item.line for item in items if item.value == name), node.line)


def _meant(name: str, known: Any) -> str:
    from codelet.system.text.spelling import did_you_mean

    return did_you_mean(name, known, "{!r}")
