"""Models and their wires: three native ones, litellm, and recordings.

Request n is a byte prefix of request n + 1 (tests/e2e/test_prefix.py). An answer without its finish marker is an error
(tests/providers/test_conformance.py).
"""

from __future__ import annotations

import re
from typing import Literal

from codelet.errors import UsageError
from codelet.providers.catalog import vendor_of
from codelet.providers.endpoint import endpoint_for, speaks_responses
from codelet.providers.facts import litellm_folder, litellm_knows
from codelet.providers.protocol import Provider, ProviderOptions

Transport = Literal["auto", "native", "litellm"]

REPLAY_PREFIX = "replay:"
_PLAIN = re.compile(r"[A-Za-z0-9._@-]+(?:/[A-Za-z0-9._@-]+)*")
"""Names that cannot be an address in any spelling."""


def open_provider(model: str, options: ProviderOptions, transport: Transport = "auto") -> Provider:
    """Return the provider for a model name in litellm's spelling, or for `replay:FILE`; raises UsageError.

    `auto` prefers a native wire. Nothing is sent yet.
    """
    if model.startswith(REPLAY_PREFIX):
        from codelet.providers.content.replay import open_replay

        return open_replay(model.removeprefix(REPLAY_PREFIX))
    if not _PLAIN.fullmatch(model):
        from codelet.providers.choice.names import check_form  # for unusual names only

        check_form(model)
    vendor = vendor_of(model, options.vendors)
    if transport == "litellm" and vendor in options.vendors:
        raise UsageError(f"{model!r}: litellm does not know the vendors of your settings; use --transport auto")
    endpoint = None
    if transport != "litellm":
        endpoint = endpoint_for(model, options.api_base, options.api_key, own=options.vendors)
    if endpoint is not None and endpoint.vendor.wire == "anthropic":
        from codelet.providers.anthropic_messages import AnthropicProvider

        return AnthropicProvider(model, endpoint, options)
    if endpoint is not None and speaks_responses(model, endpoint):
        from codelet.providers.openai_responses import OpenAIResponsesProvider

        return OpenAIResponsesProvider(model, endpoint, options)
    if endpoint is not None:
        from codelet.providers.openai_chat import OpenAIChatProvider

        return OpenAIChatProvider(model, endpoint, options)
    if transport == "native":
        raise UsageError(f"no native wire for {model!r}; use --transport auto, or give --api-base")
    return _by_litellm(model, options, vendor is not None)


def _by_litellm(model: str, options: ProviderOptions, is_known: bool) -> Provider:
    """Litellm's provider; `is_known`: codelet knows the vendor. Raises UsageError."""
    if litellm_folder() is None:
        raise UsageError(f"{model} is asked through litellm, which is not installed: pip install litellm")
    if options.api_base is None:
        if not (is_known or litellm_knows(model)):
            from codelet.providers.choice.known import near_model  # for mistakes only

            near = near_model(model, options.vendors)
            advice = "name it as provider/model (codelet models --all lists them), or give --api-base"
            raise UsageError(f"unknown model {model!r}; {f'did you mean {near}?' if near else advice}")
        from codelet.providers.choice.names import check_for_litellm  # litellm takes longer to load by far

        check_for_litellm(model)
    from codelet.providers.by_litellm.provider import LiteLLMProvider

    return LiteLLMProvider(model, options)
