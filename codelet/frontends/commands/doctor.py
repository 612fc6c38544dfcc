"""`codelet doctor`: what codelet finds on this machine, what is wrong with it, and what to do."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import ssl
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import codelet
from codelet.errors import EXIT_DONE, EXIT_USAGE, CodeletError, UsageError
from codelet.opening import provider_named
from codelet.providers.by_litellm import MALICIOUS
from codelet.providers.catalog import vendors
from codelet.providers.choice.known import choose_model, doubts, local_servers
from codelet.providers.connection import tls_context
from codelet.record import Record
from codelet.safety.sandbox import find_confinement
from codelet.setting_kinds import user_settings_file
from codelet.settings import Settings, current_folder
from codelet.system.git import run_git
from codelet.system.git.objects import head_of
from codelet.system.process import StartError, capture, find_program
from codelet.system.text import one_line

if TYPE_CHECKING:
    from rich.text import Text

_NAME_COLUMNS = 15
_LONGEST = 600
_PROBE_SECONDS = 3.0
_KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY|AWS_ACCESS_KEY_ID|AWS_BEARER_TOKEN_BEDROCK|ANTHROPIC_AUTH_TOKEN")
_PROXIES = ("https_proxy", "http_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PIN = re.compile(r"litellm(?:\[[^\]]*\])?==([^ ;]+)")


class CheckResult(Record):
    """One line: `name` of the check, its state, `detail` of the finding, `advice` for the user.

    `fail` is for a problem that makes codelet unusable or unsafe, `warn` for one that it can do without.
    """

    name: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    advice: str = ""


async def run_doctor(settings: Settings, *, json: bool) -> int:
    """Print the results as lines or as one JSON object; return the exit status, which is not 0 if a check failed."""
    results = await _examine(settings)
    status = EXIT_USAGE if any(result.state == "fail" for result in results) else EXIT_DONE
    if json:
        import json as writer

        checks = [{name: getattr(result, name) for name in CheckResult.fields} for result in results]
        print(writer.dumps({"version": codelet.__version__, "exit": status, "checks": checks}, indent=2))
        return status
    from codelet.frontends.terminal.show.console import OutputConsole

    console = OutputConsole()
    for result in results:
        for row in _rows(result, max(console.width, 40)):
            console.print(row, soft_wrap=True)
    return status


def _rows(result: CheckResult, width: int) -> list[Text]:
    """State ("-" for nothing, if that is fine), name and detail; the advice below it. Long ones continue indented."""
    from rich.text import Text

    from codelet.frontends.terminal.show.console import wrap
    from codelet.frontends.terminal.show.style import BAD, GOOD, WARN

    style = {"ok": GOOD, "warn": WARN, "fail": BAD}[result.state]
    state = "-" if result.state == "ok" and result.detail.startswith("none") else result.state
    margin = 6 + _NAME_COLUMNS
    first, *rest = wrap(Text(one_line(result.detail, _LONGEST)), width - margin)
    head = Text.assemble((f"{state:<6}", style), (f"{result.name:<{_NAME_COLUMNS}}", "bold"), first)
    advice = wrap(Text(one_line(result.advice, _LONGEST), style), width - margin) if result.advice else []
    return [head, *(Text.assemble(" " * margin, row) for row in (*rest, *advice))]


async def _examine(settings: Settings) -> Sequence[CheckResult]:
    """Run all checks; those that wait for something run at the same time."""
    folder = current_folder()
    model, servers, git, ripgrep, sandbox = await asyncio.gather(
        _model(settings), _servers(), git_found(folder), _ripgrep(folder), _sandbox(folder)
    )
    settings_file = _settings_files(settings)
    return (
        *(_python(), CheckResult("codelet", "ok", f"{codelet.__version__} ({Path(codelet.__file__).parent})")),
        *(model, _keys(), servers, settings_file, _proxies(), _certificates()),
        *(git, ripgrep, sandbox, _terminal(), _litellm()),
    )


def _python() -> CheckResult:
    detail = f"{sys.version.split()[0]} ({sys.executable})"
    entries = os.environ.get("PYTHONPATH", "")
    if entries and not all(entry.startswith("/") for entry in entries.split(os.pathsep)):
        detail = f"{detail}; PYTHONPATH has a relative entry: Python runs the code there"
        return CheckResult("Python", "warn", detail, "make the entries of PYTHONPATH absolute")
    return CheckResult("Python", "ok", detail)


async def _model(settings: Settings) -> CheckResult:
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
        advice = "it takes no tools there; name another with --model, or use --tools ''"
        return CheckResult("model", "warn", detail, advice)
    if not provider.local and (doubt := doubts(provider.model, local=False, window=settings.window)) is not None:
        return CheckResult("model", "warn", detail, doubt)
    return CheckResult("model", "ok", detail)


def _reason(settings: Settings, name: str) -> str:
    if settings.model is not None:
        named = os.environ.get("CODELET_MODEL") == settings.model
        return "named by CODELET_MODEL" if named else "named by a flag or a settings file"
    for vendor in (*vendors(), *settings.vendors):
        if vendor.default_model == name and (key := next(filter(os.environ.get, vendor.key_names), None)):
            return f"because {key} is set"
    return "because a local server offers it"


def _keys() -> CheckResult:
    """The names of the keys that are set; never a value."""
    found = sorted(name for name, value in os.environ.items() if value.strip() and _KEY_NAME.fullmatch(name))
    broken = [name for name in found if any(character.isspace() for character in os.environ[name])]
    if broken:
        advice = f"set {', '.join(broken)} again: there is white space in it"
        return CheckResult("keys", "warn", ", ".join(found), advice)
    return CheckResult("keys", "ok", ", ".join(found) or "none in the environment")


async def _servers() -> CheckResult:
    """The servers for models on this machine."""
    found = await local_servers()
    if not found:
        names = ", ".join(vendor.name for vendor in vendors() if vendor.local)
        return CheckResult("local servers", "ok", f"none (looked for {names})")
    counted = (f"{vendor.name} ({len(names) or 'no'} model{'s' if len(names) > 1 else ''})" for vendor, names in found)
    return CheckResult("local servers", "ok", ", ".join(counted))


def _settings_files(settings: Settings) -> CheckResult:
    """The settings files that were read, or where one would be."""
    place = user_settings_file()
    none = f"no file ({place} would be read)" if place else "no file, and no home for one"
    return CheckResult("settings", "ok", ", ".join(map(str, settings.files)) or none)


def _proxies() -> CheckResult:
    """The proxies in the environment, without the passwords in their addresses."""
    found: list[str] = []
    bad: list[str] = []
    for name in (*_PROXIES, *map(str.upper, _PROXIES)):
        value = os.environ.get(name, "")
        if value and name.lower() != "no_proxy":
            address = urlsplit(value if "//" in value else f"http://{value}")
            value = f"{address.scheme}://{address.netloc.rpartition('@')[2]}"
            if address.scheme not in ("http", "https") or not address.hostname:
                bad.append(name)
        if value:
            found.append(f"{name}={value}")
    if bad:
        return CheckResult("proxies", "fail", ", ".join(found), f"set {', '.join(bad)} to an http or https address")
    return CheckResult("proxies", "ok", ", ".join(found) or "none")


def _certificates() -> CheckResult:
    """Return whether the certificates that servers are checked against can be loaded, and where they come from."""
    named = {name: os.environ[name] for name in _CERTIFICATES if os.environ.get(name)}
    detail = ", ".join(f"{name}={place}" for name, place in named.items())
    if gone := [name for name, place in named.items() if not Path(place).exists()]:
        return CheckResult("certificates", "fail", f"{detail}: no such file", f"correct or unset {', '.join(gone)}")
    try:
        tls_context()
    except (UsageError, OSError, ImportError) as error:
        return CheckResult("certificates", "fail", f"cannot be loaded: {error}", "set SSL_CERT_FILE to a file of them")
    paths = ssl.get_default_verify_paths()
    return CheckResult("certificates", "ok", detail or paths.cafile or paths.capath or "the certifi package")


async def git_found(folder: Path) -> CheckResult:
    """The version of git, and the repository around `folder`."""
    found = await run_git(folder, "version", timeout=_PROBE_SECONDS)
    if found is None and find_program("git", folder) is not None:
        detail = "the repository's configuration leads to other files, or cannot be read: git is not asked here"
        return CheckResult("git", "warn", detail, "look at .git and .git/config")
    if found is None:
        advice = "install git: without it the model does not see what changed"
        inside = shutil.which("git")
        return CheckResult(
            "git", "warn", f"not run: {inside} is inside the workspace" if inside else "not found", advice
        )
    number = found.stdout.decode("utf-8", "replace").strip().removeprefix("git version ")
    top = await run_git(folder, "rev-parse", "--show-toplevel", timeout=_PROBE_SECONDS)
    if top is not None and (trouble := top.broken_off or top.foreign_owner):
        return CheckResult("git", "warn", f"{number}; {trouble}")
    if top is None or top.exit_code != 0:
        return CheckResult("git", "ok", f"{number}; this folder is in no repository")
    branch = await asyncio.to_thread(head_of, folder, _PROBE_SECONDS) or "no branch"
    return CheckResult("git", "ok", f"{number}; repository {top.stdout.decode('utf-8', 'replace').strip()}, {branch}")


async def _ripgrep(folder: Path) -> CheckResult:
    """The program that makes searches fast."""
    program = find_program("rg", folder)
    if program is None:
        return CheckResult("ripgrep", "warn", "not found: searching is slower", "install ripgrep (rg)")
    line = await _first_line([program, "--version"], folder)
    if line is None:
        return CheckResult("ripgrep", "warn", f"{program} does not run", "reinstall ripgrep (rg)")
    return CheckResult("ripgrep", "ok", f"{line.removeprefix('ripgrep ').partition(' (')[0]} ({program})")


async def _sandbox(folder: Path) -> CheckResult:
    """Return what confines commands here: many containers and some kernels forbid the best way."""
    found = await find_confinement(folder)
    install = "" if find_program("bwrap", folder) or sys.platform == "darwin" else "install bubblewrap (Linux)"
    allow = install or "allow unprivileged user namespaces"
    if found.way is None:
        detail = f"none: few commands run without asking, and those that you allow are not confined: {found.detail}"
        return CheckResult("sandbox", "warn", detail, allow)
    if found.way == "landlock":
        return CheckResult("sandbox", "warn", f"Landlock, the second best: {found.detail}", allow)
    line = None if found.program is None else await _first_line([str(found.program), "--version"], folder)
    return CheckResult("sandbox", "ok", f"{line or found.way} works")


async def _first_line(argv: list[str], folder: Path) -> str | None:
    try:
        done = await capture(argv, cwd=folder, timeout=_PROBE_SECONDS)
    except StartError:
        return None
    if done.exit_code != 0 or done.timed_out:
        return None
    return done.stdout.decode("utf-8", "replace").partition("\n")[0].strip()


def _terminal() -> CheckResult:
    """The size, or what is there in a terminal's place."""
    if not sys.stdout.isatty():
        return CheckResult("terminal", "ok", "stdout is no terminal: plain text, no colours")
    size, name = os.get_terminal_size(sys.stdout.fileno()), os.environ.get("TERM", "")
    encoding = (sys.stdout.encoding or "ascii").lower()
    detail = f"{size.columns} x {size.lines}, TERM={name or 'not set'}, {encoding}"
    if name in ("", "dumb"):
        advice = "set TERM to what your terminal is, such as xterm-256color"
        return CheckResult("terminal", "warn", f"{detail}: nothing can be drawn in place", advice)
    if encoding.replace("-", "") != "utf8":
        return CheckResult("terminal", "warn", detail, "set LANG to a UTF-8 locale")
    if size.columns < 60:
        return CheckResult("terminal", "warn", detail, "60 columns or more read better")
    return CheckResult("terminal", "ok", detail)


def _litellm() -> CheckResult:
    """The version of litellm by its metadata: some releases steal keys, and one is tested."""
    try:
        installed = version("litellm")
    except PackageNotFoundError:
        advice = "only OpenAI's and Anthropic's protocols work; install codelet's requirements for the rest"
        return CheckResult("litellm", "warn", "not installed", advice)
    if installed in MALICIOUS:
        advice = "remove it now, then replace every key that this account could read"
        return CheckResult("litellm", "fail", f"{installed} is a malicious release", advice)
    try:
        pins = [found[1] for line in requires("codelet-repl") or () if (found := _PIN.match(line))]
    except PackageNotFoundError:
        pins = []
    if pins and installed != pins[0]:
        return CheckResult("litellm", "warn", f"{installed}, tested with {pins[0]}", f"install litellm=={pins[0]}")
    return CheckResult("litellm", "ok", installed)
