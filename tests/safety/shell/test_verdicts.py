"""All that the policy's reader says of the commands in the table of verdicts, by family.

`CODELET_WRITE_GOLDEN=1` with `-k written` rewrites the table, for a person to read the difference. To add a row, write
`?`, a space and the command below the heading of its family.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.verdict_table import TABLE, Bench, bench, read_table, table_text

pytestmark = pytest.mark.needs("git")

ROWS = read_table(TABLE.read_text(encoding="utf-8"))
_WRITES_ANEW = "CODELET_WRITE_GOLDEN" in os.environ  # the bench takes all variables away
FAMILIES = tuple(dict.fromkeys(row.family for row in ROWS))


@pytest.fixture(scope="module")
def place() -> Iterator[Bench]:
    with bench() as found:
        yield found


@pytest.mark.parametrize("family", FAMILIES)
def test_the_verdicts_are_those_of_the_table(place: Bench, family: str) -> None:
    rows = [row for row in ROWS if row.family == family]
    judged = [place.judged(row) for row in rows]
    wrong = [f"{now.text}\nand not\n{row.text}" for row, now in zip(rows, judged, strict=True) if now != row]
    assert not wrong, "\n" + "\n\n".join(wrong)


def test_the_table_is_written_as_it_is_read(place: Bench) -> None:
    if _WRITES_ANEW:
        TABLE.write_text(table_text(map(place.judged, ROWS)), encoding="utf-8")
        return
    assert table_text(ROWS) == TABLE.read_text(encoding="utf-8")
    assert len({row.command for row in ROWS}) == len(ROWS) > 1_500
