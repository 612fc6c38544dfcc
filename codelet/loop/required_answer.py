"""The JSON Schema that the final answer has to meet: read once, sent to the model, and checked at the end of the turn.

Nothing is fetched: references must resolve within the schema. jsonschema is imported only if there is a schema.
"""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, NoReturn

from codelet import prompt
from codelet.errors import UsageError
from codelet.messages import JsonSchema
from codelet.system.text.embedded_json import json_values

_LARGEST = 1_000_000
_MOST_PROBLEMS = 5
_LONGEST_PROBLEM = 300
_MOST_SECONDS = 5.0
"""Of processor time: how busy the machine is does not count."""
_FENCED = re.compile(r"^```[a-zA-Z]*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class RequiredAnswer:
    """A schema, and the newest answer that meets it: `text` and `value`, None as long as none does."""

    def __init__(self, schema: Mapping[str, object], source: str) -> None:
        from jsonschema.validators import Draft202012Validator, validator_for
        from jsonschema_specifications import REGISTRY

        self.schema = dict(schema)
        self.text: str | None = None
        self.value: Any = None
        self._source = source
        self._check(kind := validator_for(self.schema, default=Draft202012Validator))
        self._judge = kind(self.schema, registry=REGISTRY)

    @property
    def instruction(self) -> str:
        """The instruction for the model."""
        return prompt.ANSWER_SCHEMA.format(schema=json.dumps(self.schema, ensure_ascii=False))

    def objection(self, answer: str) -> str | None:
        """Return the answer's errors as text for the model; None if it meets the schema, and is kept.

        Raises UsageError if the schema cannot be applied.
        """
        self.text = None
        text = answer.strip().removeprefix("\ufeff").strip()
        if len(blocks := _FENCED.findall(text)) == 1 and not text.startswith(("{", "[", '"')):
            text = blocks[0].strip()
        try:
            values = [(text, json.loads(text, parse_constant=_refuse))]
        except (ValueError, RecursionError) as error:
            values = json_values(answer)
            if not values:
                return "it is not one JSON value" + ("" if getattr(error, "pos", 1) == 0 else f": {error}")
        objections = [(text, value, self._problems(value)) for text, value in values]
        met = [(text, value) for text, value, problems in objections if not problems]
        if len(met) == 1:
            self.text, self.value = met[0]
            return None
        if len(values) > 1:
            return f"it must be one JSON value, not {len(values)} ({len(met)} meet the schema)"
        return "; ".join(objections[0][2])

    def _problems(self, value: object) -> list[str]:
        """Return what a value lacks. Raises UsageError if the schema cannot be applied."""
        from referencing.exceptions import Unresolvable

        try:
            with _bounded():
                return [
                    f"{error.json_path}: {_short(error.message)}"
                    for error in islice(self._judge.iter_errors(value), _MOST_PROBLEMS)
                ]
        except _TooLong:
            late = f"checking an answer took more than {_MOST_SECONDS:g} s of processor time; make its patterns simpler"
            raise UsageError(f"{self._source}: {late}") from None
        except (Unresolvable, re.error, RecursionError) as error:
            raise UsageError(f"{self._source}: it cannot be applied: {_short(error)}") from None

    def _check(self, kind: Any) -> None:
        """Raise UsageError with the place of an error in the schema."""
        from jsonschema.exceptions import SchemaError
        from jsonschema_specifications import REGISTRY
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012

        try:
            kind.check_schema(self.schema, format_checker=kind.FORMAT_CHECKER)
        except SchemaError as error:
            raise UsageError(f"{self._source}: {error.json_path}: {_short(error.message)}") from None
        except RecursionError:
            raise UsageError(f"{self._source}: it is nested too deeply") from None
        resolver = REGISTRY.resolver_with_root(DRAFT202012.create_resource(self.schema))
        for place, reference in _references(self.schema, "$"):
            try:
                resolver.lookup(reference)
            except (Unresolvable, ValueError):
                told = f"{place}: {reference!r} leads to nothing in the schema, and nothing is fetched"
                raise UsageError(f"{self._source}: {told}") from None


class _TooLong(Exception):
    """An answer for which the schema takes too long."""


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise _TooLong in code that takes too long: a pattern can need years for a text of fifty letters.

    Nothing else stops it, since no other task gets a turn. In another thread than the first it has no bound, because
    signals do not reach it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        if running:
            raise _TooLong

    running = True
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_SECONDS)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def required_answer(given: str | JsonSchema) -> RequiredAnswer:
    """The schema of `--json-schema`: the file that holds it, or in Python itself. Raises UsageError with the place."""
    if not isinstance(given, str):
        return RequiredAnswer(given, "json_schema")
    try:
        with open(given, "rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise UsageError(f"{given}: a schema has at most {_LARGEST:,} bytes")
        schema = json.loads(data, parse_constant=_refuse)
    except OSError as error:
        raise UsageError(f"{given}: the schema cannot be read: {error.strerror or error}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{given}:{error.lineno}:{error.colno}: the schema is no JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{given}: the schema is no JSON: {_short(error)}") from None
    if not isinstance(schema, dict):
        raise UsageError(f"{given}: $: a schema is a JSON object, not {type(schema).__name__}")
    return RequiredAnswer(schema, given)


def _references(schema: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield every `$ref` with its place, except below an `$id`, which the validator resolves."""
    if isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from _references(part, f"{place}[{number}]")
    if not isinstance(schema, dict) or (place != "$" and "$id" in schema):
        return
    if isinstance(reference := schema.get("$ref"), str):
        yield f"{place}.$ref", reference
    for name, part in schema.items():
        if name not in ("const", "enum", "default", "examples"):
            yield from _references(part, f"{place}.{name}")


def _short(problem: object) -> str:
    text = " ".join(str(problem).split())
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}…"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
