"""Random commands made from the tables: those allowed without a sandbox run, watched by strace if installed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from codelet.safety import Policy
from codelet.safety.verdict import Touch
from tests.safety.shell.generator import Generator
from tests.safety.shell.runner import Jail


def run(count: int, seed: int) -> int:
    """Run `count` different allowed commands; gives the number that did what they must not."""
    generator = Generator(seed)
    made = done = harmful = 0
    with tempfile.TemporaryDirectory() as folder:
        jail = Jail(Path(folder))
        os.environ["HOME"] = str(jail.home)
        policy = Policy(jail.workspace, "read-only")
        seen: set[str] = set()
        while done < count:
            command = generator.command()
            made += 1
            if command in seen or policy.judge("bash", [Touch("run", command)], sandboxed=False).action != "allow":
                continue
            seen.add(command)
            done += 1
            if wrong := jail.run(command):
                harmful += 1
                print(f"HARM {command!r}: {'; '.join(wrong)}", flush=True)
    print(f"commands (seed {seed}): {made} made, {done} allowed and run; {harmful} did harm")
    return harmful
