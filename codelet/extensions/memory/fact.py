"""A fact: one statement in one line, where it comes from, and how it is known again."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from codelet.record import Record
from codelet.system.text import clean

Origin = Literal["user", "model", "export"]
ORIGINS: tuple[Origin, ...] = ("user", "model", "export")

LONGEST_FACT = 500
LONGEST_KEY = 60
LONGEST_SAID = 80
"""Characters of a fact, of its key, and of the prompt that is kept beside it."""

_KEYED = re.compile(r"\[([^\[\]]{1,60})\]\s*(.*)", re.DOTALL)
_WORD = re.compile(r"[^\W_]+")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:instruction|rule|prompt|polic|previous|above|guard)"
    r"|\b(?:you|assistant|model|agent|ai)\s+(?:must|should|shall|have to|are to|will now|are now)\b"
    r"|\b(?:system|developer)\s*(?:prompt|message|:)|<\s*/?\s*(?:system|assistant|user|tool)"
    r"|^(?:please\s+)?(?:run|execute|call|delete|remove|send|post|upload|download|fetch|install|push|commit|write|reveal"
    r"|print|always|never|do not|don't)\b"
    r"|\b(?:curl|wget)\b.{0,80}\||\brm\s+-\w*[rf]|\bsudo\b|--yes\b|\bapprov(?:e|al)\b.{0,30}\b(?:all|every|without)\b",
    re.IGNORECASE,
)


class Fact(Record, kw_only=True):
    """`text` is one statement, `key` what it is about, if that was named: of one key the newest statement holds.

    `by` says who wrote it; `turn` and `said` are the turn in which that was, and the beginning of its prompt; `when` is
    in Unix seconds, 0 where it is not known.
    """

    text: str
    key: str = ""
    by: Origin = "user"
    turn: int = 0
    said: str = ""
    when: float = 0.0

    @property
    def shown(self) -> str:
        """The statement with its key, as a person types it."""
        return f"[{self.key}] {self.text}" if self.key else self.text


def keyed(text: str) -> tuple[str, str]:
    """The key and the statement of `[key] statement`; the key is empty where there is none."""
    found = _KEYED.match(text.strip())
    return (plain(found[1], LONGEST_KEY), found[2]) if found else ("", text)


def plain(text: str, most: int) -> str:
    """A text from outside on one line, without anything that a terminal obeys or nobody sees, at most so long."""
    words = " ".join(clean(text[: 4 * most]).split())
    return words if len(words) <= most else words[: most - 1] + "…"


def normal(text: str) -> str:
    """The form in which two statements are the same: without differences of case, blanks, forms of letters and the
    signs at the end.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(" .!;,")


def words_of(text: str) -> frozenset[str]:
    """The words by which a text is found: whole, and the parts of names in camel case; without case."""
    found: set[str] = set()
    for word in _WORD.findall(text):
        found.add(word.casefold())
        found.update(part.casefold() for part in _PARTS.findall(word))
    return frozenset(word for word in found if len(word) > 1)


def gives_orders(text: str) -> bool:
    """Whether a statement is worded as an instruction to a model. A guess, only for how it is shown."""
    return _ORDERS.search(text) is not None
