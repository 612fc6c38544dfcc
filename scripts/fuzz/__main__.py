"""Compare the policy with the real programs on generated input.

Use: python -m scripts.fuzz KIND [--count N] [--seed S]

git        allowed git commands in repositories of generated configurations: no effect, nothing planted is printed
words      what a word of the shell stands for, against bash, in folders of hostile names
sed        sed scripts that are read as harmless, against GNU sed, which says whether they run, write or read
scripts    shell scripts that are allowed, run in bubblewrap: no effect on files, no planted secret printed
commands   the same for commands made from the tables, watched by strace
text       any text: no verdict may fail or take long

It prints every difference and a line with the figures, and ends with status 1 where there was a difference.
"""

from __future__ import annotations

import argparse
import importlib
import sys

KINDS = ("words", "sed", "scripts", "commands", "text", "git")
"""Each is a module of this package with `run(count, seed)`, which prints and gives the number of differences."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found: int = importlib.import_module(f"scripts.fuzz.{options.kind}").run(options.count, options.seed)
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
