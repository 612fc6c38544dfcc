"""Files: the old state or the new one, whatever happens in between."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelet.errors import ExportError, SaveConflict, SessionHeld
from codelet.export.encode import to_json
from codelet.export.live import read_export
from codelet.export.saver import Saver, save_once
from codelet.export.store_target import open_target
from tests.export import material
from tests.export.kills import kill_many
from tests.support.amount import amount
from tests.support.program import ROOT


def target(path: Path, number: int = 1) -> Path:
    save_once(open_target(str(path)), [to_json(material.numbered(number), mask=None)])
    return path


def child(body: str, *arguments: str, wrap: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs a piece of Python with codelet and the tests' material at hand."""
    head = """
        import os, resource, sys
        from pathlib import Path
        from codelet.export.encode import to_json
        from codelet.errors import ExportError
        from codelet.export.saver import save_once
        from codelet.export.store_target import open_target
        from tests.export import material
    """
    script = textwrap.dedent(head) + textwrap.dedent(body)
    command = [*wrap, sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_a_file_is_for_its_owner_alone_and_nothing_else_is_left(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = target(tmp_path / "x.json")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    save_once(open_target(str(path)), [to_json(material.numbered(2), mask=None)], force=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["x.json"]


def test_the_lock_is_for_its_owner_alone(tmp_path: Path) -> None:
    lease = open_target(str(tmp_path / "x.json")).store.lock("x.json")
    assert stat.S_IMODE((tmp_path / ".x.json.lock").stat().st_mode) == 0o600
    lease.release()


@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_as_target_is_refused_and_stays(tmp_path: Path, dangling: bool) -> None:
    real = tmp_path / "real.json"
    if not dangling:
        real.write_bytes(to_json(material.numbered(1), mask=None))
    link = tmp_path / "link.json"
    link.symlink_to(real)
    before = real.read_bytes() if real.exists() else None
    with pytest.raises(ExportError, match="is a link"):
        save_once(open_target(str(link)), [to_json(material.numbered(2), mask=None)], force=True)
    assert link.is_symlink()
    assert (real.read_bytes() if real.exists() else None) == before
    assert sorted(os.listdir(tmp_path)) == sorted({"link.json", *(["real.json"] if before else [])})


async def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(ExportError, match="not a file"):
            save_once(open_target(str(tmp_path / name)), [to_json(material.numbered(1), mask=None)], force=True)
        with pytest.raises(ExportError):
            await read_export(str(tmp_path / name))
    with pytest.raises(ExportError, match="no folder"):
        save_once(open_target(str(tmp_path / "no" / "x.json")), [to_json(material.numbered(1), mask=None)])


async def test_a_bad_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    path.write_text("my own notes")
    with pytest.raises(ExportError, match=r"notes\.json: is not JSON"):
        await read_export(str(path))
    with pytest.raises(ExportError, match="already exists"):
        await Saver.open(open_target(str(path)), mask=None)
    assert path.read_text() == "my own notes"
    assert os.listdir(tmp_path) == ["notes.json"]


def test_a_lock_of_a_killed_process_stops_nobody(tmp_path: Path) -> None:
    path = target(tmp_path / "x.json")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        held = open_target(str(path)).store.lock("x.json")
        (tmp_path / ".x.json.0123456789ab.tmp").write_bytes(b"half")
        (tmp_path / ".x.json.b.0123456789ab.tmp").write_bytes(b"of another name")
        os.write(writing, b"!")
        signal.alarm(20)
        signal.pause()
        held.release()
    try:
        os.read(reading, 1)
        with pytest.raises(SessionHeld, match=f"process {pid} on "):
            open_target(str(path)).store.lock("x.json")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert (tmp_path / ".x.json.lock").exists()
    open_target(str(path)).store.lock("x.json").release()
    assert sorted(os.listdir(tmp_path)) == [".x.json.b.0123456789ab.tmp", "x.json"]


def test_a_kill_during_a_save_leaves_a_whole_state(tmp_path: Path) -> None:
    caught = kill_many(amount(50, 2_000), tmp_path)
    assert caught["while writing"] > 0


FULL_AT_EVERY_BYTE = """
    path = Path(sys.argv[1])
    target = open_target(str(path))
    before = path.read_bytes()
    size = len(to_json(material.numbered(2), mask=None))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    lines = set()
    for limit in range(size):
        lease = target.store.lock(path.name)
        revision = target.store.revision(path.name)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            target.store.save(path.name, [to_json(material.numbered(2), mask=None)], lease=lease, expected=revision)
        except ExportError as error:
            lines.add(str(error))
        else:
            raise SystemExit(f"saved {size} bytes with room for {limit}")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        lease.release()
        assert path.read_bytes() == before, limit
        assert os.listdir(path.parent) == [path.name], limit
    save_once(target, [to_json(material.numbered(2), mask=None)], force=True)
    print(size, len(lines), lines.pop())
"""


def test_no_room_at_any_byte_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = target(tmp_path / "x.json")
    result = child(FULL_AT_EVERY_BYTE, str(path))
    assert result.returncode == 0, result.stderr
    size, kinds, *line = result.stdout.split()
    assert int(size) > 400
    assert kinds == "1"
    said = " ".join(line)
    assert said.startswith(f"{path}: not saved: File too large: ") and "ulimit -f" in said
    assert b'"tokenCount":2' in path.read_bytes()


MOUNTED = """
    import subprocess
    folder = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", sys.argv[2], "none", str(folder)], check=True)
    path = folder / "x.json"
    save_once(open_target(str(path)), [to_json(material.numbered(1, 3000), mask=None)])
    before = path.read_bytes()
    if sys.argv[3] == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    try:
        save_once(open_target(str(path)), [to_json(material.numbered(2, 30_000), mask=None)], force=True)
    except ExportError as error:
        print(error)
    assert path.read_bytes() == before
    if sys.argv[3] == "full":
        assert os.listdir(folder) == ["x.json"], os.listdir(folder)
        save_once(open_target(str(path)), [to_json(material.numbered(3, 3000), mask=None)], force=True)
"""


def mountable() -> bool:
    try:
        return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not mountable(), reason="needs the program unshare and user namespaces")
@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [("size=16k", "full", "No space left on device"), ("size=1m", "read-only", "Read-only file system")],
)
def test_a_full_and_a_read_only_file_system(tmp_path: Path, options: str, kind: str, says: str) -> None:
    result = child(MOUNTED, str(tmp_path), options, kind, wrap=("unshare", "-rm"))
    assert result.returncode == 0, result.stderr
    assert says in result.stdout
    assert len(result.stdout.splitlines()) == 1


QUOTA = """
    import subprocess
    image, folder = Path(sys.argv[1]), Path(sys.argv[2])
    def run(*command):
        subprocess.run(command, check=True, capture_output=True)
    run("mount", "-o", "loop", str(image), str(folder))
    run("btrfs", "quota", "enable", str(folder))
    run("btrfs", "subvolume", "create", str(folder / "mine"))
    run("btrfs", "quota", "rescan", "-w", str(folder))
    path = folder / "mine" / "x.json"
    save_once(open_target(str(path)), [to_json(material.numbered(1, 3000), mask=None)])
    run("sync", "-f", str(folder))
    run("btrfs", "qgroup", "limit", "200K", str(folder / "mine"))
    before = path.read_bytes()
    try:
        save_once(open_target(str(path)), [to_json(material.numbered(2, 1_000_000), mask=None)], force=True)
    except ExportError as error:
        print(error)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["x.json"], os.listdir(path.parent)
    run("btrfs", "qgroup", "limit", "none", str(folder / "mine"))
    save_once(open_target(str(path)), [to_json(material.numbered(3, 1_000_000), mask=None)], force=True)
"""


def without_quotas(image: Path) -> str:
    """What a file system with quotas would need here, or nothing."""
    if os.geteuid() != 0:
        return "needs root, to mount a file system with quotas"
    if shutil.which("mkfs.btrfs") is None or shutil.which("unshare") is None:
        return "needs the programs mkfs.btrfs (btrfs-progs) and unshare"
    image.touch()
    os.truncate(image, 120 << 20)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True, capture_output=True)
    probe = ["unshare", "-m", "mount", "-o", "loop", str(image), str(image.parent)]
    refused = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"cannot mount a file as btrfs here: {refused.stderr.strip()}" if refused.returncode else ""


