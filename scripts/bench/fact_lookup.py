"""What it costs to look facts up for a prompt, against a bare full-text query on the same file.

Use: python -m scripts.bench.fact_lookup [--facts N] [--runs N]

A file of so many facts (10,000) is made in a temporary folder. For prompts of different lengths the lookup that a turn
makes, words, query and rows, is timed beside `SELECT rowid … MATCH … ORDER BY rank LIMIT 12` with the same words on a
connection of its own. The exit status is 0 if no lookup takes more than 5 times the query. With the extra
`codelet-repl[semantic]` what the search by meaning adds is told too, the first time, with the model and all facts, and
later.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from codelet.extensions.memory.fact import Fact
from codelet.extensions.memory.fact_file import FactFile, terms_of
from codelet.semantic.meaning import Nearest, model_files

BUDGET = 5.0
MOST = 12
THINGS = "parser build server deploy token cache queue index schema session port branch release module config".split()
VERBS = "uses needs breaks replaces reads writes owns calls follows renames".split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.facts"
        file = FactFile(path)
        file.add(made_up(options.facts))
        base = sqlite3.connect(path)
        worst = 0.0
        for name, prompt in prompts().items():
            lookup, query = compared(file, base, prompt, options.runs)
            worst = max(worst, lookup / query)
            print(f"{name:<12} lookup {lookup:7.3f} ms   bare query {query:7.3f} ms   ratio {lookup / query:.2f}")
        base.close()
        by_meaning(file, options.runs)
        file.close()
    print(f"worst ratio {worst:.2f}, at most {BUDGET:g}")
    return 0 if worst <= BUDGET else 1


def by_meaning(file: FactFile, runs: int) -> None:
    """Tell what the search by meaning adds to a lookup, or that it is not installed."""
    files = model_files(None)
    if files is None:
        print("by meaning   codelet-repl[semantic] is not installed")
        return
    nearest = Nearest(file, files)
    first = timed(lambda: nearest.find("which port?", ()))
    if nearest.broken:
        print(f"by meaning   {nearest.broken}")
        return
    for name, prompt in prompts().items():
        found = {stored.number for stored in file.find(prompt, MOST)}
        later = statistics.median(timed(lambda p=prompt, f=found: nearest.find(p, f)) for _ in range(runs))
        print(f"{name:<12} by meaning {later:7.3f} ms more   (the first time {first:.0f} ms)")


def made_up(count: int) -> list[Fact]:
    """So many different facts, in words that many share and names that few do."""
    chance = random.Random(7)
    return [
        Fact(
            text=f"the {chance.choice(THINGS)} {chance.choice(VERBS)} the {chance.choice(THINGS)}"
            f" of module_{number % 997} and listens on port {number}",
            by="model",
        )
        for number in range(count)
    ]


def prompts() -> dict[str, str]:
    """Prompts by name: two words, a question, and a page with a trace."""
    trace = "\n".join(f'  File "src/module_{n}.py", line {n}, in {THINGS[n % 15]}_{VERBS[n % 10]}' for n in range(60))
    return {
        "two words": "which port?",
        "a question": "why does the parser of module_17 break the build when the deploy reads config on port 4711?",
        "a page": f"mend this\n{trace}",
    }


def compared(file: FactFile, base: sqlite3.Connection, prompt: str, runs: int) -> tuple[float, float]:
    """The medians of both in ms, taken in turn so that the machine's load is the same for both."""
    query = " OR ".join(f'"{term}"' for term in terms_of(prompt))
    statement = f"SELECT rowid FROM fact_words WHERE fact_words MATCH ? ORDER BY rank LIMIT {MOST}"
    lookups, queries = [], []
    for _ in range(runs):
        lookups.append(timed(lambda: file.find(prompt, MOST)))
        queries.append(timed(lambda: base.execute(statement, (query,)).fetchall()))
    return statistics.median(lookups), statistics.median(queries)


def timed(work: Callable[[], object]) -> float:
    """Processor time of one run in ms."""
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


if __name__ == "__main__":
    sys.exit(main())
