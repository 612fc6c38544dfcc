"""A fact: one statement in one line, where it comes from, and how it is known again; and the facts of one session."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from codelet.record import Record
from codelet.system.text import clean

Origin = Literal["user", "model", "export"]
ORIGINS: tuple[Origin, ...] = ("user", "model", "export")

LONGEST_FACT = 500
LONGEST_KEY = 60
LONGEST_PROMPT = 80
"""The longest fact, key, and excerpt of the prompt, in characters."""

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

    `by` is the author; `turn` and `said` are the turn and the beginning of its prompt; `when` is in Unix seconds, 0 if
    unknown. A value from a handoff is not `confirmed`. `like` is an older statement that may be a duplicate.
    """

    text: str
    key: str = ""
    by: Origin = "user"
    turn: int = 0
    said: str = ""
    when: float = 0.0
    confirmed: bool = True
    like: str = ""

    @property
    def shown(self) -> str:
        return f"[{self.key}] {self.text}" if self.key else self.text


def keyed(text: str) -> tuple[str, str]:
    """Split `[key] statement`; without a key, the key is empty."""
    found = _KEYED.match(text.strip())
    return (plain(found[1], LONGEST_KEY), found[2]) if found else ("", text)


def plain(text: str, most: int) -> str:
    """Return an untrusted text on one line, without control characters, cut to `most`."""
    words = " ".join(clean(text[: 4 * most]).split())
    return words if len(words) <= most else words[: most - 1] + "…"


def normal(text: str) -> str:
    """Return the form of a statement for comparisons, without case, extra spaces, compatibility forms and final
    punctuation.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(" .!;,")


def words_of(text: str) -> frozenset[str]:
    """Return the search words of a text, casefolded: whole words, and the parts of camel case."""
    found: set[str] = set()
    for word in _WORD.findall(text):
        found.add(word.casefold())
        found.update(part.casefold() for part in _PARTS.findall(word))
    return frozenset(word for word in found if len(word) > 1)


def gives_orders(text: str) -> bool:
    """Return whether a statement is worded as an instruction to a model. A guess, only for how it is shown."""
    return _ORDERS.search(text) is not None


MOST_FACTS = 1_000
"""The most facts of a session. An export may have more; then a new fact replaces the oldest."""

Added = Literal["new", "known", "replaced", "full"]


class FactList:
    """`facts` in the order in which they came; another tuple once they have changed."""

    def __init__(self) -> None:
        self.facts: tuple[Fact, ...] = ()

    def add(self, fact: Fact) -> Added:
        """Add a fact. A known fact stays unchanged; a fact of the same key is replaced."""
        same = [each for each in self.facts if normal(each.text) == normal(fact.text) and each.key in ("", fact.key)]
        if same and same[0].key == fact.key and (same[0].confirmed or not fact.confirmed):
            return "known"
        older = [each for each in self.facts if fact.key and normal(each.key) == normal(fact.key)]
        gone = {id(each) for each in (*older, *same)}
        kept = [each for each in self.facts if id(each) not in gone]
        if len(kept) >= max(MOST_FACTS, len(self.facts)):
            oldest = next((each for each in kept if each.by != "user"), kept[0] if fact.by == "user" else None)
            if oldest is None:
                return "full"
            kept.remove(oldest)
        self.facts = (*kept, fact)
        return "replaced" if older else "new"

    def users(self, fact: Fact) -> Fact | None:
        """Return the user's fact that this one, which is not the user's, would replace, or None."""
        text, key = normal(fact.text), normal(fact.key)
        for each in self.facts:
            is_same = normal(each.key) == key if each.key else normal(each.text) == text
            if each.by == "user" and is_same:
                return each
        return None

    def related(self, fact: Fact) -> Fact | None:
        """Return an older fact without a key, or with the same one, that shares most words with this one, or None."""
        words = words_of(fact.text)
        for each in self.facts:
            others = words_of(each.text)
            alike = 5 * len(words & others) >= 3 * len(words | others) > 0
            if alike and each is not fact and each.key in ("", fact.key):
                return each
        return None

    def forget(self, fact: Fact) -> None:
        self.facts = tuple(each for each in self.facts if each is not fact)

    def mark_like(self, fact: Fact, older: Fact) -> None:
        """Note that a fact may say the same as an older one."""
        marked = fact.replace(like=older.shown)
        self.facts = tuple(marked if each is fact else each for each in self.facts)

    def restore(self, texts: Iterable[str], origins: Sequence[Mapping[str, object]] = ()) -> None:
        """Replace all facts by those of an export; `origins` are matched by text."""
        known = {str(origin.get("fact")): origin for origin in origins}
        self.facts = tuple(_restored(text, known.get(text, {})) for text in texts)


def _restored(text: str, origin: Mapping[str, Any]) -> Fact:
    by = origin.get("by")
    return Fact(
        text=text,
        key=plain(str(origin.get("key", "")), LONGEST_KEY),
        by=by if by in ORIGINS else "export",
        turn=int(origin.get("turn", 0)),
        said=plain(str(origin.get("said", "")), LONGEST_PROMPT),
        when=float(origin.get("when", 0)),
        confirmed=origin.get("confirmed") is not False,
        like=plain(str(origin.get("like", "")), LONGEST_FACT),
    )


def newest_in(facts: Sequence[Fact], room: int) -> tuple[Fact, ...]:
    """Return the newest facts that fit into `room` characters, in order."""
    chosen: list[Fact] = []
    for fact in reversed(facts):
        room -= min(len(fact.shown), LONGEST_FACT)
        if room < 0:
            break
        chosen.insert(0, fact)
    return tuple(chosen)


class TextSource(Protocol):
    """The searched texts by number, which can change at any time."""

    def version(self) -> Hashable:
        """Return another value once a text has changed."""

    def statements(self) -> Sequence[tuple[int, str]]:
        """Return the texts by number."""


class TextSearch(Protocol):
    """Finds texts, for any thread. `broken` is why it cannot, and then it finds nothing."""

    broken: str

    def find(self, text: str, known: Collection[int], least: float | None = None) -> list[int]:
        """Return the numbers of a few texts that fit and are not among the known ones, the best first.

        `least` is how much alike they must be, from 0 to 1.
        """


def meaning_search(texts: TextSource, model: Path | None) -> TextSearch | None:
    """Return the search with the user's model, else with the one installed; None without. Raises UsageError."""
    return cast("TextSearch | None", import_module("codelet.semantic.meaning").open_search(texts, model))
