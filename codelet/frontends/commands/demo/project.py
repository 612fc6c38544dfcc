"""The demo's project: two files, one of them with a bug, and the test that finds it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from codelet.system.process import child_environment, run_child

_CODE = '''\
"""What a basket of goods costs. All amounts are in cents."""


def subtotal(basket):
    """The sum of price times quantity over (name, price, quantity)."""
    return sum(price * quantity for _, price, quantity in basket)


def total(basket, discount_percent=0):
    """What the customer pays: the subtotal less the discount."""
    amount = subtotal(basket)
    return amount - amount * discount_percent
'''

_TEST = """\
import unittest

from till import subtotal, total

BASKET = [("tea", 350, 2), ("bread", 300, 1)]


class TillTest(unittest.TestCase):
    def test_subtotal(self):
        self.assertEqual(subtotal(BASKET), 1000)

    def test_total_without_discount(self):
        self.assertEqual(total(BASKET), 1000)

    def test_total_with_discount(self):
        self.assertEqual(total(BASKET, discount_percent=10), 900)
"""

_TEST_SECONDS = 60.0


def write_project(folder: Path) -> None:
    """Write the project into an empty folder."""
    (folder / "till.py").write_text(_CODE, encoding="utf-8")
    (folder / "test_till.py").write_text(_TEST, encoding="utf-8")


def test_command() -> str:
    """The command that runs the tests, by this Python and without any other program."""
    return f"{shlex.quote(Path(sys.executable).name)} -m unittest"


def test_environment() -> dict[str, str]:
    """Return the environment for commands: this Python first on the path; no bytecode, which could be older than the
    fix.
    """
    environment = child_environment()
    path = environment.get("PATH", os.defpath)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


async def test_passes(folder: Path) -> bool:
    """Run the project's test once more: whether it really passes now."""
    done = await run_child(
        [sys.executable, "-m", "unittest"],
        cwd=folder,
        environment=test_environment(),
        timeout=_TEST_SECONDS,
        output_limit=10_000,
    )
    return done.exit_code == 0 and not done.timed_out
