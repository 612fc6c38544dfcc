"""A path swapped for a link between the check and the open never leads the file tools anywhere else."""

from __future__ import annotations

import ctypes
import io
import itertools
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelet.errors import ToolError
from codelet.safety import Policy
from codelet.safety.opener import open_file, open_folder, status_of
from codelet.system.process import find_program
from codelet.tools import file_search_child
from codelet.tools.file_search import Query, search_builtin, search_with_ripgrep
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
            self.stopped.wait(0.0001)  # clock: lets the other thread continue


def enough(good: dict[str, int]) -> bool:
    """Return whether the race was real: calls got through between the swaps."""
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
            assert target == "protected" or "secret" not in text  # protected files are readable
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


@pytest.fixture(params=["folder", "file"])
def swapped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A workspace in which a folder, or a file, is a link to the outside every other moment."""
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for number in range(20):
        (workspace / "src" / f"app{number}.py").write_text("value: inside\n")
        (tmp_path / "outside" / f"app{number}.py").write_text("value: secret\n")
        (tmp_path / "outside" / f"hidden{number}.py").write_text("value: secret\n")
    if request.param == "folder":
        swapper = Swapper(workspace / "src", tmp_path / "outside")
    else:
        swapper = Swapper(workspace / "src" / "app7.py", tmp_path / "outside" / "app7.py")
    swapper.start()
    yield workspace
    swapper.stopped.set()
    swapper.join()
    assert swapper.swaps > 100


def test_the_built_in_walk_never_follows_a_swapped_link(swapped: Path) -> None:
    pattern = re.compile("value")
    seen = 0
    for number in itertools.count():
        if number >= TRIES and (number >= 20 * TRIES or seen > 50):
            break
        output = io.BytesIO()
        top = file_search_child.opened(str(swapped), os.O_RDONLY | os.O_DIRECTORY)
        for place in file_search_child.walk(str(swapped), top):
            assert "hidden" not in place.path
            file_search_child.search_file(place, pattern, 0, output)
        assert b"secret" not in output.getvalue()
        seen += b"app7.py" in output.getvalue()
    assert seen > 50


@pytest.mark.parametrize("engine", ["ripgrep", "builtin"])
@pytest.mark.long
async def test_no_search_shows_what_stands_behind_a_swapped_link(swapped: Path, engine: str) -> None:
    program = find_program("rg", Path("/nowhere"))
    if engine == "ripgrep" and program is None:
        pytest.skip("needs the program rg")
    seen = 0
    for _ in range(400 if engine == "ripgrep" else 20):
        for query in (Query(swapped, pattern="value"), Query(swapped, glob="*.py")):
            found = await (search_with_ripgrep(query, str(program)) if engine == "ripgrep" else search_builtin(query))
            assert [hit for hit in found.hits if b"secret" in hit.text or "hidden" in hit.path] == []
            seen += any("app7.py" in hit.path for hit in found.hits)
    assert seen


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
