"""The estimate: its numbers, its calibration, and that a step costs what its new messages cost."""

from __future__ import annotations

import threading
import time

import pytest

from codelet.tokens import exact
from codelet.tokens.estimate import Estimator, Meter, characters, estimate_message, estimate_text


def test_a_quarter_of_the_characters_and_four_more():
    assert estimate_text("12345") == 2
    assert estimate_message({"role": "user", "content": "12345678"}) == 6
    assert estimate_message({"role": "user", "content": None}) == 4
    assert estimate_message({"role": "user", "content": [{"type": "text", "text": "1234"}]}) == 5
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    assert characters({"role": "assistant", "content": "", "tool_calls": [call]}) > len("c1functionread{}")
    assert characters({"role": "tool", "tool_call_id": "c1", "content": "ok"}) == 4


def test_calibration_follows_the_provider_within_bounds():
    estimator = Estimator()
    for _ in range(40):
        estimator.calibrate(1_000, 1_400)
    assert 1_390 <= estimator.factor <= 1_400
    for _ in range(40):
        estimator.calibrate(1_000, 90_000)
    assert estimator.factor == pytest.approx(2_000, abs=3)
    for _ in range(60):
        estimator.calibrate(1_000, 1)
    assert estimator.factor == pytest.approx(700, abs=3)
    before = estimator.factor
    estimator.calibrate(10, 5_000)
    estimator.calibrate(1_000, 0)
    assert estimator.factor == before


def test_a_meter_takes_the_report_and_adds_what_came_since():
    meter = Meter(Estimator(), fixed=1_000)
    meter.add({"role": "user", "content": "x" * 4_000})
    assert meter.total == 2_004
    meter.report(2_004)
    meter.add({"role": "assistant", "content": "y" * 400})
    assert meter.total == 2_004 + 104
    meter.restart([{"role": "user", "content": "z" * 400}])
    assert meter.total == 1_104


def test_a_step_costs_the_same_on_a_long_list():
    def step_seconds(length: int) -> float:
        meter = Meter(Estimator())
        meter.restart({"role": "user", "content": "some words " * 20} for _ in range(length))
        found = []
        for _ in range(200):
            begun = time.perf_counter()
            meter.add({"role": "user", "content": "some words " * 20})
            assert meter.total > 0
            found.append(time.perf_counter() - begun)
        return sorted(found)[20]

    assert step_seconds(10_000) < 5 * step_seconds(100) + 1e-5


def test_exact_counts_come_from_the_bundled_files():
    assert exact.count("hello world") == 2
    assert exact.count("") == 0
    assert exact.count("hello world", "o200k_base") == 2
    assert exact.count("<|endoftext|>") > 1


def test_a_million_blanks_do_not_panic():
    assert exact.count(" " * 1_000_000) > 0


def test_loading_is_safe_from_many_threads():
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(exact.count("a b c"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 8


def test_the_encoding_for_a_model():
    assert exact.encoding_name("openai/gpt-4o-mini") == "o200k_base"
    assert exact.encoding_name("anthropic/claude-sonnet-4") == "cl100k_base"
