"""Short names for models: codelet's own, and those of the user's settings, which come first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

SHORT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "sonnet": "anthropic/claude-sonnet-5-5",
        "opus": "anthropic/claude-opus-5-5",
        "haiku": "anthropic/claude-haiku-5-5",
        "gpt": "openai/gpt-6.2-sol",
        "codex": "openai/gpt-6.2-sol",
        "flash": "gemini/gemini-3.8-flash",
        "gemini-pro": "gemini/gemini-4-argon",
        "deepseek": "deepseek/deepseek-v4-pro",
        "grok": "xai/grok-4.7",
        "devstral": "mistral/devstral-latest",
        "kimi": "moonshot/kimi-k3.1-pro",
    }
)
"""Each short name with the model that it stands for."""

_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}")


def full_name(name: str, own: Mapping[str, str], api_base: str | None = None) -> str:
    """The model's name for one that may be short.

    With an `api_base` codelet's own short names count for nothing: a server's models may have any name.
    """
    meant = own.get(name, name)
    return meant if api_base is not None else SHORT_NAMES.get(meant, meant)


def aliases_from(table: object) -> dict[str, str]:
    """The short names in the table `aliases` of a settings file; raises ValueError that begins with the place."""
    if not isinstance(table, dict):
        raise ValueError("aliases must be a table")
    for name, model in table.items():
        if not _SHORT.fullmatch(name):
            raise ValueError(f"aliases.{name}: a short name is made of letters, digits, '.', '_' and '-'")
        if not isinstance(model, str) or not model.strip():
            raise ValueError(f"aliases.{name} must be the name of a model")
    return dict(table)
