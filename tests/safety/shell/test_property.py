"""Commands that run without asking outside a sandbox do no harm; `--full` runs thousands of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.verdict import Touch
from tests.safety.shell.generator import Generator
from tests.safety.shell.runner import Jail
from tests.support.amount import amount

pytestmark = pytest.mark.needs("bwrap", "git", "bash")


@pytest.fixture
def jail(tmp_path: Path) -> Jail:
    probe = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("needs bwrap with the right to make namespaces")
    return Jail(tmp_path)


def test_random_allowed_commands_do_no_harm(jail: Jail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(jail.home))
    policy, generator = Policy(jail.workspace, "read-only"), Generator(7)
    done = 0
    while done < amount(60, 5_000):
        command = generator.command()
        if policy.judge("bash", [Touch("run", command)], sandboxed=False).action == "allow":
            assert jail.run(command) == [], command
            done += 1


def test_the_jail_notices_harm(jail: Jail) -> None:
    harms = ["touch PWN", "cat .env", "./pwn", "cat link_out >/dev/null", "echo x > ../outside/y", "rm -f PWN"]
    for command in harms:
        assert jail.run(command), command
