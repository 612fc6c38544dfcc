"""Draw mutants, try each, and tell which survived.

Use: python -m scripts.mutants [--count N] [--seed S] [--named] FOLDER-OR-FILE…    (as codelet/loop)

A mutant is killed when one of the near tests that run its line fails, or they use far more processor time than without
it. Survivors are told with their place and their change. The seed is printed; with it the same mutants are drawn from
the same code.
"""

from __future__ import annotations

import argparse
import difflib
import random
import sys
import time
from collections import Counter
from pathlib import Path

from scripts.mutants.named import named
from scripts.mutants.operators import Mutant, mutants
from scripts.mutants.trial import Copy

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--named", action="store_true", help="also those that were once found by hand")
    parser.add_argument("--list", action="store_true", help="only print what would be tried")
    parser.add_argument("--budget", type=float, default=20.0, help="processor time of the tests of one mutant, in s")
    parser.add_argument("--tests", nargs="+", type=Path, default=[], help="try only the near tests in these places")
    parser.add_argument("--hours", type=float, default=2.0, help="how long it goes on at most")
    options = parser.parse_args()
    if not options.places and not options.named:
        parser.error("name folders or files, or --named")
    chosen = drawn(options.places, options.count, options.seed) if options.places else []
    if options.named:
        known, lost = named(ROOT)
        chosen = [*known, *chosen]
        for what in lost:
            print(f"no such code any more: {what}")
    if options.list:
        print("\n".join(f"{_place(mutant)}: {mutant.what}" for mutant in chosen))
        return 0
    print(f"{len(chosen)} mutants, seed {options.seed}", flush=True)
    return _tell(*_tried(chosen, Copy(ROOT, options.budget, options.tests), options.hours))


def drawn(places: list[Path], count: int, seed: int) -> list[Mutant]:
    """So many mutants of the files named or below the folders named, evenly drawn from all that there are."""
    files = [path for place in places for path in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
    every = [mutant for path in files for mutant in mutants(path.resolve())]
    return random.Random(seed).sample(every, min(count, len(every)))


def _tried(chosen: list[Mutant], trial: Copy, hours: float) -> tuple[Counter[str], Counter[str]]:
    """How many were tried and how many killed, by folder; each survivor is printed when it is found."""
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    end = time.monotonic() + 3600 * hours
    with trial as copy:
        for number, mutant in enumerate(chosen, 1):
            if time.monotonic() > end:
                print(f"time is up after {number - 1} of {len(chosen)}")
                break
            survived = copy.survives(mutant)
            folder = str(mutant.path.parent.relative_to(ROOT))
            tried[folder] += 1
            killed[folder] += not survived
            print(f"{number:>4} {'SURVIVED' if survived else 'killed'} {_place(mutant)}: {mutant.what}", flush=True)
            if survived:
                passed = _counted([test.name for tests in copy.suites(mutant) for test in tests])
                print(_difference(mutant), f"     passed: {passed}", sep="\n", flush=True)
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
