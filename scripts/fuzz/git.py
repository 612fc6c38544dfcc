"""Allowed git commands in repositories with generated configurations, run as codelet runs them.

Each allowed command runs in the read-only sandbox of a throw-away repository: no file may change and nothing
planted may be printed. Every fourth command is run by plain git, too, which shows that the plants work.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from codelet.safety import Policy
from codelet.safety.verdict import Touch
from codelet.system.git import hardened_environment
from codelet.system.process import child_environment
from scripts.fuzz.git_places import PLANTED, Places
from scripts.fuzz.git_texts import Texts
from tests.support.confined import run_confined

_COMMANDS = 5
_SECONDS, _SECONDS_OF_PLAIN_GIT = 10.0, 1.0


def run(count: int, seed: int) -> int:
    """Run about `count` commands, five in each repository; gives the number of those with an effect."""
    figures, harmful = Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="codelet-git-") as folder:
        places = Places(Path(os.path.realpath(folder)))
        texts = Texts(seed, places)
        while figures["judged"] < count:
            places.fresh(secrets=texts.random.random() < 0.35)
            what = texts.repository()
            figures["configurations"] += 1
            variables = {"HOME": str(places.home), "GIT_CONFIG_NOSYSTEM": "1"} | texts.variables()
            with patch.dict(os.environ, variables):
                for command in [texts.command() for _ in range(_COMMANDS)]:
                    if effects := _try(places, command, figures):
                        harmful += 1
                        print(f"HARM {command!r}: {', '.join(effects)}; {what}; {variables}", flush=True)
    print(
        f"git (seed {seed}): {figures['configurations']} configurations, {figures['judged']} commands judged, "
        f"{figures['allowed']} allowed and run, {harmful} with an effect; of {figures['plain']} run by plain git "
        f"{figures['by plain git']} had one"
    )
    return harmful


def _try(places: Places, command: str, figures: Counter[str]) -> list[str]:
    """Return the forbidden effects of a command, if allowed, and of its verdict."""
    before = places.snapshot()
    verdict = Policy(places.workspace, "read-only").judge("bash", [Touch("run", command)])
    effects = [f"judging: {effect}" for effect in _effects(places, before, "")]
    figures["judged"] += 1
    if verdict.action == "allow":
        figures["allowed"] += 1
        effects += _effects(places, before, run_confined(places.workspace, command, _SECONDS).output)
    if figures["judged"] % 4 == 0:
        figures["plain"] += 1
        figures["by plain git"] += bool(_effects(places, before, _run_plainly(places.workspace, command)))
    return effects


def _run_plainly(workspace: Path, command: str) -> str:
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=workspace,
            env=hardened_environment(child_environment()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS_OF_PLAIN_GIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{PLANTED}: it outlived its limit"
    return done.stdout.decode(errors="replace")


def _effects(places: Places, before: dict[str, tuple[int, ...]], output: str) -> list[str]:
    """The forbidden effects since `before`, which is brought up to date."""
    effects = ["a planted program ran"] if places.ran() else []
    after = places.snapshot()
    if changed := sorted({path for path, _ in set(after.items()) ^ set(before.items())}):
        effects.append(f"it changed {', '.join(changed[:3])}")
        before.clear()
        before.update(after)
    if (at := output.find(PLANTED)) >= 0:
        effects.append(f"it printed {output[max(0, at - 60) : at + 30]!r}")
    return effects
