"""Numbers as people type them."""

from __future__ import annotations

import pytest

from codelet.system.text.typed import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("999999999", 999_999_999)])
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", " 7", "+7", "-7", "7.0", "1_000", "٣", "²", "x", "1000000000", "9" * 5_000])
def test_anything_else_is_none(text: str) -> None:
    assert whole_number(text) is None
