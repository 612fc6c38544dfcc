"""From settings to a session: what is handed on by its name, what turns an extension on."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.api import settings_from
from codelet.loop.meter import Limits
from codelet.opening import session_from
from codelet.settings import SETTINGS

MODEL = {"model": "openai/m", "api_base": "http://127.0.0.1:9/v1"}


async def test_each_limit_is_the_setting_of_its_name(tmp_path: Path) -> None:
    assert set(Limits.fields) <= SETTINGS.keys()
    given = {"max_turns": 3, "max_tokens": 4, "max_cost": 0.5, "timeout": 6.0}
    session = await session_from(settings_from({**MODEL, **given}), tmp_path)
    assert session.meter.limits == Limits(max_turns=3, max_tokens=4, max_cost=0.5, timeout=6.0)
    await session.close()


@pytest.mark.parametrize("narrative", ["auto", "on", "off"])
async def test_a_setting_turns_an_extension_on(tmp_path: Path, narrative: str) -> None:
    session = await session_from(settings_from({**MODEL, "narrative": narrative}), tmp_path)
    assert [each.label for each in session.extensions].count("Narrator") == (narrative != "off")
    await session.close()
