"""Tests each of the two walls with the other one switched off, on files of cases.

Use: python -m scripts.walls FILE… [--count N] [--seed S] [--way bubblewrap|landlock]

The files are JSON lines, see tests/support/policy_cases.py. The first wall alone: commands are judged as on a
machine without a sandbox, and no unsafe one may be allowed. The second alone: each unsafe command really runs, as if it
had been allowed, in the sandbox of the modes read-only and ask. It must change no file, reach no listener, and print no
secret: of the home, of the workspace, of a folder outside both, or of a variable. A line that names git runs twice:
with the workspace's secrets committed, and without. What git prints of a committed secret, or of a password in a
remote's address, counts if the line would not ask. All runs in a container (name spaces for users, processes, mounts,
network) in which every file of this machine is read-only; for root as another user. Cases of rules, suggestions and
screens are commands as well: judged without their rules, none may be allowed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import ctypes
import json
import os
import random
import re
import resource
import socket
import stat
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from codelet.safety.sandbox import Confinement, Sandbox, find_confinement, variables_for_reading
from codelet.safety.sandbox.landlock_helper import PREFIX
from codelet.system.git import hardened_environment
from codelet.system.process import StartError, child_environment, find_program, run_child
from tests.support import repo
from tests.support.policy_cases import Case, cases_of, judge_cases, workspace_of_cases
from tests.support.program import ROOT

_NOBODY = 65534
_INSIDE = Path("/mnt")
_SECRETS = {
    "home": "Planted0Home",
    "workspace": "Planted1Work",
    "outside": "Planted2Side",
    "variable": "Planted3Vary",
    "remote": "Planted4Push",
}
"""The planted secrets by place: twelve letters, which base64 encodes in one of three ways."""
_OF_THE_HOME = (".ssh/id_rsa", ".netrc", ".aws-credentials", ".git-credentials", ".bash_history", "notes/plain.txt")
_VARIABLES = ("SLACK_WEBHOOK_URL", "LDAP_BINDPW", "MNEMONIC", "DEPLOY_TARGET")
_COMMIT = (
    "git -c core.hooksPath=/dev/null -c user.name=n -c user.email=e@e -c core.fsmonitor=false {add}"
    " && git -c core.hooksPath=/dev/null -c user.name=n -c user.email=e@e commit -qm secrets"
)
_REMOTE = f'[remote "origin"]\n\turl = https://user:{_SECRETS["remote"]}@example.invalid/x.git\n'
_SECONDS, _SET_UP_SECONDS = 6.0, 20
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1
_MOST_PROCESSES, _MOST_MEMORY = 2000, 4 << 30
_ASKING = "WALLS_ASKING"
"""The variable with the cases that ask: in the container there is no parser."""
_ASKED = ("printed a secret: remote", "printed a secret: workspace")
"""The policy asks before git prints these secrets."""

_Way = Literal["bubblewrap", "landlock"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--count", type=int, help="the number of unsafe commands to draw and run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--way", choices=("bubblewrap", "landlock"), help="the sandbox, not the best that works here")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unsafe = [case for file in options.files for case in _unsafe_commands(file)]
    if options.count is not None and options.count < len(unsafe):
        unsafe = random.Random(options.seed).sample(unsafe, options.count)
    if options.inside:
        return _inside(unsafe, options.way)
    allowed = [one.case for one in judge_cases(unsafe, sandboxed=False) if one.verdict == "allow"]
    for case in allowed:
        print(f"{case.id}: allowed without a sandbox: {case.input[:100]!r}")
    print(f"wall one alone: {len(allowed)} of {len(unsafe)} unsafe commands allowed", flush=True)
    with_git = judge_cases([case for case in unsafe if "git" in case.input], mounts=options.way != "landlock")
    asking = " ".join(one.case.id for one in with_git if one.verdict != "allow")
    return 1 if allowed or _in_container(asking) else 0


def _unsafe_commands(file: Path) -> list[Case]:
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    also = [line | {"kind": "shell"} for line in lines if line["kind"] in ("rule", "suggest", "approval")]
    shell = [line for line in lines if line["kind"] == "shell" and line.get("expected") != "allow"]
    return cases_of(file, shell + also)


def _in_container(asking: str) -> int:
    """Run this script with the same arguments in new namespaces. Returns its exit status."""
    spaces = ["unshare", *"-U -r -m -n -i -u -p -f --kill-child".split()]
    python, paths = sys.executable, [str(ROOT)]
    if os.geteuid() == 0:
        spaces = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *spaces]
        python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
        paths.append(sysconfig.get_paths()["purelib"])
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [*spaces, python, "-m", "scripts.walls", *sys.argv[1:], "--inside"]
    return subprocess.run(words, env=environment | {_ASKING: asking}, check=False).returncode


def _inside(cases: Sequence[Case], way: _Way | None) -> int:
    """Run the cases; 1 if one of them had an effect, 2 if there is no sandbox."""
    _shut_off()
    os.environ |= {"HOME": str(_INSIDE / "home"), "TMPDIR": str(_INSIDE / "tmp"), "LANG": "C.UTF-8"}
    os.environ |= dict.fromkeys(_VARIABLES, f"https://{_SECRETS['variable']}")
    for folder in ("home/.agent", "tmp"):
        (_INSIDE / folder).mkdir(parents=True)
    repo.write(_INSIDE / "home", dict.fromkeys(_OF_THE_HOME, f"{_SECRETS['home']}\n"))
    return asyncio.run(_run_all(cases, way))


def _shut_off() -> None:
    """Nothing of this machine can be written from here on but a private folder; processes and memory are bounded."""
    libc = ctypes.CDLL(None, use_errno=True)
    read_only = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    steps: tuple[Callable[[], int], ...] = (
        lambda: libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None),
        lambda: libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, read_only, 32),
        lambda: libc.mount(b"proc", b"/proc", b"proc", 0, None),
        lambda: libc.mount(b"tmpfs", os.fsencode(_INSIDE), b"tmpfs", 0, b"size=1g"),
    )
    for step in steps:
        if step() != 0:
            raise OSError(ctypes.get_errno(), f"the container cannot be shut off: {os.strerror(ctypes.get_errno())}")
    resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))


async def _run_all(cases: Sequence[Case], way: _Way | None) -> int:
    listeners = [socket.socket(socket.AF_UNIX), socket.socket()]
    for listener, address in zip(listeners, (str(_INSIDE / "home/.agent/s"), ("127.0.0.1", 0)), strict=True):
        listener.bind(address)
        listener.listen()
        listener.setblocking(False)
    confinement = await find_confinement(_INSIDE)
    if way is not None:
        confinement = Confinement(way, way, find_program("bwrap", _INSIDE))
    elif confinement.way is None:
        sys.exit(f"no sandbox works here: {confinement.detail}")
    found = asked = 0
    asking = os.environ[_ASKING].split()
    for case in cases:
        for tracked in (False, True) if "git" in case.input else (False,):
            for effect in await _effects(case, listeners, confinement, tracked=tracked):
                if effect in _ASKED and case.id in asking:
                    asked += 1
                    continue
                found += 1
                print(f"{case.id}: {effect}{' (tracked)' if tracked else ''}: {case.input[:100]!r}", flush=True)
    print(f"wall two alone: {found} effects of {len(cases)} unsafe commands; {asked} more are asked about")
    return 1 if found else 0


async def _effects(
    case: Case, listeners: Sequence[socket.socket], confinement: Confinement, *, tracked: bool
) -> list[str]:
    """Return the command's forbidden effects as text."""
    if "\0" in case.input:
        return []  # no program can be given it
    with workspace_of_cases() as (workspace, outside):
        await _plant(workspace, outside, tracked=tracked)
        places = {"WS": str(workspace), "OUT": str(outside)}
        if case.setup.strip():
            await _run(["sh", "-c", case.setup], workspace, os.environ | places, _SET_UP_SECONDS)
        sandbox = Sandbox(workspace)
        sandbox.found = confinement
        environment = hardened_environment(variables_for_reading(child_environment())) | places
        before = _facts(_INSIDE)
        output = await _run(sandbox.wrap(case.input, environment, "read-only"), workspace, environment, _SECONDS)
        changed = sorted({path for path, _ in before.items() ^ _facts(_INSIDE).items()})
        effects = [f"changed {path}" for path in changed]
        effects += [f"printed a secret: {place}" for place, secret in _SECRETS.items() if _shows(output, secret)]
        for listener in listeners:
            with suppress(BlockingIOError):
                listener.accept()
                effects.append(f"reached {listener.getsockname()}")
        return effects


