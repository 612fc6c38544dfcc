"""Any text at all: the parser, the classifier and the cleaner neither fail nor take long."""

from __future__ import annotations

import random
import time
from pathlib import Path

from codelet.safety import Policy
from codelet.safety.verdict import Touch
from codelet.system.text import Cleaner, clean
from tests.safety.shell.generator import Generator

ROOT = Path(__file__).resolve().parent.parent.parent
SLOWEST = 0.25
"""Seconds of processor time for one text."""

SIGNS = [
    *"|&;<>()$`\\\"'*?[]#~=%!{}+-@^:,. \t\n\r\x1b\x07\x9b\x9d\u202e\u200d\ufe0f\U0001f469\0\ud800aé中0",
    "\x1b[31m", "\x1b]0;t\x07", "::error::", "##vso[x]", "\r\n", "$(", "<<EOF\n", "{a,b}", "cat ", "git log ", "'",
]  # fmt: skip


def random_text(chance: random.Random, generator: Generator) -> str:
    """Signs, or a command with signs put into it, at times many times over."""
    kind = chance.random()
    if kind < 0.4:
        return "".join(chance.choices(SIGNS, k=chance.randint(0, 60)))
    text = generator.command()
    for _ in range(chance.randint(0, 4)):
        at = chance.randint(0, len(text))
        text = text[:at] + chance.choice(SIGNS) + text[at + chance.randint(0, 2) :]
    return text if kind < 0.97 else text * chance.randint(2, 200)


def run(count: int, seed: int) -> int:
    """Feed `count` random texts; gives the number of failures."""
    chance, generator = random.Random(seed), Generator(seed)
    policy = Policy(ROOT, "read-only")
    failures = 0
    for _ in range(count):
        text, pieces, end = random_text(chance, generator), [], 0
        while end < len(text):
            start, end = end, end + chance.randint(1, 12)
            pieces.append(text[start:end])
        try:
            # A busy machine is at times half as fast: only a text that is slow each time counts.
            is_slow = all(_seconds(policy, text, pieces) > SLOWEST for _ in range(3))
            assert not is_slow or len(text) > 5_000, "it took too long"
        except (AssertionError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError) as error:
            failures += 1
            print(f"FAIL {text!r}: {type(error).__name__}: {error}", flush=True)
    print(f"text (seed {seed}): {count} texts judged and cleaned; {failures} failed")
    return failures


def _seconds(policy: Policy, text: str, pieces: list[str]) -> float:
    """Judge and clean a text; the processor time that it took. Raises AssertionError for a wrong result."""
    start = time.process_time()
    verdict = policy.judge("bash", [Touch("run", text)])
    policy.judge("bash", [Touch("run", text)], sandboxed=False)
    for ci in (False, True):
        cleaner = Cleaner(ci=ci)
        parts = "".join(map(cleaner.feed, pieces)) + cleaner.flush()
        whole = Cleaner(ci=ci)
        assert parts == whole.feed(text) + whole.flush(), "the cuts between chunks changed the result"
    assert clean(clean(text)) == clean(text), "cleaning twice changed the result"
    assert verdict.action in ("allow", "ask", "deny")
    return time.process_time() - start
