"""`codelet models`: what there is to choose from, with key, window, price, effort, tools and images of each model."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from codelet.errors import EXIT_DONE, UsageError
from codelet.frontends.terminal.show.numbers import tokens
from codelet.providers.choice.known import KnownModel, known_models, local_servers, served_models
from codelet.providers.choice.names import short_names
from codelet.providers.facts import map_source
from codelet.settings import Settings
from codelet.system.text import one_line

_MILLION = 1_000_000
_NAME = 31
_LONGEST_NAME = 120
_HEAD = ("model", "window", "$ in/out", "effort", "tools", "images")


def add_models(models: argparse.ArgumentParser) -> None:
    """Add what `codelet models` takes to its parser."""
    models.add_argument(
        "words", nargs="*", metavar="WORD", help="list only models whose name or vendor has all these words"
    )
    more = "also list models without a key, dated names, and retired ones"
    models.add_argument("--all", action="store_true", help=more)
    models.add_argument("--json", action="store_true", help="print all models as one JSON object")


async def run_models(settings: Settings, options: argparse.Namespace) -> int:
    """Print the models; raises UsageError if no model has the words."""
    servers = await local_servers()
    listed = [*known_models(own=settings.vendors), *served_models(servers)]
    words = [word.lower() for word in options.words]
    found = [model for model in listed if all(word in f"{model.name} {model.vendor.name}".lower() for word in words)]
    if words and not found:
        raise UsageError(
            f"no known model has {' and '.join(options.words)} in its name; codelet models --all lists all"
        )
    short = {**short_names(), **dict(settings.aliases)}
    if options.json:
        print(json.dumps({"source": map_source(), "models": [_as_json(model) for model in found], "aliases": short}))
        return EXIT_DONE
    everything = options.all or bool(words)
    models = [model for model in found if everything or model.default or (model.usable and not model.past)]
    for line in _lines(models, len(found) - len(models), short, shutil.get_terminal_size((80, 24)).columns):
        print(line.encode(sys.stdout.encoding or "utf-8", "replace").decode(sys.stdout.encoding or "utf-8"))
    return EXIT_DONE


def model_row(model: KnownModel) -> tuple[str, ...]:
    """The columns of one model: name, window, price for a million tokens in and out, effort, tools, images."""
    facts, words = model.facts, model.efforts
    effort = "?" if words is None else "-" if not words else words[0] if len(words) == 1 else f"{words[0]}-{words[-1]}"
    return (
        one_line(model.name, _LONGEST_NAME),
        tokens(facts.window) if facts.known else f"~{tokens(facts.window)}",
        model.price,
        effort,
        _said(facts.tools),
        _said(facts.images),
    )


def _lines(models: Sequence[KnownModel], more: int, short: Mapping[str, str], width: int) -> Iterator[str]:
    yield _columns(_HEAD)
    for vendor, group in groupby(models, key=lambda model: model.vendor):
        first, *rest = group
        names = " or ".join(vendor.key_names)
        key = f"{first.key} is set" if first.key else "it answers" if first.server else f"no key; set {names}"
        yield f"{vendor.name}: {key}"
        for model in (first, *rest):
            yield from _fitted(model_row(model))
    yield ""
    notes = [f"{more} more with --all, or with a word of their names: codelet models claude"] if more else []
    notes.append("$ is per million tokens; ~ is a guess, ? is not known")
    notes.append(map_source())
    yield from _wrapped(notes, width, "; ")
    yield from _wrapped([f"{name} = {model}" for name, model in short.items()], width, ", ", "short names: ")


def _wrapped(parts: Iterable[str], width: int, joint: str, lead: str = "") -> list[str]:
    text = lead + joint.join(part.replace(" = ", "\u00a0=\u00a0") for part in parts)
    lines = textwrap.wrap(text, max(20, width), subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    return [line.replace("\u00a0", " ") for line in lines]


def _fitted(row: Sequence[str]) -> Iterator[str]:
    """Yield the row; a name that is too long for its column gets its own line."""
    name = f"  {row[0]}"
    if len(name) > _NAME:
        yield name
        name = ""
    yield _columns((name, *row[1:]))


def _columns(row: Sequence[str]) -> str:
    name, window, price, effort, takes, images = row
    return f"{name:<{_NAME}} {window:>6}  {price:<12} {effort:<13} {takes:<5} {images}".rstrip()


def _said(value: bool | None) -> str:
    return "?" if value is None else "yes" if value else "no"


def _as_json(model: KnownModel) -> dict[str, object]:
    facts, prices = model.facts, model.facts.prices
    fields = ("input", "output", "cache_read", "cache_write", "cache_write_hour")
    per_million = {} if prices is None else {name: getattr(prices, name) for name in fields}
    return {
        "name": model.name,
        "vendor": model.vendor.name,
        "key": model.key,
        "usable": model.usable,
        "default": model.default,
        "window": facts.window,
        "window_guessed": not facts.known,
        "max_output": facts.max_output,
        "price": None
        if prices is None
        else {name: None if each is None else round(each * _MILLION, 6) for name, each in per_million.items()},
        "free": facts.free,
        "effort": None if model.efforts is None else list(model.efforts),
        "tools": facts.tools,
        "images": facts.images,
    }
