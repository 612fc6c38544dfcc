"""`--facts FILE`: the tool `remember` writes that file, so what forbids writing forbids it."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.extensions.memory.fact_file import FactFile
from tests.e2e.conftest import Codelet
from tests.support.script import Call, Reply

REFUSED = 6
REMEMBER = Call("c1", "remember", {"fact": "the port is 8443", "key": "port"})


def kept(path: Path) -> list[str]:
    file = FactFile(path)
    found = [stored.fact.text for stored in file.newest(9)]
    file.close()
    return found


@pytest.fixture(params=["inside", "outside"])
def path(request: pytest.FixtureRequest, codelet: Codelet, tmp_path: Path) -> Path:
    return (codelet.cwd if request.param == "inside" else tmp_path) / "team.facts"


@pytest.mark.parametrize(
    "flags",
    [
        ["--mode", "read-only"],
        ["--mode", "read-only", "--allow", "remember"],
        ["--plan"],
        ["--deny", "remember"],
        ["--ask", "remember"],
    ],
)
def test_what_forbids_writing_forbids_remembering(codelet: Codelet, path: Path, flags: list[str]) -> None:
    codelet.server.script = [Reply(calls=[REMEMBER]), Reply("done")]
    done = codelet("-p", "go", "--facts", str(path), *flags)
    assert done.exit == REFUSED, done.err
    assert kept(path) == []


def test_the_option_is_the_users_yes(codelet: Codelet, path: Path) -> None:
    codelet.server.script = [Reply(calls=[REMEMBER]), Reply("done")]
    done = codelet("-p", "go", "--facts", str(path))
    assert done.exit == 0, done.err
    assert kept(path) == ["the port is 8443"]


def test_without_a_file_nothing_is_written_so_nothing_forbids_it(codelet: Codelet, path: Path) -> None:
    codelet.server.script = [Reply(calls=[REMEMBER]), Reply("done")]
    done = codelet("-p", "go", "--memory", str(codelet.cwd), "--mode", "read-only")
    assert done.exit == 0, done.err


def test_no_other_tool_writes_the_file(codelet: Codelet) -> None:
    write = Call("c1", "write", {"path": "team.facts", "content": "x"})
    codelet.server.script = [Reply(calls=[Call("c0", "remember", REMEMBER.arguments), write]), Reply("done")]
    done = codelet("-p", "go", "--facts", "team.facts", "--yes")
    assert done.exit == REFUSED, done.err
    assert kept(codelet.cwd / "team.facts") == ["the port is 8443"]
