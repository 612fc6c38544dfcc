"""Mutation testing: put small bugs into a copy of the product, one at a time, and print those that no test notices.

Use: python -m scripts.mutants [--count N] [--seed S] FOLDER-OR-FILE…    (as codelet/loop)

First the near tests are run once under coverage, to see which lines each of them runs. A mutant is killed when one of
the tests that run its line fails, or they take far more time than without it. Survivors are printed with their place
and change. The seed is printed; with it the same mutants are drawn from the same code. Tests that start codelet as a
program are tried only where no other test runs the file: what a child runs is not seen.
"""

from __future__ import annotations

import argparse
import difflib
import random
import sys
from collections import Counter
from pathlib import Path

from scripts.mutants.operators import Mutant, mutants
from scripts.mutants.trial import Trial

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--budget", type=float, default=15.0, help="time of the tests of one mutant, in s")
    parser.add_argument("--workers", type=int, default=2, help="how many are tried at a time")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    files = [path for place in options.places for path in (sorted(place.rglob("*.py")) or [place])]
    every = [mutant for path in files for mutant in mutants(path.resolve())]
    chosen = chance.sample(every, min(options.count, len(every)))
    print(f"{len(chosen)} mutants of {len(every)}, seed {options.seed}", flush=True)
    killed = 0
    with Trial(ROOT, budget=options.budget, workers=options.workers) as trial:
        print(f"the lines of {trial.find_lines(chosen)} test files are known", flush=True)
        for number, (mutant, survived) in enumerate(trial.tried(chosen), 1):
            killed += not survived
            place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
            print(f"{number:>4} {'SURVIVED' if survived else 'killed'} {place}: {mutant.what}", flush=True)
            if survived:
                tests = Counter(test.partition("::")[0] for test in trial.suite(mutant))
                passed = ", ".join(f"{many} of {name}" for name, many in tests.items()) or "no near test runs it"
                print(_difference(mutant), f"     passed: {passed}", sep="\n", flush=True)
    print(f"in all: {killed} of {len(chosen)} killed, {100 * killed // max(len(chosen), 1)} %")
    return 0


def _difference(mutant: Mutant) -> str:
    before = mutant.path.read_text(encoding="utf-8")
    lines = difflib.unified_diff(before.splitlines(), mutant.text(before).splitlines(), lineterm="", n=1)
    return "\n".join(f"     {line}" for line in list(lines)[2:])


if __name__ == "__main__":
    sys.exit(main())
