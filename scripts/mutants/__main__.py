"""Draw mutants, try each, and print which survived.

Use: python -m scripts.mutants [--count N] [--seed S] [--lines FOLDER] FOLDER-OR-FILE…    (as codelet/loop)

First the near tests are run once, to see which lines each of them runs; with `--lines` that is kept, and next time only
files of tests that were changed are run again. A mutant is killed when one of the tests that run its line fails, or
they use far more time than without it. Survivors are printed with their place and change. The seed is printed; with
it the same mutants are drawn from the same code. Tests that start codelet as a program are tried only where no other
test runs the file: what a child runs is not seen.
"""

from __future__ import annotations

import argparse
import difflib
import random
import sys
import time
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
    parser.add_argument("--at", nargs="+", default=[], metavar="FILE:LINE", help="of those drawn, only the ones there")
    parser.add_argument("--list", action="store_true", help="only print what would be tried")
    parser.add_argument("--budget", type=float, default=10.0, help="processor time of the tests of one mutant, in s")
    parser.add_argument("--tests", nargs="+", type=Path, default=[], help="try only the near tests in these places")
    parser.add_argument("--workers", type=int, default=2, help="how many are tried at a time")
    parser.add_argument("--lines", type=Path, metavar="FOLDER", help="keep there which test runs which lines")
    parser.add_argument("--hours", type=float, default=2.0, help="the longest duration")
    options = parser.parse_args()
    chosen = drawn(options.places, options.count, options.seed)
    if options.at:
        chosen = [mutant for mutant in chosen if _place(mutant) in options.at]
    if options.list:
        print("\n".join(f"{_place(mutant)}: {mutant.what}" for mutant in chosen))
        return 0
    print(f"{len(chosen)} mutants, seed {options.seed}", flush=True)
    trial = Trial(ROOT, budget=options.budget, workers=options.workers, kept=options.lines, among=options.tests)
    return _tell(*_tried(chosen, options.places, trial, options.hours))


def drawn(places: list[Path], count: int, seed: int) -> list[Mutant]:
    """Draw `count` mutants of files and folders, evenly from each, in a random order."""
    chance = random.Random(seed)
    chosen: list[Mutant] = []
    for number, place in enumerate(places, 1):
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        every = [mutant for path in files for mutant in mutants(path.resolve())]
        share = count * number // len(places) - count * (number - 1) // len(places)
        chosen += chance.sample(every, min(share, len(every)))
    chance.shuffle(chosen)
    return chosen


def _tried(chosen: list[Mutant], places: list[Path], trial: Trial, hours: float) -> tuple[Counter[str], Counter[str]]:
    """The numbers of tried and of killed mutants, by place; each result is printed immediately."""
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    end = time.monotonic() + 3600 * hours
    with trial:
        began = time.monotonic()
        files = trial.find_lines(chosen)
        print(f"the lines of {files} files of tests in {time.monotonic() - began:.0f} s", flush=True)
        for number, (mutant, survived) in enumerate(trial.tried(chosen), 1):
            folder = next(str(place) for place in places if mutant.path.is_relative_to(place.resolve()))
            tried[folder] += 1
            killed[folder] += not survived
            print(f"{number:>4} {'SURVIVED' if survived else 'killed'} {_place(mutant)}: {mutant.what}", flush=True)
            if survived:
                passed = _counted([test.name for test in trial.suite(mutant)])
                print(_difference(mutant), f"     passed: {passed}", sep="\n", flush=True)
            if time.monotonic() > end:
                print(f"time is up after {number} of {len(chosen)}")
                break
    return tried, killed


def _tell(tried: Counter[str], killed: Counter[str]) -> int:
    for folder in sorted(tried):
        print(f"{folder}: {killed[folder]} of {tried[folder]} killed, {100 * killed[folder] // tried[folder]} %")
    whole = sum(tried.values())
    print(f"in all: {sum(killed.values())} of {whole} killed, {100 * sum(killed.values()) // max(whole, 1)} %")
    return 0


def _place(mutant: Mutant) -> str:
    return f"{mutant.path.relative_to(ROOT)}:{mutant.line}"


def _counted(tests: list[str]) -> str:
    files = Counter(test.partition("::")[0] for test in tests)
    return ", ".join(f"{number} of {name}" for name, number in files.items()) or "no near test runs it"


def _difference(mutant: Mutant) -> str:
    before = mutant.path.read_text(encoding="utf-8")
    lines = difflib.unified_diff(before.splitlines(), mutant.text(before).splitlines(), lineterm="", n=1)
    return "\n".join(f"     {line}" for line in list(lines)[2:])


if __name__ == "__main__":
    sys.exit(main())
