"""The command line that confines a command on a Mac: `sandbox-exec` with a profile.

The last rule of a profile that fits counts. A confined command may do what it may without, but for what is named here:
writing, the network, reading in homes and on other disks but for the places of `visible`, what reaches into other
processes, and services that act for it outside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codelet.safety.sandbox.command_lines import Bounds

PROGRAM = "/usr/bin/sandbox-exec"
"""Part of the system; nothing else of that name is taken."""

_PRIVATE = ("/Users", "/Volumes", "/private/tmp", "/private/var/folders")
"""The users' files, other disks, temporary folders."""
_OUTPUTS = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/stdout", "/dev/stderr", "/dev/dtracehelper")
_SERVICES = (
    "com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership",
    "com.apple.system.notification_center", "com.apple.system.logger", "com.apple.logd",
)  # fmt: skip
"""Services for names, time zones and logs; any other service may act for the command."""


def sandbox_exec_argv(command: Sequence[str], bounds: Bounds) -> list[str]:
    """The words that run `command` confined. Raises FileNotFoundError for a path that no profile can name."""
    return [PROGRAM, "-p", profile(bounds), *command]


def profile(bounds: Bounds) -> str:
    """The rules for these bounds."""
    rules = ["(version 1)", "(allow default)", "(deny file-write*)"]
    rules.append(f'(allow file-write* {_each("literal", _OUTPUTS)} (regex #"^/dev/fd/"))')
    if bounds.kind == "workspace":
        rules.append(f"(allow file-write* {_each('subpath', [bounds.root])})")
        # A profile can name an absent file; only a command that ends may make a repository.
        protected = (*bounds.protected, f"{bounds.root}/.git" if bounds.settled else f"{bounds.root}/.git/hooks")
        rules.append(f"(deny file-write* {_each('subpath', protected)})")
        if folders := bounds.leading_to((*protected, *bounds.hidden)):  # a rule is about a path: it must not move
            rules.append(f"(deny file-write-unlink {_each('literal', folders)})")
    if not bounds.open_home:
        rules.append(f"(deny file-read* {_each('subpath', (*_PRIVATE, os.path.expanduser('~')))})")
        rules.append(f"(allow file-read-metadata) (allow file-read* {_each('subpath', (*bounds.seen, bounds.root))})")
    if bounds.hidden:
        rules.append(f"(deny file-read* file-write* {_each('subpath', bounds.hidden)})")
    if not bounds.network:
        rules.append("(deny network*)")
    services = _each("global-name", _SERVICES)
    rules += ["(deny mach-lookup)", f"(allow mach-lookup {services})", "(deny appleevent-send)", "(deny lsopen)"]
    rules += ["(deny signal)", "(allow signal (target same-sandbox))"]
    rules += ["(deny process-info*)", "(allow process-info* (target same-sandbox))"]
    return "\n".join(rules)


def _each(kind: str, texts: Iterable[str]) -> str:
    return " ".join(f"({kind} {_quoted(text)})" for text in texts)


def _quoted(text: str) -> str:
    """A path as a profile spells it; raises FileNotFoundError for one that no profile can name."""
    if not text.isprintable():
        raise FileNotFoundError("its profile cannot name a path with a control character")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
