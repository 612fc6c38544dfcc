"""Checks of the installed packages. Metadata and files are enough; only what finds facts by meaning is tried."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from codelet.errors import CodeletError, UsageError
from codelet.extensions.services import search_by_meaning
from codelet.frontends.commands.doctor.check_result import CheckResult
from codelet.providers.by_litellm import MALICIOUS
from codelet.settings import Settings

_DISTRIBUTION = "codelet-repl"
_PIN = re.compile(r"litellm(?:\[[^\]]*\])?==([^ ;]+)")

# tiktoken names a cached file after the SHA-1 of its address.
_ENCODINGS = {
    "fb374d419588a4632f3f557e76b4b70aebbca790": "o200k_base",
    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4": "cl100k_base",
}


def litellm() -> CheckResult:
    """The version of litellm by its metadata: some releases steal keys, and one is tested."""
    try:
        installed = version("litellm")
    except PackageNotFoundError:
        advice = "only OpenAI's and Anthropic's protocols work; install codelet's requirements for the rest"
        return CheckResult("litellm", "warn", "not installed", advice)
    if installed in MALICIOUS:
        advice = "remove it now, then replace every key that this account could read"
        return CheckResult("litellm", "fail", f"{installed} is a malicious release", advice)
    tested = _tested_version()
    if tested is not None and installed != tested:
        return CheckResult("litellm", "warn", f"{installed}, tested with {tested}", f"install litellm=={tested}")
    return CheckResult("litellm", "ok", installed)


def _tested_version() -> str | None:
    try:
        needed = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        return None
    found = (_PIN.match(line) for line in needed)
    return next((match[1] for match in found if match), None)


def tiktoken() -> CheckResult:
    """The files for exact token counts; they come with litellm and are never downloaded."""
    try:
        installed = version("tiktoken")
    except PackageNotFoundError:
        return CheckResult("tiktoken", "warn", "not installed: all token counts are estimates")
    spec = find_spec("litellm")
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    names = {path.name for folder in folders for path in (folder / "litellm_core_utils" / "tokenizers").glob("*")}
    found = [encoding for name, encoding in _ENCODINGS.items() if name in names]
    if not found:
        return CheckResult("tiktoken", "warn", f"{installed}, no files found: all token counts are estimates")
    return CheckResult("tiktoken", "ok", f"{installed}, with files for {' and '.join(found)}")


def fact_search(settings: Settings) -> CheckResult:
    """Return how a file of facts is searched. The model is read once: an installed package may still be broken."""
    try:
        model = search_by_meaning(settings.file_of("facts_model"))
    except UsageError as error:
        return CheckResult(
            "fact search", "warn", f"--facts cannot be used: {error}", "correct facts_model in your settings"
        )
    except CodeletError as error:
        advice = "install codelet-repl[semantic] again"
        if settings.facts_model is not None:
            advice += ", or correct facts_model: a safetensors file with one table, with its tokenizer.json next to it"
        return CheckResult("fact search", "warn", f"by words only: {error}", advice)
    if model is None:
        return CheckResult("fact search", "ok", "by words; by meaning too with codelet-repl[semantic]")
    return CheckResult("fact search", "ok", f"by words, then by meaning ({model})")
