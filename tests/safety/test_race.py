"""A path swapped for a link between the check and the open never leads the file tools anywhere else."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from pathlib import Path

import pytest

from codelet.errors import ToolError
from codelet.policy import Policy
from codelet.policy.opener import open_file, open_folder, status_of
from codelet.tools.files import open_regular
from codelet.tools.replace import replace
from tests.safety.conftest import call, toolbox

TRIES = 1_000
_HERE, _EXCHANGE = -100, 2


class Swapper(threading.Thread):
    """Swaps `path` with a link to `target`, at one stroke, until it is stopped."""

    def __init__(self, path: Path, target: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.link = path, path.with_name("link-" + path.name)
        self.link.symlink_to(target)
        self.stopped = threading.Event()
        self.swaps = 0

    def run(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        while not self.stopped.is_set():
            done = library.renameat2(_HERE, bytes(self.path), _HERE, bytes(self.link), _EXCHANGE)
            assert done == 0, os.strerror(ctypes.get_errno())
            self.swaps += 1
            self.stopped.wait(0.0001)


def enough(good: dict[str, int]) -> bool:
    """Whether the race was run for real: calls got through between the swaps."""
    return good["read"] > 50 and good["write"] + good["edit"] > 10


@pytest.mark.parametrize("target", ["outside", "protected"])
async def test_a_thousand_swaps_never_lead_out(tmp_path: Path, target: str) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "app.py").write_text("inside = 0\n")
    away = tmp_path / "outside" if target == "outside" else workspace / ".git"
    away.mkdir()
    (away / "app.py").write_text("secret = 0\n")
    box = toolbox(workspace, Policy(workspace, "auto-edit"))
    swapper = Swapper(workspace / "src", away)
    swapper.start()
    good = {"read": 0, "edit": 0, "write": 0}
    try:
        for number in itertools.count():
            # How often a call fits between two swaps depends on the machine: at least TRIES, and on until enough have.
            if number >= TRIES and (number >= 20 * TRIES or enough(good)):
                break
            status, text = await call(box, "read", path="src/app.py")
            good["read"] += status == "done"
            assert target == "protected" or "secret" not in text  # what is protected may be read
            if number % 2:
                edits = [{"old": "= 0", "new": "= 1"}]
                status, text = await call(box, "edit", path="src/app.py", edits=edits)
                good["edit"] += status == "done"
            else:
                status, text = await call(box, "write", path="src/app.py", content="inside = 0\n")
                good["write"] += status == "done"
            assert (away / "app.py").read_text() == "secret = 0\n"
    finally:
        swapper.stopped.set()
        swapper.join()
    assert [path.name for path in away.iterdir()] == ["app.py"]
    assert swapper.swaps > 100
    assert enough(good), good


def test_what_became_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "b.txt").symlink_to("a.txt")
    place = tmp_path.resolve()
    for path in (place / "link" / "a.txt", place / "real" / "b.txt"):
        with pytest.raises(ToolError, match="link"):
            open_regular(path, "it")
    with pytest.raises(ToolError, match="link"):
        replace(place / "link" / "new.txt", b"x", "it", None)
    assert not (tmp_path / "real" / "new.txt").exists()
    os.close(open_file(place / "real" / "a.txt", os.O_RDONLY))
    assert status_of(place / "real").st_mode
    folder, name = open_folder(place / "real" / "a.txt")
    os.close(folder)
    assert name == "a.txt"


def test_folders_made_for_a_write_that_fails_go_again(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    (place / "file").write_text("x")
    with pytest.raises(ToolError):
        replace(place / "new" / "deep" / ("x" * 300), b"x", "it", None)
    assert sorted(path.name for path in place.iterdir()) == ["file"]
