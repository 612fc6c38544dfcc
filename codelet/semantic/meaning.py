"""Texts found by meaning: the mean of the vectors of a text's tokens, compared with those of facts, or of passages.

The table of vectors and its tokenizer are read from the package wordllama, or from a file of the user's. They are data:
none of that package's code is imported (it sets up logging and looks in caches), and nothing is fetched. What was
worked out stays in memory. It needs numpy, safetensors and tokenizers too: the extra `codelet-repl[semantic]`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelet.errors import CodeletError, UsageError
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.extensions.services import TextSource

Array = Any
"""An array of numpy, which is imported once it is needed."""
MOST_BY_MEANING = 4
"""Texts that are added to those found by words."""
LEAST_ALIKE = 0.22
"""The cosine from which one text has to do with another: with wordllama's table two unrelated sentences stay below."""

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_LONGEST_ASKED = 2_000
_LONGEST_TEXT = 500
"""Characters of a text that are looked at: of a longer one in a file that others write, its beginning."""
_LARGEST_FILE = 1 << 30


class ModelFiles(Record, kw_only=True):
    """A file in the format safetensors with one table, a row for each token, and the tokenizer that numbers these."""

    weights: Path
    tokenizer: Path


def model_files(own: Path | None) -> ModelFiles | None:
    """The user's own model, else the one in the package; None if that is not installed.

    Raises UsageError if the user's is not there.
    """
    if own is not None:
        found = ModelFiles(weights=own, tokenizer=own.with_name("tokenizer.json"))
        if not own.is_absolute():
            raise UsageError(f"facts_model: {own}: must be an absolute path, or begin with ~")
        for path in (found.weights, found.tokenizer):
            if not path.is_file():
                raise UsageError(f"facts_model: {path}: is no file")
        return found
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0])
    return ModelFiles(weights=folder / _WEIGHTS, tokenizer=folder / _TOKENIZER)


class Model:
    """Gives texts their vectors. Raises CodeletError, in a line, where the files or the packages cannot be used."""

    def __init__(self, files: ModelFiles) -> None:
        try:
            self._numpy: Any = import_module("numpy")
            if files.weights.stat().st_size > _LARGEST_FILE:
                raise ValueError(f"is larger than {_LARGEST_FILE >> 20} MiB")
            self._table = self._read(files.weights)
            self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(files.tokenizer))
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
        except Exception as error:  # these packages raise what they like, bare Exceptions too
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise CodeletError(f"{files.weights}: nothing can be found by meaning: {why}") from error

    def vectors(self, texts: Sequence[str]) -> Array:
        """A row of length 1 for each text; zeros for a text without a known token."""
        numpy, table = self._numpy, self._table
        found = numpy.zeros((len(texts), table.shape[1]), dtype=numpy.float32)
        for place, each in enumerate(texts):
            # One by one: a batch takes threads, after which tokenizers warns on stderr at each fork.
            tokens = [
                token for token in self._tokenizer.encode(each, add_special_tokens=False).ids if token < len(table)
            ]
            if tokens:
                found[place] = table[tokens].mean(axis=0, dtype=numpy.float32)
        lengths = numpy.linalg.norm(found, axis=1, keepdims=True)
        return found / numpy.where(lengths > 0, lengths, 1)

    def _read(self, path: Path) -> Array:
        with import_module("safetensors").safe_open(str(path), framework="numpy") as opened:
            names = list(opened.keys())
            if len(names) != 1:
                raise ValueError(f"holds {len(names)} tables, not one")
            table = opened.get_tensor(names[0])
        if table.ndim != 2 or table.dtype.kind != "f" or not table.size or not self._numpy.isfinite(table).all():
            raise ValueError("holds no table of numbers with a row for each token")
        return table


def open_search(texts: TextSource, model: Path | None) -> Nearest | None:
    """Return what finds the nearest texts, with the user's model or the one installed; None without. Raises
    UsageError.
    """
    files = model_files(model)
    return None if files is None else Nearest(texts, files)


class Nearest:
    """Finds the texts that are nearest to another, for any thread.

    The model is read when something is looked for the first time; `broken` is why it cannot be, and then nothing is
    found. A text's vector is worked out once, and again only where the text has changed.
    """

    def __init__(self, source: TextSource, files: ModelFiles) -> None:
        self._source = source
        self._files = files
        self._lock = threading.Lock()
        self._model: Model | None = None
        self._version: Hashable = None
        self._texts: dict[int, str] = {}
        self._numbers: list[int] = []
        self._vectors: Array = None
        self.broken = ""

    def find(self, text: str, known: Collection[int], least: float | None = None) -> list[int]:
        """At most MOST_BY_MEANING numbers of texts that are not among the known ones, the nearest first."""
        with self._lock:
            try:
                if self.broken or not self._renew(len(known)):
                    return []
            except CodeletError as error:
                self.broken = str(error)
                return []
            assert self._model is not None
            asked = text[:_LONGEST_ASKED].encode("utf-8", "replace").decode()  # half a character is no text to them
            alike = self._vectors @ self._model.vectors([asked])[0]
            bound = LEAST_ALIKE if least is None else least
            ranked = (place for place in (-alike).argsort(kind="stable").tolist() if alike[place] >= bound)
            return [n for place in ranked if (n := self._numbers[place]) not in known][:MOST_BY_MEANING]

    def _renew(self, known: int) -> bool:
        """Give vectors to the texts that are new, or say something else under their number, and drop those gone.

        Return whether there are more texts than are known.
        """
        changed = self._source.version()
        if changed != self._version:
            texts = {number: text[:_LONGEST_TEXT] for number, text in self._source.statements()}
            if len(texts) <= known:
                return False
            self._model = self._model or Model(self._files)
            places = {number: place for place, number in enumerate(self._numbers)}
            stay = [number for number, text in texts.items() if self._texts.get(number) == text]
            fresh = [number for number, text in texts.items() if self._texts.get(number) != text]
            added = self._model.vectors([texts[number] for number in fresh])
            if stay:
                kept = self._vectors[[places[number] for number in stay]]
                added = import_module("numpy").concatenate([kept, added])
            self._texts, self._numbers, self._vectors, self._version = texts, stay + fresh, added, changed
        return len(self._numbers) > known
