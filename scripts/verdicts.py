"""Update the policy's verdict on each command in tests/safety/data/verdicts.txt.

Use: python -m scripts.verdicts    (then read the difference: git diff tests/safety/data/verdicts.txt)

To add a row, write `?`, a space and the command below the heading of its family. A duplicate command is dropped.
"""

from __future__ import annotations

from tests.support.verdict_table import TABLE, Row, bench, read_table, table_text


def main() -> None:
    before = read_table(TABLE.read_text(encoding="utf-8"))
    known: dict[str, Row] = {}
    for row in before:
        known.setdefault(row.command, row)
    with bench() as place:
        judged = [place.judged(row) for row in known.values()]
    TABLE.write_text(table_text(judged), encoding="utf-8")
    changed = sum(row != known[row.command] for row in judged)
    print(f"{len(judged)} rows, {len(before) - len(judged)} dropped, {changed} changed")


if __name__ == "__main__":
    main()
