"""Allowed git commands in repositories with generated configurations, run as codelet runs them.

Each allowed command runs in the read-only sandbox of a throw-away repository: no file may change and nothing
planted may be printed. Every fourth command is run by plain git, too, which shows that the plants work.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codelet.safety import Policy
from codelet.safety.verdict import Touch
from codelet.system.git import hardened_environment
from codelet.system.process import child_environment
from scripts.fuzz.git_places import PLANTED, Places
from scripts.fuzz.git_texts import Texts
from tests.support.confined import run_confined

_COMMANDS = 5
_SECONDS = 10.0
_SECONDS_OF_PLAIN_GIT = 1.0


def run(count: int, seed: int) -> int:
    """Run about `count` commands, five in each repository; gives the number of those with an effect."""
    figures = {"configurations": 0, "judged": 0, "allowed": 0, "plain": 0, "by plain git": 0}
    harmful = 0
    with tempfile.TemporaryDirectory(prefix="codelet-git-") as folder:
        places = Places(Path(os.path.realpath(folder)))
        texts = Texts(seed, places)
        while figures["judged"] < count:
            places.fresh(secrets=texts.random.random() < 0.35)
            what = texts.repository()
            figures["configurations"] += 1
            with _variables({"HOME": str(places.home), "GIT_CONFIG_NOSYSTEM": "1"} | texts.variables()) as set_ones:
                for _ in range(_COMMANDS):
                    command = texts.command()
                    effects = _try(places, command, figures)
                    if effects:
                        harmful += 1
                        print(f"HARM {command!r}: {', '.join(effects)}; {what}; {set_ones}", flush=True)
    print(
        f"git (seed {seed}): {figures['configurations']} configurations, {figures['judged']} commands judged, "
        f"{figures['allowed']} allowed and run, {harmful} with an effect; of {figures['plain']} run by plain git "
        f"{figures['by plain git']} had one"
    )
    return harmful


def _try(places: Places, command: str, figures: dict[str, int]) -> list[str]:
    """Return the forbidden effects of a command, if allowed, and of its verdict."""
    policy = Policy(places.workspace, "read-only")
    before = places.snapshot()
    figures["judged"] += 1
    allowed = policy.judge("bash", [Touch("run", command)]).action == "allow"
    effects = [f"judging: {effect}" for effect in _effects(places, before, b"")]
    if allowed:
        figures["allowed"] += 1
        effects += _effects(places, before, run_confined(places.workspace, command, _SECONDS).output.encode())
    if figures["judged"] % 4 == 0:
        figures["plain"] += 1
        figures["by plain git"] += bool(
            _effects(places, places.snapshot(), _run(places, command, _SECONDS_OF_PLAIN_GIT))
        )
    return effects


def _run(places: Places, command: str, seconds: float = _SECONDS) -> bytes:
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=places.workspace,
            env=hardened_environment(child_environment()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{PLANTED}: it outlived its limit".encode()
    return done.stdout


def _effects(places: Places, before: dict[str, tuple[int, ...]], output: bytes) -> list[str]:
    effects = ["a planted program ran"] if places.ran() else []
    after = places.snapshot()
    if after != before:
        changed = sorted({path for path, _ in set(after.items()) ^ set(before.items())})
        effects.append(f"it changed {', '.join(changed[:3])}")
        before.clear()
        before.update(after)
    if PLANTED.encode() in output:
        at = output.index(PLANTED.encode())
        effects.append(f"it printed {output[max(0, at - 60) : at + 30]!r}")
    return effects


@contextmanager
def _variables(changed: dict[str, str]) -> Iterator[dict[str, str]]:
    """The process's environment with these variables, as the user would have set them."""
    before = dict(os.environ)
    os.environ.update(changed)
    try:
        yield changed
    finally:
        os.environ.clear()
        os.environ.update(before)
