"""A repository of fifty thousand files, 3,000 of them changed: the status stays short and the start quick.

In the gate it has ten thousand.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import Codelet
from tests.support import repo as repositories
from tests.support.amount import amount
from tests.support.script import Call, Reply
from tests.support.waiting import Work


@pytest.mark.needs("git")
@pytest.mark.timeout(240)
@pytest.mark.long
def test_many_files(codelet: Codelet, tmp_path: Path):
    count = amount(10_000, 50_000)
    last = f"f{count - 1:05}"
    folder = repositories.many_files(tmp_path / "many", count, changed=3_000)
    calls = [Call("g", "grep", {"pattern": f"{count - 1}"}), Call("f", "find", {"pattern": f"**/{last[:-1]}*.txt"})]
    codelet.server.script = [Reply(calls=calls), Reply("found")]
    with Work() as work:
        done = codelet("-p", "where?", cwd=folder, timeout=60, measure=True, env={"GIT_OPTIONAL_LOCKS": None})
    assert (done.exit, done.out) == (0, "found\n"), done.err
    first, second = (request.json["messages"] for request in codelet.server.requests)
    status = next(message["content"] for message in first if "type:gitStatus" in str(message["content"]))
    assert "main" in status
    assert re.search(r"and [\d,]+\+? more", status)
    assert len(status) < 4_000
    assert f"{last}.txt" in json.dumps(second)
    assert work.seconds < 20
    assert done.peak_kib < 60_000