def test_a_quota_that_is_used_up_leaves_the_old_file_whole(tmp_path: Path) -> None:
    """A real one: a btrfs of its own, in a namespace that ends with the child."""
    image, folder = tmp_path / "disk", tmp_path / "mounted"
    folder.mkdir()
    if missing := without_quotas(image):
        pytest.skip(missing)
    result = child(QUOTA, str(image), str(folder), wrap=("unshare", "-m"))
    assert result.returncode == 0, result.stderr
    path = folder / "mine" / "x.json"
    [line] = result.stdout.splitlines()
    assert line.startswith(f"{path}: not saved: Disk quota exceeded: ") and "your quota" in line


class Parts(list[bytes]):
    """Parts of a document; before they are written, somebody else puts a file in its place."""

    def __init__(self, path: Path) -> None:
        super().__init__([b"ours"])
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        self._path.write_bytes(b"theirs")
        return super().__iter__()


def test_what_somebody_else_makes_during_a_first_save_is_kept(tmp_path: Path) -> None:
    store = open_target(str(tmp_path / "x.json")).store
    lease = store.lock("x.json")
    with pytest.raises(SaveConflict, match="created it"):
        store.save("x.json", Parts(tmp_path / "x.json"), lease=lease, expected=None)
    lease.release()
    assert (tmp_path / "x.json").read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["x.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody who may not list a folder")
def test_a_folder_that_cannot_be_listed_takes_saves() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chown(folder, 65534, 65534)
        folder.chmod(0o300)
        os.seteuid(65534)
        try:
            store = open_target(str(folder / "x.json")).store
            lease = store.lock("x.json")
            revision = None
            for part in (b"one", b"two"):
                revision = store.save("x.json", [part], lease=lease, expected=revision)
                assert (folder / "x.json").read_bytes() == part
            lease.release()
        finally:
            os.seteuid(0)


async def test_a_failed_save_is_told_once_and_made_up_for(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    saver = await Saver.open(open_target(str(folder / "x.json")), mask=None)
    moved = folder.rename(tmp_path / "elsewhere")
    for number in (1, 2, 3):
        saver.save(material.numbered(number))
        await saver.settle()
    notices = saver.notices.take()
    assert len(notices) == 1
    assert "not saved" in notices[0] and os.strerror(errno.ENOENT) in notices[0]
    assert saver.problem is not None
    moved.rename(folder)
    await saver.close()
    assert saver.problem is None
    assert (await read_export(str(folder / "x.json"))).snapshot == material.numbered(3)


async def test_a_save_that_fails_to_the_end_is_an_error_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    saver = await Saver.open(open_target(str(folder / "x.json")), mask=None)
    folder.rename(tmp_path / "elsewhere")
    saver.save(material.numbered(1))
    with pytest.raises(ExportError, match="not saved"):
        await saver.close()
