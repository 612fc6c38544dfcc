"""The machine in a line of the tail where the user wants it, and `/env`."""

from __future__ import annotations

import os
from pathlib import Path

from codelet.extensions.base import OpenedWith
from codelet.extensions.machine_status import line_of
from codelet.extensions.manifest import turned_on
from codelet.messages import reminder_type
from codelet.prompt import OTHERS_REFUSED, OTHERS_RUN
from codelet.safety import Policy
from codelet.settings import load_settings
from tests.context.scripted import turn
from tests.extensions.conftest import Open


async def test_environment_snapshot_is_told_only_with_the_option_in_one_line(tmp_path: Path, open_session: Open):
    for environment, expected in (("short", []), ("full", ["machine"])):
        settings = load_settings({"environment": environment}, workspace=tmp_path, environment={})
        session, provider = open_session(*turned_on(OpenedWith(settings=settings)))
        await turn(session)
        assert [reminder_type(message) for message in provider.sent[0].tail] == expected
        if expected:
            text = provider.sent[0].tail[0]["content"] or ""
            (line,) = [line for line in text.splitlines() if line.startswith("The machine")]
            assert "memory " in line
            assert "GiB used, disk " in line
            assert f"on {os.cpu_count()} processors" in line
            assert line.count(" MB") <= 3


async def test_environment_snapshot_is_shown_whole_by_env(tmp_path: Path, open_session: Open):
    settings = load_settings({}, workspace=tmp_path, environment={})
    session, provider = open_session(*turned_on(OpenedWith(settings=settings)), bare=False)
    await turn(session)
    shown = await session.run_command("env")
    for expected in (
        f"Working directory: {tmp_path}",
        "Platform: ",
        "Memory: ",
        "Disk: ",
        "Load: ",
        " MB, process ",
    ):
        assert expected in shown
    assert "--environment full" in shown
    await turn(session)
    assert [reminder_type(m) for m in provider.sent[1].tail if reminder_type(m) == "machine"] == []


async def test_env_shows_what_holds_now_not_what_an_earlier_session_was_told(tmp_path: Path, open_session: Open):
    settings = load_settings({}, workspace=tmp_path, environment={})
    approved, _ = open_session(*turned_on(OpenedWith(settings=settings)), bare=False)
    await turn(approved)
    asking, _ = open_session(*turned_on(OpenedWith(settings=settings)), bare=False, policy=Policy(tmp_path))
    asking.adopt(approved.messages)
    shown = await asking.run_command("env")
    assert OTHERS_REFUSED in shown
    assert OTHERS_RUN not in shown


def test_what_is_not_known_is_left_out():
    line = line_of({"memory_used_mb": 2048.0, "memory_total_mb": 4096.0, "battery_percent": 78.0})
    assert ": memory 2.0 of 4.0 GiB used, load " in line
    assert "battery 78 %" in line
    assert "disk" not in line
    assert "processes" not in line.replace("processors", "")
