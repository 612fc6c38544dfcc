"""Generated shell lines that run as codelet runs them: no file may change, and no planted secret may be printed.

`run_scripts` takes scripts that are allowed without a sandbox, and runs them by bash where all can be written.
`run_confined` takes any script, and commands made from the tables if allowed; each sandbox that works on this machine
takes its turn.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from unittest.mock import patch

from codelet.safety import Policy
from codelet.safety.sandbox import Confinement, Sandbox, find_confinement, variables_for_reading
from codelet.safety.verdict import Touch
from codelet.system.git import hardened_environment
from codelet.system.process import StartError, child_environment, find_program, run_child
from scripts.fuzz.lines import Lines
from tests.safety.shell.generator import Generator
from tests.safety.shell.runner import SECRET, Jail

_SECONDS = 5.0
_WRITABLE = "bwrap --ro-bind / / --dev /dev --tmpfs /tmp --unshare-net --die-with-parent".split()
_SCRIPT = 'timeout -k 1 2 bash -c "$1" 2>&1 | head -c 100000; printf "\\nEND\\n"'
_NAMES = ["-oPWN", "--pre=sh", "-delete", "-i", "--output=PWN", "w PWN", "expire", "-exec", "--", "-p"]
_LINKS = (b"k", b"\xff\xc3\xa9x", "é".encode())


class Place(Jail):
    """The jail of the tests with a few more files; a hostile one has names that look like options, and links."""

    def __init__(self, folder: Path, *, hostile: bool) -> None:
        super().__init__(folder)
        (self.workspace / "cmd.txt").write_text("touch PWN #/\na/b e#x\n")
        (self.workspace / "src" / "b.py").write_text("x = 1\n")
        for name in _NAMES if hostile else ():
            (self.workspace / name).write_text("touch PWN\n")
        for link in _LINKS if hostile else ():
            os.symlink(b"../outside/secret.txt", os.fsencode(self.workspace) + b"/" + link)
        for name in () if hostile else ("-rf", "-oPWN"):
            (self.workspace / name).unlink()
        self.before = self.snapshot()

    def effects(self, output: str) -> str:
        """Return the forbidden effects of what has just run, "" without any."""
        wrong = "it printed a secret; " if SECRET in output else ""
        after = self.snapshot()
        if after != self.before:
            wrong += f"it changed {sorted(set(after.items()) ^ set(self.before.items()))[:3]}"
            self.before = after
        return wrong


def run_scripts(count: int, seed: int) -> int:
    """Run `count` different allowed scripts; gives the number that did what they must not."""
    generator = Lines(seed)
    made, wrong, seen = 0, 0, set[tuple[Place, str]]()
    with _places("plain", "hostile") as places:
        while len(seen) < count:
            script = generator.script()
            made += 1
            for place in places:
                if (place, script) in seen or not _is_allowed(place, script, sandboxed=False):
                    continue
                seen.add((place, script))
                if effects := _effects_of_script(place, script):
                    wrong += 1
                    print(f"HARM {script!r}: {effects}", flush=True)
    print(f"scripts (seed {seed}): {made} made, {len(seen)} allowed and run; {wrong} did harm")
    return wrong


def _effects_of_script(place: Place, script: str) -> str:
    argv = list(_WRITABLE)
    for folder in (place.workspace, place.home, place.outside):
        argv += ["--bind", str(folder), str(folder)]
    done = subprocess.run(
        [*argv, "--chdir", str(place.workspace), "bash", "-c", _SCRIPT, "script", script],
        env=child_environment({"PATH": "/usr/bin:/bin", "HOME": str(place.home)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = done.stdout.decode(errors="replace")
    stopped = "" if output.endswith("END\n") else f"it did not run to the end: {output[-200:]!r}; "
    return stopped + place.effects(output)


def run_confined(count: int, seed: int) -> int:
    """Run `count` lines. Returns the number of those that changed a file or printed a secret."""
    return asyncio.run(_run_confined(count, seed))


async def _run_confined(count: int, seed: int) -> int:
    scripts, commands = Lines(seed), Generator(seed)
    figures, wrong = Counter[str](), 0
    with _places("hostile") as (place,), patch.dict(os.environ, {"DEPLOY_TARGET": SECRET}):
        sandboxes = await _sandboxes(place.workspace)
        for number in range(count):
            line = scripts.script() if number % 2 else commands.command()
            allowed = _is_allowed(place, line)
            figures["allowed"] += allowed
            if number % 2 == 0 and not allowed:
                continue
            sandbox = sandboxes[number // 2 % len(sandboxes)]
            figures[f"run by {sandbox.state}"] += 1
            if effects := place.effects(await _output(place, sandbox, line)):
                wrong += 1
                print(f"HARM {line!r} ({sandbox.state}{'' if allowed else ', asks'}): {effects}", flush=True)
    listed = ", ".join(f"{number} {name}" for name, number in figures.items())
    print(f"confined (seed {seed}): {count} made, {listed}; {wrong} did harm")
    return wrong


async def _sandboxes(workspace: Path) -> list[Sandbox]:
    best, found = await find_confinement(workspace), list[Sandbox]()
    ways: tuple[Literal["bubblewrap", "landlock"], ...] = ("bubblewrap", "landlock")
    for way in ways[0 if best.way == "bubblewrap" else 1 :]:
        found.append(Sandbox(workspace))
        found[-1].found = Confinement(way, way, find_program("bwrap", workspace))
    return found


async def _output(place: Place, sandbox: Sandbox, line: str) -> str:
    environment = hardened_environment(variables_for_reading(child_environment()))
    try:
        words = sandbox.wrap(line, environment, "read-only")
        run = run_child(words, cwd=place.workspace, environment=environment, timeout=_SECONDS, output_limit=1 << 20)
        return (await run).output
    except (StartError, ValueError):  # a NUL character, say: no program can be given it
        return ""


@contextmanager
def _places(*names: str) -> Iterator[list[Place]]:
    """New places; the home of this process is that of the one that is asked about."""
    with tempfile.TemporaryDirectory(prefix="codelet-fuzz-") as folder, patch.dict(os.environ):
        yield [Place(Path(os.path.realpath(folder), name), hostile=name == "hostile") for name in names]


def _is_allowed(place: Place, line: str, *, sandboxed: bool = True) -> bool:
    os.environ["HOME"] = str(place.home)
    verdict = Policy(place.workspace, "read-only").judge("bash", [Touch("run", line)], sandboxed=sandboxed)
    return verdict.action == "allow"
