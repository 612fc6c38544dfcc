"""Tests each of the two walls with the other one switched off, on files of cases.

Use: python -m scripts.walls FILE… [--count N] [--seed S]    (JSON lines as for `codelet policy check --cases`)

The first wall alone: commands are judged as where no sandbox works, and no unsafe one may be allowed. The second alone:
each unsafe command really runs, as if it had been allowed, in the sandbox of the modes read-only and ask; it must
change no file, reach no listener and print nothing of the home's secrets. It runs in a container of its own (name
spaces for users, processes, mounts, network), in which every file of this machine is read-only; for root as another
user. Cases of rules, suggestions and screens are commands as well: judged without their rules, none may be allowed.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import random
import resource
import socket
import stat
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from codelet.frontends.commands.policy_cases import Case, cases_of, judge_cases, workspace_of_cases
from codelet.safety.sandbox import Sandbox
from codelet.system.process import child_environment, run_child

ROOT = Path(__file__).resolve().parent.parent
_NOBODY = 65534
_INSIDE = Path("/mnt")
_PLANTED = "planted in the home"
_SECONDS, _SET_UP_SECONDS = 6.0, 20
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1
_MOST_PROCESSES, _MOST_MEMORY = 400, 4 << 30

_Facts = dict[str, tuple[int, int, int, bytes]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--count", type=int, help="run so many of the unsafe commands, drawn by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unsafe = [case for file in options.files for case in _unsafe_commands(file)]
    if options.count is not None and options.count < len(unsafe):
        unsafe = random.Random(options.seed).sample(unsafe, options.count)
    if options.inside:
        return _inside(unsafe)
    judged = [one for one in judge_cases(unsafe, sandboxed=False) if one.verdict == "allow"]
    for one in judged:
        print(f"{one.case.id}: allowed without a sandbox: {one.case.input[:100]!r}")
    print(f"wall one alone: {len(judged)} of {len(unsafe)} unsafe commands allowed")
    given = [str(file.resolve()) for file in options.files]
    count = [] if options.count is None else ["--count", str(options.count)]
    ran = _in_container([*given, *count, "--seed", str(options.seed), "--inside"])
    return 1 if judged or ran else 0


def _unsafe_commands(file: Path) -> list[Case]:
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    also = [line | {"kind": "shell"} for line in lines if line["kind"] in ("rule", "suggest", "approval")]
    shell = [line for line in lines if line["kind"] == "shell" and line.get("expected") != "allow"]
    return cases_of(file, shell + also)


def _in_container(arguments: Sequence[str]) -> int:
    """Run this script in name spaces of its own; its exit status."""
    spaces = ["unshare", *"-U -r -m -n -i -u -p -f --kill-child".split()]
    python, paths = sys.executable, [str(ROOT)]
    if os.geteuid() == 0:
        spaces = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *spaces]
        python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
        paths.append(sysconfig.get_paths()["purelib"])
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [*spaces, python, "-m", "scripts.walls", *arguments]
    return subprocess.run(words, env=environment, cwd="/", check=False).returncode


def _inside(cases: Sequence[Case]) -> int:
    """Run the cases; 1 if one of them had an effect, 2 if there is no sandbox."""
    _shut_off()
    os.environ |= {"HOME": str(_INSIDE / "home"), "TMPDIR": str(_INSIDE / "tmp"), "LANG": "C.UTF-8"}
    for folder in ("home/.ssh", "home/.agent", "tmp"):
        (_INSIDE / folder).mkdir(parents=True)
    for name in (".ssh/id_rsa", ".netrc", ".aws-credentials", ".git-credentials", ".bash_history"):
        (_INSIDE / "home" / name).write_text(f"{_PLANTED}\n", encoding="utf-8")
    return asyncio.run(_run_all(cases))


def _shut_off() -> None:
    """Nothing of this machine can be written from here on but a private folder; processes and memory are bounded."""
    libc = ctypes.CDLL(None, use_errno=True)
    steps: tuple[Callable[[], int], ...] = (
        lambda: libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None),
        lambda: libc.syscall(
            _MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, struct.pack("QQQQ", _READ_ONLY, 0, 0, 0), 32
        ),
        lambda: libc.mount(b"proc", b"/proc", b"proc", 0, None),
        lambda: libc.mount(b"tmpfs", os.fsencode(_INSIDE), b"tmpfs", 0, b"size=1g"),
    )
    for step in steps:
        if step() != 0:
            raise OSError(ctypes.get_errno(), f"the container cannot be shut off: {os.strerror(ctypes.get_errno())}")
    resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))


async def _run_all(cases: Sequence[Case]) -> int:
    listeners = [_listener(str(_INSIDE / "home" / ".agent" / "s")), socket.create_server(("127.0.0.1", 0))]
    for listener in listeners:
        listener.setblocking(False)
    found = 0
    for case in cases:
        for effect in await _effects(case, listeners):
            found += 1
            print(f"{case.id}: {effect}: {case.input[:100]!r}")
    print(f"wall two alone: {found} effects of {len(cases)} unsafe commands")
    return 1 if found else 0


def _listener(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    return listener


async def _effects(case: Case, listeners: Sequence[socket.socket]) -> list[str]:
    """What the command did that it must not, in words."""
    with workspace_of_cases() as (workspace, outside):
        if case.setup.strip():
            variables = os.environ | {"WS": str(workspace), "OUT": str(outside)}
            words = ["sh", "-c", case.setup]
            await run_child(words, cwd=workspace, environment=variables, timeout=_SET_UP_SECONDS, output_limit=1 << 16)
        sandbox = Sandbox(workspace)
        if not await sandbox.works():
            sys.exit(f"no sandbox works here: {(await sandbox.look()).detail}")
        environment = child_environment() | {"WS": str(workspace), "OUT": str(outside)}
        before = _facts(_INSIDE)
        if "\0" in case.input:
            return []  # no program can be given it
        done = await run_child(
            sandbox.wrap(case.input, environment, "read-only"),
            cwd=workspace,
            environment=environment,
            timeout=_SECONDS,
            output_limit=1 << 20,
        )
        effects = [f"changed {path}" for path in _changed(before, _facts(_INSIDE))]
        if _PLANTED in done.output:
            effects.append("printed a secret")
        return effects + [f"reached {one.getsockname()}" for one in listeners if _was_reached(one)]


def _facts(folder: Path) -> _Facts:
    """What every file is, without the times at which it was read."""
    found: _Facts = {}
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(top, name)
            facts = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
            found[str(path)] = (facts.st_mode, facts.st_mtime_ns, facts.st_nlink, content)
    return found


def _changed(before: _Facts, after: _Facts) -> list[str]:
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _was_reached(listener: socket.socket) -> bool:
    try:
        listener.accept()
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
