"""Checks of the machine: Python, git, ripgrep, a sandbox, the terminal."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import codelet
from codelet.frontends.commands.doctor.check_result import CheckResult
from codelet.safety.sandbox import find_confinement
from codelet.system.git import run_git
from codelet.system.git.objects import head_of
from codelet.system.process import StartError, capture, find_program

_PROBE_SECONDS = 3.0
_CHANGES_LIMIT = 1 << 20


def python() -> CheckResult:
    """The interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.environ.get("PYTHONPATH") else []
    if not all(entry.startswith("/") for entry in entries):
        detail = f"{version} ({sys.executable}); PYTHONPATH has a relative entry: Python runs the code there"
        return CheckResult("Python", "warn", detail, "make the entries of PYTHONPATH absolute")
    return CheckResult("Python", "ok", f"{version} ({sys.executable})")


def itself() -> CheckResult:
    """The version and folder of codelet."""
    return CheckResult("codelet", "ok", f"{codelet.__version__} ({Path(codelet.__file__).parent})")


async def git(folder: Path) -> CheckResult:
    """The version of git, and the repository around `folder`."""
    version = await run_git(folder, "version", timeout=_PROBE_SECONDS)
    if version is None:
        return _no_git(folder)
    number = version.stdout.decode("utf-8", "replace").strip().removeprefix("git version ")
    top = await run_git(folder, "rev-parse", "--show-toplevel", timeout=_PROBE_SECONDS)
    if top is None or top.exit_code != 0:
        if top is not None and top.broken_off:
            return CheckResult("git", "warn", f"{number}; {top.broken_off}: the repository is not known")
        if top is not None and top.foreign_owner:
            return CheckResult("git", "warn", f"{number}; {top.foreign_owner}")
        return CheckResult("git", "ok", f"{number}; this folder is in no repository")
    root = top.stdout.decode("utf-8", "replace").strip()
    return CheckResult("git", "ok", f"{number}; repository {root}, {await _state(folder)}")


def _no_git(folder: Path) -> CheckResult:
    """Return the reason why git could not run: not installed, only installed in the workspace, or not trusted with the
    repository.
    """
    if find_program("git", folder) is not None:
        detail = "the repository's configuration leads to other files, or cannot be read: git is not asked here"
        return CheckResult("git", "warn", detail, "look at .git and .git/config")
    advice = "install git: without it the model does not see what changed"
    found = shutil.which("git")
    if found is not None:
        return CheckResult("git", "warn", f"not run: {found} is inside the workspace", advice)
    return CheckResult("git", "warn", "not found", advice)


async def _state(folder: Path) -> str:
    branch = await asyncio.to_thread(head_of, folder, _PROBE_SECONDS) or "no branch"
    changed = await run_git(folder, "status", "--porcelain", "-z", timeout=_PROBE_SECONDS, limit=_CHANGES_LIMIT)
    if changed is None or changed.exit_code != 0 or changed.timed_out:
        return f"{branch}, changes unknown"
    entries = changed.stdout.count(b"\0")
    if entries == 0:
        return f"{branch}, clean"
    return f"{branch}, {'' if changed.complete else 'over '}{entries} changed"


async def ripgrep(folder: Path) -> CheckResult:
    """The program that makes searches fast."""
    program = find_program("rg", folder)
    if program is None:
        return CheckResult("ripgrep", "warn", "not found: searching is slower", "install ripgrep (rg)")
    version = await _first_line([program, "--version"], folder)
    if version is None:
        return CheckResult("ripgrep", "warn", f"{program} does not run", "reinstall ripgrep (rg)")
    return CheckResult("ripgrep", "ok", f"{version.removeprefix('ripgrep ').partition(' (')[0]} ({program})")


async def sandbox(folder: Path) -> CheckResult:
    """Return what confines commands here: many containers and some kernels forbid the best way."""
    found = await find_confinement(folder)
    install = "" if find_program("bwrap", folder) or sys.platform == "darwin" else "install bubblewrap (Linux)"
    allow = install or "allow unprivileged user namespaces"
    if found.way is None:
        detail = f"none: few commands run without asking, and those that you allow are not confined: {found.detail}"
        return CheckResult("sandbox", "warn", detail, allow)
    if found.way == "sandbox-exec":
        return CheckResult("sandbox", "ok", "sandbox-exec works")
    if found.way == "landlock":
        return CheckResult("sandbox", "warn", f"Landlock, the second best: {found.detail}", allow)
    version = await _first_line([str(found.program), "--version"], folder) or "bubblewrap"
    return CheckResult("sandbox", "ok", f"{version} works")


async def _first_line(argv: list[str], folder: Path) -> str | None:
    try:
        done = await capture(argv, cwd=folder, timeout=_PROBE_SECONDS)
    except StartError:
        return None
    if done.exit_code != 0 or done.timed_out:
        return None
    return done.stdout.decode("utf-8", "replace").partition("\n")[0].strip()


def terminal() -> CheckResult:
    """Size and colours, or what is there in a terminal's place."""
    if not sys.stdout.isatty():
        return CheckResult("terminal", "ok", "stdout is no terminal: plain text, no colours")
    size = os.get_terminal_size(sys.stdout.fileno())
    name = os.environ.get("TERM", "")
    encoding = (sys.stdout.encoding or "ascii").lower()
    detail = f"{size.columns} x {size.lines}, {_colours(name)}, TERM={name or 'not set'}"
    if name in ("", "dumb"):
        advice = "set TERM to what your terminal is, such as xterm-256color"
        return CheckResult("terminal", "warn", f"{detail}: nothing can be drawn in place", advice)
    if encoding.replace("-", "") != "utf8":
        return CheckResult("terminal", "warn", f"{detail}, encoding {encoding}", "set LANG to a UTF-8 locale")
    if size.columns < 60:
        return CheckResult("terminal", "warn", detail, "60 columns or more read better")
    return CheckResult("terminal", "ok", detail)


def _colours(name: str) -> str:
    if os.environ.get("NO_COLOR"):
        return "no colours (NO_COLOR is set)"
    if os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "16 million colours"
    return "256 colours" if "256" in name else "16 colours"
