"""`codelet doctor`: what codelet finds on this machine, what is wrong with it, and what to do."""

from __future__ import annotations

import asyncio

from codelet.errors import EXIT_DONE, EXIT_USAGE
from codelet.frontends.commands.doctor import machine_checks, model_checks, package_checks
from codelet.frontends.commands.doctor.check_result import CheckResult, print_json, print_lines
from codelet.settings import Settings, current_folder


async def run_doctor(settings: Settings, *, json: bool) -> int:
    """Print the results as lines or as one JSON object; return the exit status, which is not 0 if a check failed."""
    results = await examine(settings)
    status = EXIT_USAGE if any(result.state == "fail" for result in results) else EXIT_DONE
    if json:
        print_json(results, status)
    else:
        print_lines(results)
    return status


async def examine(settings: Settings) -> list[CheckResult]:
    """Run all checks; those that wait for something run at the same time."""
    folder = current_folder()
    model, servers, git, ripgrep, sandbox = await asyncio.gather(
        model_checks.model(settings),
        model_checks.servers(),
        machine_checks.git(folder),
        machine_checks.ripgrep(folder),
        machine_checks.sandbox(folder),
    )
    return [
        machine_checks.python(),
        machine_checks.itself(),
        model,
        model_checks.keys(),
        servers,
        model_checks.settings_files(settings),
        model_checks.proxies(),
        model_checks.certificates(),
        git,
        ripgrep,
        sandbox,
        machine_checks.terminal(),
        package_checks.litellm(),
        package_checks.tiktoken(),
        await asyncio.to_thread(package_checks.fact_search, settings),
    ]
