"""Properties that hold for every list and every target."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelet.context.compaction.engine import Compacted, IrreducibleContext, compact
from tests.context.compaction.lists import BROKEN, pairing_faults, reminders, sessions, size
from tests.support.amount import amount

TARGETS = st.one_of(st.integers(60, 600), st.integers(600, 8_000))
# A target at which every prompt has a line, and the characters from its beginning that are in it at least.
_ROOM_FOR_WORDS, _REPRESENTED = 2_000, 40
quick = settings(max_examples=amount(25, 600), deadline=None, suppress_health_check=list(HealthCheck))


def tried(messages: list[dict], target: int) -> Compacted | None:
    try:
        return compact(messages, target)
    except IrreducibleContext as error:
        assert error.floor
        assert sum(error.floor.values()) > target
        return None


@quick
@given(BROKEN, TARGETS)
def test_any_list_becomes_a_valid_one_within_its_target(messages, target):
    if (made := tried(messages, target)) is not None:
        assert pairing_faults(made.messages) == []
        assert size(made.messages) <= target
        assert made.report.after == size(made.messages)
        newest = {kind: [texts[-1]] for kind, texts in reminders(messages).items()}
        assert reminders(made.messages) == newest
        assert compact(made.messages, target).messages == made.messages


@quick
@given(sessions(), TARGETS)
def test_a_session_keeps_its_order_its_prompts_and_its_newest_turns(messages, target):
    before = json.dumps(messages)
    made = tried(messages, target)
    assert json.dumps(messages) == before
    if made is None:
        return
    assert compact(made.messages, target).messages == made.messages
    if target >= _ROOM_FOR_WORDS:
        assert_represented(messages, made)
    if made.report.tier < 3:
        kept = [m for m in made.messages if not str(m.get("content")).startswith("<compacted turns=")]
        rest = iter(messages)
        assert all(any(message == other for other in rest) for message in kept)
        starts = [
            i for i, m in enumerate(messages) if m["role"] == "user" and not m["content"].startswith("<system-rem")
        ]
        last = messages[starts[-2:][0] :]
        assert made.messages[-len(last) :] == last


def assert_represented(messages: list[dict], made: Compacted) -> None:
    """Assert that the beginning of every prompt is there, in order."""
    text = "\n".join(m["content"] for m in made.messages if m["role"] == "user" and isinstance(m["content"], str))
    place = 0
    prompts = (m["content"].strip() for m in messages if m["role"] == "user")
    for prompt in dict.fromkeys(each for each in prompts if not each.startswith("<system-reminder>")):
        head = prompt[:_REPRESENTED].split("\n[t")[0]
        place = text.find(head, place)
        assert place >= 0, head


def test_the_same_bytes_under_any_hash_seed():
    root = Path(__file__).resolve().parents[3]
    program = (
        "import json; from codelet.context.compaction.engine import compact;"
        "from tests.context.compaction.lists import coding_session;"
        "made = compact(coding_session(30), 3000); print(json.dumps([made.messages, repr(made.report)]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "4242")
    }
    assert len(outputs) == 1
