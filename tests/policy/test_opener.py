"""Opening without following: whatever is swapped in between never leads out of the workspace."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from codelet.errors import ToolError
from codelet.policy.opener import open_contained, open_folder, replace_contained

TRIES = 1_000


def content(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_reads_inside_and_refuses_outside(places: tuple[Path, Path]) -> None:
    workspace, outside = places
    (workspace / "inner").symlink_to("a.txt")
    (workspace / "out").symlink_to(outside / "secret.txt")
    assert content(open_contained(workspace, "src/app.py")).startswith(b"def main")
    assert content(open_contained(workspace, "inner")) == b"one\ntwo\n"
    for path in ("out", "../outside/secret.txt", "/etc/hostname", "src", ".", "missing", "a.txt/x", "a\0b"):
        with pytest.raises(ToolError):
            open_contained(workspace, path)
    assert content(open_contained(workspace, outside / "secret.txt", outside=True)) == b"planted\n"


def test_a_pipe_gives_an_error_and_no_hang(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    with pytest.raises(ToolError, match="regular"):
        open_contained(workspace, "pipe")
    with pytest.raises(ToolError):
        open_contained(workspace, "pipe", os.O_WRONLY)


class Swapper(threading.Thread):
    """Swaps `path` between its own content and a link to `target` until it is stopped."""

    def __init__(self, path: Path, target: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.target = path, target
        self.link = path.with_name("link-" + path.name)
        self.kept = path.with_name("kept-" + path.name)
        self.stopped = threading.Event()
        self.swaps = 0

    def run(self) -> None:
        self.link.symlink_to(self.target)
        while not self.stopped.is_set():
            self.path.rename(self.kept)
            self.link.rename(self.path)
            self.path.rename(self.link)
            self.kept.rename(self.path)
            self.swaps += 1
            self.stopped.wait(0.0001)


@pytest.mark.parametrize("part", ["file", "folder"])
def test_a_swapped_link_never_leads_out(places: tuple[Path, Path], part: str) -> None:
    workspace, outside = places
    (outside / "app.py").write_text("outside\n")
    (workspace / "src" / "app.py").write_text("inside\n")
    victim, target = (
        (workspace / "src" / "app.py", outside / "app.py") if part == "file" else (workspace / "src", outside)
    )
    swapper = Swapper(victim, target)
    swapper.start()
    read = 0
    try:
        for number in range(TRIES):
            try:
                assert content(open_contained(workspace, "src/app.py")) == b"inside\n"
                read += 1
            except ToolError:
                pass
            if number % 4 == 0:
                with contextlib.suppress(ToolError):
                    replace_contained(workspace, "src/app.py", b"inside\n", make=False)
            assert (outside / "app.py").read_text() == "outside\n"
    finally:
        swapper.stopped.set()
        swapper.join()
    assert sorted(path.name for path in outside.iterdir()) == ["app.py", "secret.txt"]
    assert swapper.swaps > 50
    assert read


def test_replacing_keeps_mode_and_leaves_nothing(workspace: Path) -> None:
    path = workspace / "src" / "run.sh"
    path.write_text("old")
    path.chmod(0o751)
    replace_contained(workspace, "src/run.sh", b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o7777 == 0o751
    replace_contained(workspace, "made/deep/x.txt", b"x")
    umask = os.umask(0)
    os.umask(umask)
    assert (workspace / "made/deep/x.txt").stat().st_mode & 0o777 == 0o666 & ~umask
    assert sorted(entry.name for entry in (workspace / "src").iterdir()) == ["app.py", "run.sh"]
    with pytest.raises(ToolError):
        replace_contained(workspace, "src", b"x")
    with pytest.raises(ToolError):
        replace_contained(workspace, "../x", b"x")


def test_a_full_disk_leaves_the_old_file(workspace: Path) -> None:
    import resource
    import subprocess
    import sys

    path = workspace / "big.txt"
    path.write_bytes(b"old" * 100)
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from codelet.policy.opener import replace_contained\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "replace_contained(Path(sys.argv[1]), 'big.txt', b'x' * 200_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(workspace)], capture_output=True, text=True, check=False)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 4096
    assert "ToolError" in done.stderr
    assert path.read_bytes() == b"old" * 100
    assert not [entry.name for entry in workspace.iterdir() if "big" in entry.name and entry != path]


def test_a_folder_is_opened_without_following(places: tuple[Path, Path]) -> None:
    workspace, _ = places
    descriptor, name = open_folder(workspace, "src/app.py")
    os.close(descriptor)
    assert name == "app.py"
