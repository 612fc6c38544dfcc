"""The cost of looking facts up for a prompt, against a bare full-text query on the same file.

Use: python -m scripts.bench.fact_lookup [--facts N] [--runs N]

For prompts of three lengths, a turn's lookup (words, query and rows) alternates with the same full-text query on a
second connection. With the extra `codelet-repl[semantic]` the table also has the additional time of the search by
meaning, first (with the model and all facts) and later.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from codelet.extensions.memory.fact import Fact
from codelet.extensions.memory.fact_file import FactFile, terms_of
from codelet.semantic.meaning import Nearest, model_files
from scripts.bench.child import Row, alternate, show

MOST = 12
QUERY = f"SELECT rowid FROM fact_words WHERE fact_words MATCH ? ORDER BY rank LIMIT {MOST}"
THINGS = "parser build server deploy token cache queue index schema session port branch release module config".split()
VERBS = "uses needs breaks replaces reads writes owns calls follows renames".split()
PROMPTS = {
    "two words": "which port?",
    "a question": "why does the parser of module_17 break the build when the deploy reads config on port 4711?",
    "a page": "\n".join(
        f'  File "src/module_{n}.py", line {n}, in {THINGS[n % 15]}_{VERBS[n % 10]}' for n in range(60)
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.facts"
        file = FactFile(path)
        file.add(made_up(options.facts))
        base = sqlite3.connect(path)
        for name, prompt in PROMPTS.items():
            query = " OR ".join(f'"{term}"' for term in terms_of(prompt))
            pair = alternate(
                options.runs,
                lambda prompt=prompt: timed(lambda: file.find(prompt, MOST)),
                lambda query=query: timed(lambda: base.execute(QUERY, (query,)).fetchall()),
            )
            rows.append(Row(f"looking up facts for {name}, against the bare query", "ms", *pair, promise=5.0))
        base.close()
        if (files := model_files(None)) is not None:
            nearest = Nearest(file, files)
            rows.append(Row("the first search by meaning", "ms", [timed(lambda: nearest.find("which port?", ()))]))
            later = alternate(options.runs, lambda: timed(lambda: nearest.find(PROMPTS["a question"], ())))
            rows.append(Row("a later search by meaning", "ms", *later))
        file.close()
    return show(rows)


def made_up(count: int) -> list[Fact]:
    """Different facts, with common words and rare names."""
    chance = random.Random(7)
    return [
        Fact(
            text=f"the {chance.choice(THINGS)} {chance.choice(VERBS)} the {chance.choice(THINGS)}"
            f" of module_{number % 997} and listens on port {number}",
            by="model",
        )
        for number in range(count)
    ]


def timed(work: Callable[[], object]) -> float:
    """Processor time of one run in ms."""
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


if __name__ == "__main__":
    sys.exit(main())