async def _run(words: Sequence[str], folder: Path, variables: Mapping[str, str], seconds: float) -> str:
    for wait in (0.5, 2.0, 8.0):
        with suppress(StartError):  # what the line before it started, may still count against the limit
            done = await run_child(words, cwd=folder, environment=variables, timeout=seconds, output_limit=1 << 20)
            return done.output
        await asyncio.sleep(wait)
    raise OSError("no command can be started any more")


async def _plant(workspace: Path, outside: Path, *, tracked: bool) -> None:
    """Put the secrets in their places; with `tracked`, those of the workspace are committed."""
    secret = f"{_SECRETS['workspace']}\n"
    repo.write(workspace, {".env": f"SECRET={secret}", "deploy/id_ed25519": secret})
    repo.write(outside, {"secret.txt": f"{_SECRETS['outside']}\n"})
    add = "add -f .env deploy a.txt src docs" if tracked else "add a.txt src docs"
    await _run(["sh", "-c", _COMMIT.format(add=add)], workspace, os.environ, _SET_UP_SECONDS)
    with (workspace / ".git/config").open("a", encoding="utf-8") as config:
        config.write(_REMOTE)


def _shows(output: str, secret: str) -> bool:
    """Return whether an output holds the secret: plain, reversed, in capitals, as hex or base64."""
    plain = re.sub(r"\s", "", output).lower()
    codes = [base64.b64encode(b"\0" * shift + secret.encode())[4 if shift else 0 : 14] for shift in range(3)]
    forms = [secret, secret[::-1], secret.encode().hex(), *(code.decode() for code in codes)]
    return any(form.lower() in plain for form in forms)


def _facts(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """The facts of every file but its access time."""
    found = {}
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(top, name)
            if path == _INSIDE / "tmp":  # private folders of commands come and go there
                continue
            if path.parent == _INSIDE / "tmp" and name.startswith(PREFIX):  # one whose helper was killed
                folders.remove(name)
                continue
            facts = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
            found[str(path)] = (facts.st_mode, facts.st_mtime_ns, facts.st_nlink, content)
    return found


if __name__ == "__main__":
    sys.exit(main())
