"""The user's rules: `tool(prefix *)` for commands, `tool(path glob)` for paths, `fetch(host)`, `tool`.

`mcp__server` and `mcp__server__*` cover all tools of an MCP server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from codelet.errors import UsageError
from codelet.record import Record

_FORM = re.compile(r"(?P<tool>[A-Za-z][\w.-]*(?<!__)|mcp__[\w.-]+__\*)(?:\((?P<body>.*)\))?", re.DOTALL | re.ASCII)
_MCP = "mcp__"
_OWN_NAMES = frozenset({"bash", "read", "write", "edit", "grep", "find", "plan", "recall"})
_OTHER_NAMES = {"multiedit": "edit", "glob": "find", "ls": "read", "shell": "bash"}
_SHELL_SIGNS = re.compile(r"[;&|<>`\n]|\$\(")


class Rule(Record):
    """One parsed rule. `body` is None for the bare form `tool`, which matches every use of the tool."""

    text: str
    tool: str
    body: str | None

    def covers(self, tool: str) -> bool:
        """Return whether the rule names this tool or its MCP server."""
        server = self.tool.removesuffix("__*")
        if server.startswith(_MCP) and "__" not in server.removeprefix(_MCP):
            return tool.startswith(f"{server}__")
        return tool == self.tool

    @property
    def prefix(self) -> tuple[str, ...] | None:
        """The words before a final `*`, or None if the rule does not end with one."""
        words = () if self.body is None else tuple(self.body.split())
        return words[:-1] if words[-1:] == ("*",) else None

    def matches_words(self, words: Sequence[str]) -> bool:
        """Return whether the rule covers a command of these words; a final `*` matches any rest."""
        if self.prefix is not None:
            return tuple(words[: len(self.prefix)]) == self.prefix
        return self.body is None or list(words) == self.body.split()

    def matches_path(self, path: str) -> bool:
        """Return whether the rule covers the path, relative to the workspace (`src/a.py`) or absolute outside it."""
        return self.body is None or _path_pattern(self.body.removeprefix("./")).fullmatch(path) is not None

    def matches_host(self, host: str) -> bool:
        """Return whether the rule covers a host: this very host, or with a leading `*.` each host below it."""
        body = (self.body or host).lower()
        return host.lower() == body or (body.startswith("*.") and host.lower().endswith(body[1:]))

    def spells(self, path: str) -> bool:
        """Return whether the rule names this very path, with no wildcard and no folder above it."""
        return self.body is not None and self.body.removeprefix("./") in (path, escaped(path))


def parse_rule(text: str) -> Rule:
    """Parse a rule. Raises UsageError with the reason."""
    found = _FORM.fullmatch(text.strip())
    low = "" if found is None else found["tool"].lower()
    is_other = found is not None and low != found["tool"] and low in (*_OTHER_NAMES, *_OWN_NAMES)
    if found is None or is_other or (low == "bash" and (found["body"] or "").rstrip().endswith(":*")):
        meant = _meant(text)
        how = f"write {meant!r}" if meant else "write tool(prefix *) or tool(path glob), e.g. 'bash(git log *)'"
        raise UsageError(f"bad rule {text!r}: {how}")
    tool, body = found["tool"], found["body"]
    if body is not None and tool.startswith(_MCP):
        raise UsageError(f"bad rule {text!r}: a tool of an MCP server has no path and no command; write {tool!r}")
    if body is not None:
        body = body.strip()
        if not body:
            raise UsageError(f"bad rule {text!r}: the parentheses are empty; write {tool!r} for every use of it")
        words = body.split()
        if tool == "bash" and (any("*" in word for word in words[:-1]) or ("*" in words[-1] and words[-1] != "*")):
            raise UsageError(f"bad rule {text!r}: in a command '*' is a separate word at the end: 'bash(git log *)'")
        if tool == "bash" and words == ["*"]:
            raise UsageError(f"bad rule {text!r}: write 'bash' for every command")
        if tool == "bash" and _SHELL_SIGNS.search(body):
            raise UsageError(f"bad rule {text!r}: one rule names one command; give each part of a list its own")
    return Rule(text.strip(), tool, body)


def _meant(text: str) -> str | None:
    """The rule in our spelling, for one in the spelling of other programs: `Bash(npm test:*)`."""
    found = re.fullmatch(r"\s*([A-Za-z]+)\s*(?:\((.*)\)\s*)?", text, re.DOTALL)
    if found is None:
        return None
    tool, body = _OTHER_NAMES.get(found[1].lower(), found[1].lower()), found[2] or ""
    # A path that begins with / is the project's there, one with // the machine's.
    body = (re.sub(r":\*\s*$", " *", body) if tool == "bash" else body.removeprefix("/")).strip()
    meant = f"{tool}({body})" if body and body != "*" else tool
    try:
        return parse_rule(meant).text if meant != text.strip() else None
    except UsageError:
        return None


def escaped(path: str) -> str:
    """The path as a rule's glob, with its wildcard characters escaped."""
    return re.sub(r"[*?\\]", r"\\\g<0>", path)


@cache
def _path_pattern(glob: str) -> re.Pattern[str]:
    """The pattern of a rule's path glob; a folder covers its content."""
    from codelet.system.text.globs import rule_regex  # for sessions that have a rule for paths

    return re.compile(rule_regex(glob).rstrip("/") + "(?:/.*)?", re.DOTALL)
