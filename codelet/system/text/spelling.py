"""The known word that was probably meant by an unknown one.

Short so that only a mistake imports it, apart from the rest.
"""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word one slip of the keys away, or two for a long word; of several, one of the same length first.

    A slip is a letter too many, too few or wrong, or two letters that changed places.
    """
    size = len(word.strip("-"))
    if size < 3:
        return None  # next to everything
    allowed = 1 if size < 8 else 2
    ranked = [(edit_distance(word, name), len(name) != len(word), place, name) for place, name in enumerate(known)]
    found = min((rank for rank in ranked if rank[0] <= allowed), default=None)
    return found[3] if found else None


def did_you_mean(word: str, known: Iterable[str], form: str = "{}") -> str:
    """Return the end of an error line that names the known word that was probably meant, else nothing."""
    near = nearest(word, known)
    return f"; did you mean {form.format(near)}?" if near else ""


def edit_distance(one: str, other: str) -> int:
    """Return how many letters to add, drop, change or swap turn one word into the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one):
        earlier, before, row = before, row, [at + 1]
        for place, wanted in enumerate(other):
            cost = min(before[place] + (letter != wanted), before[place + 1] + 1, row[place] + 1)
            if at and place and letter == other[place - 1] and one[at - 1] == wanted:
                cost = min(cost, earlier[place - 1] + 1)
            row.append(cost)
    return row[-1]
