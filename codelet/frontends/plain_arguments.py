"""The command line of most runs, `codelet --model NAME`, with -p "PROMPT" or without, read without argparse.

argparse with all flags added takes a twentieth of the time to the first request. Whatever is not plain here, what is
wrong above all, is left to `arguments`; what is read here reads the same there, which tests/test_command_line.py holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from codelet.settings import SETTINGS

if TYPE_CHECKING:
    import argparse

FROM_PIPE = "-"
"""What `--prompt` is where the prompt is what comes through the pipe."""

OUTPUT_FORMATS = ("text", "json", "stream-json")

_SWITCHES = {"-q": "quiet", "--quiet": "quiet", "--trust": "trust", "--debug": "debug"}
_NOTHING_ELSE = {"command": None, "version": False, "bare_prompt": False, "continued": None}

_FLAGGED = {name: setting for name, setting in SETTINGS.items() if setting.group is not None}
_FLAGS = {flag: each for each in _FLAGGED.values() for flag in (each.flag, each.short) if flag is not None}


def read_plain(arguments: Sequence[str]) -> argparse.Namespace | None:
    """What `arguments.parse_command_line` makes of flags with their values, -p with a prompt among them; else None."""
    read: dict[str, Any] = dict.fromkeys((*_FLAGGED, "prompt", "output_format"))
    read |= dict.fromkeys(_SWITCHES.values(), False)
    rest = iter(arguments)
    for word in rest:
        setting = _FLAGS.get(word)
        if word in _SWITCHES:
            read[_SWITCHES[word]] = True
        elif setting is not None and setting.is_switch:
            read[setting.name] = True
        else:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
            if word in ("-p", "--prompt") and read["prompt"] is None:
                read["prompt"] = value
            elif word == "--output-format" and value in OUTPUT_FORMATS:
                read["output_format"] = value
            elif setting is None or setting.may_repeat or setting.alone or value not in (setting.choices or (value,)):
                return None
            else:
                read[setting.name] = value
    return cast("argparse.Namespace", SimpleNamespace(**read, **_NOTHING_ELSE))  # it is one but for its class
