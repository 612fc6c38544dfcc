"""The finding: what one check of `codelet doctor` came to."""

from __future__ import annotations

from typing import Literal

from codelet.record import Record

State = Literal["ok", "warn", "fail"]


class Finding(Record):
    """One line: `name` of what was looked at, how it stands, `detail` of what was found, `advice` on what to do.

    `fail` is for what makes codelet unusable or unsafe, `warn` for what it can do without.
    """

    name: str
    state: State
    detail: str
    advice: str = ""
