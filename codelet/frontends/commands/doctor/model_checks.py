"""Checks of the way to a model: model, keys, local servers, settings, proxies, certificates."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from codelet.errors import CodeletError, UsageError
from codelet.frontends.commands.doctor.check_result import CheckResult
from codelet.opening import provider_named
from codelet.providers.catalog import vendors
from codelet.providers.choice.choose import choose_model, local_servers
from codelet.providers.choice.known import doubts
from codelet.providers.connection import tls_context
from codelet.setting_kinds import user_settings_file
from codelet.settings import Settings

_KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY|AWS_ACCESS_KEY_ID|AWS_BEARER_TOKEN_BEDROCK|ANTHROPIC_AUTH_TOKEN")
_PROXIES = ("https_proxy", "http_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


async def model(settings: Settings) -> CheckResult:
    """The model that would answer, why this one, and over which wire."""
    try:
        name = settings.model or await choose_model(own=settings.vendors)
    except UsageError as error:
        return CheckResult("model", "warn", "none", str(error).removeprefix("no model: "))
    try:
        provider = provider_named(name, settings)
    except CodeletError as error:
        return CheckResult("model", "fail", name, str(error))
    detail = f"{name} ({_reason(settings, name)}), answered by {provider.name}"
    reply = await provider.ask() if provider.local else None
    if reply is not None and reply.window is not None:
        detail = f"{detail} with a window of {reply.window:,} tokens"
    if reply is not None and reply.tools is False:
        return CheckResult(
            "model", "warn", detail, "it takes no tools there; name another with --model, or use --tools ''"
        )
    if not provider.local and (doubt := doubts(provider.model, local=False, window=settings.window)) is not None:
        return CheckResult("model", "warn", detail, doubt)
    return CheckResult("model", "ok", detail)


def _reason(settings: Settings, name: str) -> str:
    if settings.model is not None:
        if os.environ.get("CODELET_MODEL") == settings.model:
            return "named by CODELET_MODEL"
        return "named by a flag or a settings file"
    for vendor in (*vendors(), *settings.vendors):
        if vendor.default_model == name:
            found = next((key for key in vendor.key_names if os.environ.get(key)), None)
            if found:
                return f"because {found} is set"
    return "because a local server offers it"


def keys() -> CheckResult:
    """The names of the keys that are set; never a value."""
    found = sorted(name for name, value in os.environ.items() if value.strip() and _KEY_NAME.fullmatch(name))
    if not found:
        return CheckResult("keys", "ok", "none in the environment")
    broken = [name for name in found if any(character.isspace() for character in os.environ[name])]
    if broken:
        advice = f"set {', '.join(broken)} again: there is white space in it"
        return CheckResult("keys", "warn", ", ".join(found), advice)
    return CheckResult("keys", "ok", ", ".join(found))


async def servers() -> CheckResult:
    """The servers for models on this machine."""
    found = await local_servers()
    if not found:
        names = ", ".join(vendor.name for vendor in vendors() if vendor.local)
        return CheckResult("local servers", "ok", f"none (looked for {names})")
    counted = (f"{vendor.name} ({len(names) or 'no'} model{'s' if len(names) > 1 else ''})" for vendor, names in found)
    return CheckResult("local servers", "ok", ", ".join(counted))


def settings_files(settings: Settings) -> CheckResult:
    """The settings files that were read, or where one would be."""
    if settings.files:
        return CheckResult("settings", "ok", ", ".join(map(str, settings.files)))
    place = user_settings_file()
    return CheckResult(
        "settings", "ok", f"no file ({place} would be read)" if place else "no file, and no home for one"
    )


def proxies() -> CheckResult:
    """The proxies in the environment, without the passwords in their addresses."""
    found: list[str] = []
    bad: list[str] = []
    for name in (*_PROXIES, *map(str.upper, _PROXIES)):
        value = os.environ.get(name)
        if not value:
            continue
        if name.lower() == "no_proxy":
            found.append(f"{name}={value}")
            continue
        address = urlsplit(value if "//" in value else f"http://{value}")
        found.append(f"{name}={address.scheme}://{address.netloc.rpartition('@')[2]}")
        if address.scheme not in ("http", "https") or not address.hostname:
            bad.append(name)
    if bad:
        return CheckResult("proxies", "fail", ", ".join(found), f"set {', '.join(bad)} to an http or https address")
    return CheckResult("proxies", "ok", ", ".join(found) or "none")


def certificates() -> CheckResult:
    """Return whether the certificates that servers are checked against can be loaded, and where they come from."""
    named = [name for name in _CERTIFICATES if os.environ.get(name)]
    gone = [name for name in named if not Path(os.environ[name]).exists()]
    if gone:
        detail = ", ".join(f"{name}={os.environ[name]}" for name in gone)
        return CheckResult("certificates", "fail", f"{detail}: no such file", f"correct or unset {', '.join(gone)}")
    try:
        context = tls_context()
    except (UsageError, OSError, ImportError) as error:
        return CheckResult("certificates", "fail", f"cannot be loaded: {error}", "set SSL_CERT_FILE to a file of them")
    count = context.cert_store_stats()["x509_ca"]
    if named:
        return CheckResult("certificates", "ok", ", ".join(f"{name}={os.environ[name]}" for name in named))
    paths = ssl.get_default_verify_paths()
    place = paths.cafile or paths.capath or "the certifi package"
    return CheckResult("certificates", "ok", f"{place}{f' ({count})' if count else ''}")
