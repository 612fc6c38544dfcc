"""Compare the policy with the real programs on generated input.

Use: python -m scripts.fuzz KIND [--count N] [--seed S]
     python -m scripts.fuzz all --minutes N [--seed S]

all        every kind in turn, each round with its own seed, until the time is up
git        allowed git commands in repositories of generated configurations, in the sandbox: no effect, nothing planted
scripts    shell scripts that are allowed without a sandbox, run by bash: no effect on files, no planted secret printed
confined   shell lines in each sandbox that works here: no effect on files, no planted secret printed

It prints every difference and a line of figures, and exits with status 1 if there was a difference.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from scripts.fuzz import git, shell

KINDS = {"scripts": shell.run_scripts, "git": git.run, "confined": shell.run_confined}
"""Each prints what it finds, and gives the number of differences for a count and a seed."""
_OF_A_ROUND = {"scripts": 300, "git": 300, "confined": 600}
"""The cases of each kind in one round, which take about as long for each."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=(*KINDS, "all"))
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="the duration of `all`")
    parser.add_argument("--seed", type=int, help="1, for `all` drawn")
    options = parser.parse_args()
    if options.kind != "all":
        return min(KINDS[options.kind](options.count, 1 if options.seed is None else options.seed), 1)
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    begun, found, rounds = time.monotonic(), 0, 0
    print(f"all: seed {seed}", flush=True)
    while time.monotonic() - begun < options.minutes * 60:
        for kind, count in _OF_A_ROUND.items():
            found += KINDS[kind](count, seed + rounds)
        rounds += 1
    minutes = (time.monotonic() - begun) / 60
    print(f"all (seeds {seed} to {seed + rounds - 1}): {rounds} rounds in {minutes:.0f} minutes; {found} differences")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
