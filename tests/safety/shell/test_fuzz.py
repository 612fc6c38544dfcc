"""The differential tests of scripts/fuzz with fixed seeds, and any text at all; in the gate with few cases."""

from __future__ import annotations

import random
import subprocess
import time

import pytest

from codelet.safety import Policy
from codelet.safety.verdict import Touch
from codelet.system.text import Cleaner, clean
from scripts.fuzz import shell
from tests.safety.shell.generator import Generator
from tests.support.amount import amount
from tests.support.program import ROOT

SLOWEST = 0.25
"""Seconds of processor time for one text of up to 5,000 characters."""
SIGNS = [
    *"|&;<>()$`\\\"'*?[]#~=%!{}+-@^:,. \t\n\r\x1b\x07\x9b\x9d\u202e\u200d\ufe0f\U0001f469\0\ud800aé中0",
    "\x1b[31m", "\x1b]0;t\x07", "::error::", "##vso[x]", "\r\n", "$(", "<<EOF\n", "{a,b}", "cat ", "git log ", "'",
]  # fmt: skip


@pytest.mark.needs("bash", "bwrap", "git", "sed")
def test_allowed_scripts_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    probe = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("needs bwrap with the right to make namespaces")
    assert shell.run_scripts(amount(150, 10_000), seed=5) == 0, capsys.readouterr().out


def test_no_text_fails_or_takes_long() -> None:
    chance, generator, policy = random.Random(5), Generator(5), Policy(ROOT, "read-only")
    for _ in range(amount(400, 20_000)):
        text = any_text(chance, generator)
        # A busy machine is at times half as fast: only a text that is slow each time counts.
        is_slow = all(seconds_to_judge_and_clean(text, chance, policy) > SLOWEST for _ in range(3))
        assert not is_slow or len(text) > 5_000, text


def any_text(chance: random.Random, generator: Generator) -> str:
    """Signs, or a command with signs put into it, at times many times over."""
    kind = chance.random()
    if kind < 0.4:
        return "".join(chance.choices(SIGNS, k=chance.randint(0, 60)))
    text = generator.command()
    for _ in range(chance.randint(0, 4)):
        at = chance.randint(0, len(text))
        text = text[:at] + chance.choice(SIGNS) + text[at + chance.randint(0, 2) :]
    return text if kind < 0.97 else text * chance.randint(2, 200)


def seconds_to_judge_and_clean(text: str, chance: random.Random, policy: Policy) -> float:
    """The processor time for one text; cleaning comes to the same whole, in pieces, and twice."""
    pieces, end = [], 0
    while end < len(text):
        start, end = end, end + chance.randint(1, 12)
        pieces.append(text[start:end])
    begun = time.process_time()
    assert policy.judge("bash", [Touch("run", text)]).action in ("allow", "ask", "deny"), text
    policy.judge("bash", [Touch("run", text)], sandboxed=False)
    for ci in (False, True):
        parts, whole = Cleaner(ci=ci), Cleaner(ci=ci)
        assert "".join(map(parts.feed, pieces)) + parts.flush() == whole.feed(text) + whole.flush(), text
    assert clean(clean(text)) == clean(text), text
    return time.process_time() - begun


@pytest.mark.needs("bash", "bwrap", "git")
def test_lines_in_the_sandbox_have_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_confined(amount(40, 4_000), seed=5) == 0, capsys.readouterr().out
