"""Generated shell lines in the read-only sandbox: no file may change, and no planted secret may be printed.

Scripts run whether or not the policy allows them, commands made from the tables if it does. Each sandbox that works on
this machine takes its turn.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Literal

from codelet.safety import Policy
from codelet.safety.sandbox import Confinement, Sandbox, find_confinement, variables_for_reading
from codelet.safety.verdict import Touch
from codelet.system.git import hardened_environment
from codelet.system.process import StartError, child_environment, find_program, run_child
from scripts.fuzz.scripts import Lines
from tests.safety.shell.generator import Generator
from tests.safety.shell.runner import SECRET, Jail

_SECONDS = 5.0
_WAYS: tuple[Literal["bubblewrap", "landlock"], ...] = ("bubblewrap", "landlock")


def run(count: int, seed: int) -> int:
    """Run `count` lines. Returns the number of those that changed a file or printed a secret."""
    return asyncio.run(_run(count, seed))


async def _run(count: int, seed: int) -> int:
    scripts, commands = Lines(seed), Generator(seed)
    figures, harmful = Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="codelet-confined-") as folder:
        jail = Jail(Path(os.path.realpath(folder)))
        os.environ |= {"HOME": str(jail.home), "DEPLOY_TARGET": SECRET}
        policy = Policy(jail.workspace, "read-only")
        sandboxes = await _sandboxes(jail.workspace)
        for number in range(count):
            command = scripts.script() if number % 2 else commands.command()
            allowed = policy.judge("bash", [Touch("run", command)]).action == "allow"
            figures["allowed"] += allowed
            if number % 2 == 0 and not allowed:
                continue
            sandbox = sandboxes[number // 2 % len(sandboxes)]
            figures[str(sandbox.state)] += 1
            if wrong := await _effects(jail, sandbox, command):
                harmful += 1
                print(f"HARM {command!r} ({sandbox.state}{'' if allowed else ', asks'}): {wrong}", flush=True)
    ran = ", ".join(f"{figures[way]} by {way}" for way in _WAYS)
    print(f"confined (seed {seed}): {count} made, {figures['allowed']} allowed; run {ran}; {harmful} did harm")
    return harmful


async def _sandboxes(workspace: Path) -> list[Sandbox]:
    found = [Confinement(way, way, find_program("bwrap", workspace)) for way in _WAYS]
    best = await find_confinement(workspace)
    sandboxes = []
    for confinement in found[0 if best.way == "bubblewrap" else 1 :]:
        sandbox = Sandbox(workspace)
        sandbox.found = confinement
        sandboxes.append(sandbox)
    return sandboxes


async def _effects(jail: Jail, sandbox: Sandbox, command: str) -> str:
    environment = hardened_environment(variables_for_reading(child_environment()))
    try:
        words = sandbox.wrap(command, environment, "read-only")
        done = await run_child(
            words, cwd=jail.workspace, environment=environment, timeout=_SECONDS, output_limit=1 << 20
        )
    except (StartError, ValueError):  # a NUL character, say: no program can be given it
        return ""
    wrong = "it printed a secret; " if SECRET in done.output else ""
    after = jail.snapshot()
    if after != jail.before:
        wrong += f"it changed {sorted(set(after.items()) ^ set(jail.before.items()))[:3]}"
        jail.before = after
    return wrong
