#!/usr/bin/env python3
"""Try the policy with random input.

Use: scripts/fuzz_policy.py run [--count 2000] [--seed N]    run random allowed commands in bubblewrap
     scripts/fuzz_policy.py parse [--minutes 10] [--seed N]  feed the parser, the classifier and the cleaner
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SLOWEST = 0.25


def run_allowed(count: int, seed: int) -> int:
    """Run `count` random allowed commands; gives the number that did what they must not."""
    from codelet.policy import Policy
    from tests.policy.generator import Generator
    from tests.policy.runner import Jail

    generator = Generator(seed)
    made = done = harmful = 0
    programs: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        jail = Jail(Path(folder))
        os.environ["HOME"] = str(jail.home)
        policy = Policy(jail.workspace, "read-only")
        seen: set[str] = set()
        while done < count:
            command = generator.command()
            made += 1
            if command in seen or policy.judge("bash", {"command": command}).action != "allow":
                continue
            seen.add(command)
            done += 1
            programs.update(word for word in command.split() if word.isalnum())
            if wrong := jail.run(policy, command):
                harmful += 1
                print(f"HARM {command!r}: {'; '.join(wrong)}", flush=True)
    print(f"{done} allowed commands of {made} made were run (seed {seed}); {harmful} did harm")
    return harmful


def feed(minutes: float, seed: int) -> int:
    """Feed random text until the time is over; gives the number of failures."""
    from codelet.policy import Policy
    from codelet.text import Cleaner, clean
    from tests.policy.generator import Generator

    source, generator = random.Random(seed), Generator(seed)
    policy = Policy(ROOT, "read-only")
    end = time.monotonic() + 60 * minutes
    rounds = failures = 0
    while time.monotonic() < end:
        text = random_text(source, generator)
        start = time.process_time()
        try:
            verdict = policy.judge("bash", {"command": text})
            policy.prepare(text)
            pieces = cut(source, text)
            for ci in (False, True):
                cleaner = Cleaner(ci=ci)
                parts = "".join(map(cleaner.feed, pieces)) + cleaner.flush()
                whole = Cleaner(ci=ci)
                assert parts == whole.feed(text) + whole.flush(), "the cuts between chunks changed the result"
            assert clean(clean(text)) == clean(text), "cleaning twice changed the result"
            assert verdict.action in ("allow", "ask", "deny")
            assert time.process_time() - start < SLOWEST or len(text) > 5_000, "it took too long"
        except (AssertionError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError) as error:
            failures += 1
            print(f"FAIL {text!r}: {type(error).__name__}: {error}", flush=True)
        rounds += 1
    print(f"{rounds} texts in {minutes:g} minutes (seed {seed}); {failures} failures")
    return failures


SIGNS = list("|&;<>()$`\\\"'*?[]#~=%!{}+-@^:,. \t\n\r\x1b\x07\x9b\x9d\u202e\u200d\ufe0f\U0001f469\0\ud800aé中0")
PIECES = [
    "\x1b[31m",
    "\x1b]0;t\x07",
    "::error::",
    "##vso[x]",
    "\r\n",
    "$(",
    "<<EOF\n",
    "{a,b}",
    "cat ",
    "git log ",
    "'",
]


def random_text(source: random.Random, generator: object) -> str:
    kind = source.random()
    if kind < 0.4:
        return "".join(source.choice(SIGNS + PIECES) for _ in range(source.randint(0, 60)))
    text = generator.command()
    for _ in range(source.randint(0, 4)):
        at = source.randint(0, len(text))
        text = text[:at] + source.choice(SIGNS + PIECES) + text[at + source.randint(0, 2) :]
    return text if kind < 0.97 else text * source.randint(2, 200)


def cut(source: random.Random, text: str) -> list[str]:
    pieces = []
    while text:
        length = source.randint(1, 12)
        pieces.append(text[:length])
        text = text[length:]
    return pieces


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "parse"))
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.what == "run":
        return min(run_allowed(options.count, options.seed), 1)
    return min(feed(options.minutes, options.seed), 1)


if __name__ == "__main__":
    sys.exit(main())
