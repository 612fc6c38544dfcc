"""Reviews of the commits of real repositories, without a model: requests for each, and the place of planted findings.

Use: python -m scripts.bench.review_history [--most N] [--commits N] REPOSITORY…

Each commit with one parent is planned as `codelet review COMMIT` plans it. In its added lines findings are planted as
a model would state them (tests/support/planted.py), some with a quote that is nowhere. Exit status 1: fewer than 95 %
of a repository's commits take one request, or a finding is not on its line.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

from codelet.review.packing import planned
from codelet.review.reviewed_change import Wanted, change_from_git
from tests.support.planted import Score, plant

WANTED = 0.95


def commits_of(repository: Path, most: int) -> list[str]:
    """The newest commits with one parent, the newest first."""
    words = ("git", "rev-list", "--min-parents=1", "--max-parents=1", f"--max-count={most}", "HEAD")
    return subprocess.run(words, cwd=repository, check=True, capture_output=True, text=True).stdout.split()


def main() -> int:
    """Print the figures of each repository; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=4, metavar="N", help="findings planted in a commit (4)")
    parser.add_argument("--commits", type=int, default=500, metavar="N", help="newest commits of each (500)")
    options = parser.parse_args()
    is_good = True
    for repository in options.repositories:
        score, requests = Score(), Counter[int]()
        for number, commit in enumerate(commits_of(repository, options.commits)):
            change = asyncio.run(change_from_git(Wanted(kind="commits", name=commit), repository))
            requests[len(planned(change.files).chunks)] += 1
            plant(repository, commit, score, seed=number, most=options.most)
        asked = requests.total() - requests[0]
        share = requests[1] / max(1, asked)
        is_good = is_good and share >= WANTED and not score.wrong
        print(f"{repository.name}: one request for {requests[1]} of {asked} commits ({share:.1%})")
        print(f"  {score.planted.total()} findings planted, {len(score.wrong)} not on their line")
        print("".join(f"  {each}\n" for each in score.wrong[:20]), end="")
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
