"""The rights that the Landlock helper removes from a command, tested in the kernel."""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

from codelet.safety.sandbox import Confinement, Sandbox
from codelet.safety.sandbox.command_lines import Bounds, landlock_argv
from codelet.safety.verdict import SandboxKind
from codelet.system.process import child_environment, run_child
from tests.support.program import ROOT

_PROGRAM = """
import fcntl, json, os, sys
granted, hidden = sys.argv[1:]

def asked(function):
    try:
        function()
    except OSError as error:
        return error.errno
    return 0

null = os.open("/dev/null", os.O_RDWR)
found = {
    "write": lambda: os.write(os.open(granted, os.O_WRONLY), b"new"),
    "read": lambda: os.read(os.open(granted, os.O_RDONLY), 1),
    "cut": lambda: os.truncate(granted, 1),
    "device": lambda: fcntl.ioctl(null, 0x5401, bytes(64)),
    "list": lambda: os.listdir(os.path.dirname(hidden)),
    "read another": lambda: os.open(hidden, os.O_RDONLY),
    "write another": lambda: os.open(hidden, os.O_WRONLY),
    "write what is read": lambda: os.open(os.path.dirname(granted) + "/protected", os.O_WRONLY),
    "make": lambda: os.mkdir(os.path.dirname(granted) + "/made"),
}
found = {name: asked(function) for name, function in found.items()}
with open("/proc/self/status") as status:
    found |= dict(line.split() for line in status if line.startswith(("CapEff", "CapBnd", "NoNewPrivs")))
print(json.dumps(found))
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls are not known")
async def test_a_granted_file_is_a_whole_file_and_all_else_is_closed(tmp_path: Path) -> None:
    """Also where more is granted than may be open at a time."""
    root, hidden = tmp_path / "work", tmp_path / "hidden"
    root.mkdir()
    for path in (hidden, *(root / name for name in ("granted", "protected", *map(str, range(40))))):
        path.write_text("planted\n")
    bounds = Bounds(root=str(root), protected=(str(root / "protected"),), hidden=(str(hidden),), open_home=True)
    words = landlock_argv([sys.executable, "-c", _PROGRAM, str(root / "granted"), str(hidden)], bounds)
    assert Path(words[3]).name == "landlock_helper.py"
    few = ["/bin/sh", "-c", 'ulimit -n 32; exec "$@"', "sh"]
    done = await run_child([*few, *words], cwd=tmp_path, timeout=60, output_limit=10_000)
    if "the kernel has no Landlock" in done.output:
        pytest.skip("needs Landlock")
    found = json.loads(done.output)
    assert (root / "granted").read_text() == "n"
    assert {name for name, number in found.items() if number == 0} == {"write", "read", "cut", "list", "make"}
    assert found["device"] == errno.ENOTTY, "the device is asked, and is no terminal"
    refused = {name for name, number in found.items() if number == errno.EACCES}
    assert refused == {"read another", "write another", "write what is read"}
    assert (found["NoNewPrivs:"], int(found["CapEff:"], 16)) == ("1", 0)
    assert os.geteuid() or int(found["CapBnd:"], 16) == 0, "root gets none back either"


_CHANGES = """
import json, os, sys
root, outside = sys.argv[1:]
os.chdir(root)

def tried(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except OSError as error:
        return error.errno
    return 0

own, read = os.open("own", os.O_RDWR), os.open(outside, os.O_RDONLY)
folder = os.open("folder", os.O_RDONLY)
os.symlink(outside, "folder/link")
done = {
    "a path": tried(os.chmod, "own", 0o710),
    "a whole path": tried(os.chmod, f"{root}/folder/file", 0o711),
    "a descriptor": tried(os.fchmod, own, 0o712),
    "a folder's descriptor": tried(os.chmod, "file", 0o713, dir_fd=folder),
    "the process's own descriptor": tried(os.chmod, f"/proc/self/fd/{own}", 0o714),
    "times": tried(os.utime, "own", ns=(5, 6)),
    "times of a descriptor": tried(os.utime, own, ns=(7, 8)),
    "times now": tried(os.utime, "folder/file"),
    "times of a link": tried(os.utime, "folder/link", ns=(1, 2), follow_symlinks=False),
    "the same owner": tried(os.chown, "own", os.getuid(), -1),
    "no file": tried(os.chmod, "absent", 0o700) - 2,
    "no name": tried(os.chmod, "", 0o700) - 2,
}
refused = {
    "a path outside": tried(os.chmod, outside, 0o700),
    "a path that climbs": tried(os.chmod, "../outside", 0o700),
    "a descriptor outside": tried(os.fchmod, read, 0o700),
    "a link that leads outside": tried(os.chmod, "folder/link", 0o700),
    "times outside": tried(os.utime, outside, ns=(1, 2)),
    "an owner outside": tried(os.chown, outside, os.getuid(), -1),
    "a protected file": tried(os.chmod, "protected", 0o700),
    "the folder around it": tried(os.chmod, ".", 0o777),
}
print(json.dumps([done, refused]))
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls are not known")
@pytest.mark.parametrize("kind", ["workspace", "read-only"])
async def test_modes_times_and_owners_change_only_where_the_command_may_write(
    tmp_path: Path, kind: SandboxKind
) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    for path in (outside, root / "own", root / "protected", root / "folder/file"):
        path.write_text("planted\n")
        path.chmod(0o600)
    bounds = Bounds(root=str(root), kind="workspace", protected=(str(root / "protected"),), open_home=True)
    if kind == "read-only":  # the same request, with nothing to write
        bounds = bounds.replace(protected=(str(root / "protected"), str(root / "own"), str(root / "folder")))
    before = [path.stat() for path in (outside, root / "protected", root)]
    changes = _CHANGES if kind == "workspace" else _CHANGES.replace("os.O_RDWR", "os.O_RDONLY")
    if kind == "read-only":
        changes = changes.replace('os.symlink(outside, "folder/link")', "")
        (root / "folder/link").symlink_to(outside)
    words = landlock_argv([sys.executable, "-c", changes, str(root), str(outside)], bounds)
    done = await run_child(words, cwd=tmp_path, timeout=60, output_limit=10_000)
    if "the kernel has no Landlock" in done.output:
        pytest.skip("needs Landlock")
    made, refused = json.loads(done.output)
    assert set(refused.values()) == {errno.EACCES}, refused
    assert [path.stat() for path in (outside, root / "protected", root)] == before
    if kind == "read-only":
        assert {name for name, error in made.items() if error == 0} == {"no file", "no name"}
        return
    assert set(made.values()) == {0}, made
    own, file = (root / "own").stat(), (root / "folder/file").stat()
    assert (own.st_mode & 0o777, own.st_atime_ns, own.st_mtime_ns) == (0o714, 7, 8)
    assert file.st_mode & 0o777 == 0o713
    assert (root / "folder/link").lstat().st_mtime_ns == 2


_WRITES = """
import ctypes, errno, json, os, sys
root, outside = sys.argv[1:]
os.chdir(root)
libc = ctypes.CDLL(None, use_errno=True)

def tried(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except OSError as error:
        return error.errno
    return 0

def write(path, flags=os.O_WRONLY | os.O_CREAT, **named):
    descriptor = os.open(path, flags, 0o666, **named)
    assert not os.get_inheritable(descriptor)
    try:
        os.write(descriptor, b"new")
    finally:
        os.close(descriptor)

def called(function, *arguments):
    if function(*arguments):
        raise OSError(ctypes.get_errno(), "")

def exchange(one, other):
    called(libc.renameat2, -100, one.encode(), -100, other.encode(), 2)

os.umask(0o027)
here = os.open(".", os.O_RDONLY)
done = {
    "a new file": tried(write, "new"),
    "a whole path": tried(write, f"{root}/whole"),
    "the folder's descriptor": tried(write, "described", dir_fd=here),
    "only a new one": tried(write, "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL) - errno.EEXIST,
    "a new folder": tried(os.mkdir, "made"),
    "in the new folder": tried(write, "made/inner"),
    "a deeper folder": tried(os.makedirs, "made/a/b/"),
    "a link": tried(os.symlink, "inner", "made/link"),
    "a hard link": tried(os.link, "made/inner", "linked"),
    "another name": tried(os.rename, "made/inner", "made/renamed"),
    "over a file": tried(os.replace, "whole", "plain"),
    "the file that came instead": tried(write, "plain", os.O_WRONLY | os.O_APPEND),
    "an old folder": tried(os.rename, "folder", "moved"),
    "in the moved folder": tried(write, "moved/inner"),
    "removed": tried(os.unlink, "described"),
    "a removed folder": tried(os.rmdir, "made/a/b"),
    "beside a protected folder": tried(write, ".github/new"),
    "mode": tried(os.chmod, "made/renamed", 0o751),
    "no folder": tried(write, "absent/x") - errno.ENOENT,
    "no address": tried(called, libc.mkdir, ctypes.c_void_p(-1), 0o700) - errno.EFAULT,
    "a mode at no address": tried(called, libc.chmod, ctypes.c_void_p(-1), 0o700) - errno.EFAULT,
    "an owner below zero": tried(called, libc.chown, b"new", -2, -1) - errno.EPERM,
    "into a temporary folder": tried(os.rename, "linked", os.environ["TMPDIR"] + "/x") - errno.EXDEV,
}
os.symlink(".git", "way")
os.symlink(".git/config", "file")
os.symlink(outside, "out")
refused = {
    "in the protected folder": tried(write, ".git/hook"),
    "of the protected folder": tried(write, ".git/config"),
    "a folder in it": tried(os.mkdir, ".git/made"),
    "a link in it": tried(os.symlink, "/bin/true", ".git/hook"),
    "a hard link in it": tried(os.link, "plain", ".git/hook"),
    "a hard link of it": tried(os.link, ".git/config", "config"),
    "into it": tried(os.rename, "plain", ".git/hook"),
    "out of it": tried(os.rename, ".git/config", "config"),
    "removed from it": tried(os.unlink, ".git/config"),
    "away": tried(os.rename, ".git", "gone"),
    "the way to one": tried(os.rename, ".github", "gone"),
    "over one": tried(os.rename, "plain", "protected"),
    "exchanged": tried(exchange, "moved", ".git"),
    "exchanged with another": tried(exchange, "moved", "plain"),
    "by a link to the folder": tried(write, "way/hook"),
    "by a link to the file": tried(write, "file", os.O_WRONLY),
    "by the process's own folder": tried(write, "/proc/self/cwd/.git/hook"),
    "by the other case": tried(write, ".GIT"),
    "of a hidden file": tried(write, "hidden", os.O_RDWR),
    "a hidden file is read": tried(os.open, "hidden", os.O_RDONLY),
    "a hidden file gets another name": tried(os.rename, "hidden", "seen"),
    "a hidden file gets a second name": tried(os.link, "hidden", "seen"),
    "a protected file by a further name": tried(os.unlink, "further"),
    "renamed by a further name": tried(os.rename, "further", "seen"),
    "without a name": tried(write, ".git", os.O_WRONLY | os.O_TMPFILE),
    "outside": tried(write, f"{outside}/x"),
    "above": tried(write, "../x"),
    "outside by a link": tried(write, "out/x"),
    "a hard link of a file outside": tried(os.link, f"{outside}/kept", "kept"),
    "out": tried(os.rename, "plain", f"{outside}/x"),
    "a mode": tried(os.chmod, ".git/config", 0o777),
    "a mode of the way to one": tried(os.chmod, ".github", 0o777),
}
print(json.dumps([done, refused]))
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls are not known")
async def test_beside_protected_entries_all_else_can_be_made_renamed_and_removed(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (root / ".git", root / ".github/workflows", root / "folder", outside):
        folder.mkdir(parents=True)
    for path in (root / ".git/config", root / "protected", root / "hidden", root / "plain", outside / "kept"):
        path.write_text("planted\n")
    (root / "further").hardlink_to(root / "protected")  # such as a short name on other file systems
    protected = tuple(str(root / name) for name in (".git", ".github/workflows", "protected"))

    def kept() -> list[object]:
        names = (".git", ".git/config", ".github/workflows", "protected", "hidden")
        places = [*(root / name for name in names), outside]
        return [(path, path.stat().st_ino, path.stat().st_mtime_ns, path.stat().st_mode) for path in places]

    before = kept()
    words = landlock_argv(
        [sys.executable, "-c", _WRITES, str(root), str(outside)],
        Bounds(root=str(root), protected=protected, hidden=(str(root / "hidden"),), open_home=True),
    )
    done = await run_child(words, cwd=tmp_path, timeout=60, output_limit=10_000)
    if "the kernel has no Landlock" in done.output:
        pytest.skip("needs Landlock")
    made, refused = json.loads(done.output)
    assert set(made.values()) == {0}, made
    assert set(refused.values()) == {errno.EACCES, errno.EXDEV, errno.EINVAL}, refused
    assert refused["exchanged with another"] == errno.EINVAL, "programs try again without"
    assert kept() == before
    assert sorted(path.name for path in root.iterdir()) == [
        ".git", ".github", "file", "further", "hidden", "linked", "made", "moved", "new", "out", "plain", "protected",
        "way",
    ]  # fmt: skip
    assert (root / "plain").read_text() == "newnew"
    assert ((root / "new").stat().st_mode & 0o777, (root / "made").stat().st_mode & 0o777) == (0o640, 0o750)
    assert (root / "made/renamed").stat().st_mode & 0o777 == 0o751


_KILLED = """
import os, signal
for number in range(38):  # a way on which the helper needs a while
    os.symlink("./" * 2000 + (f"way{number + 1}" if number < 37 else "."), f"way{number}")
for moment in range(400):
    reads, writes = os.pipe()
    child = os.fork()
    while not child:
        os.write(writes, b"1")
        os.close(os.open("way0/made", os.O_WRONLY | os.O_CREAT))
    os.read(reads, 1)
    for _ in range(moment % 100 * 60):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reads)
    os.close(writes)
os.mkdir("end")
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls are not known")
async def test_the_helper_outlives_callers_that_are_killed_while_it_answers(tmp_path: Path) -> None:
    protected = tmp_path / "protected"
    protected.touch()
    bounds = Bounds(root=str(tmp_path), protected=(str(protected),), open_home=True)
    words = landlock_argv([sys.executable, "-c", _KILLED], bounds)
    done = await run_child(words, cwd=tmp_path, timeout=60, output_limit=10_000)
    if "the kernel has no Landlock" in done.output:
        pytest.skip("needs Landlock")
    assert (done.exit_code, done.output) == (0, "")
    assert (tmp_path / "end").is_dir()


_USES_TEMPORARY = """
import os, signal, sys, tempfile, time
print(tempfile.mkstemp()[1], flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGUSR1)
if sys.argv[1] == "waits":
    time.sleep(60)
sys.exit(7)
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls are not known")
async def test_a_command_has_a_temporary_folder_of_its_own_that_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it dies or is ended; a folder whose helper was killed is removed by the next one."""
    root, temporary = tmp_path / "work", tmp_path / "temporary"
    root.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    bounds = Bounds(root=str(root), kind="read-only", seen=(sys.prefix, sys.base_prefix))
    # A helper that is killed on a busy machine leaves its folder to the next one.
    for way, code, seconds in (("waits", None, 6.0), ("ends", 7, 60.0), ("killed", -signal.SIGUSR1, 60.0)):
        left = temporary / "codelet-command-left"
        left.mkdir()
        words = landlock_argv([sys.executable, "-c", _USES_TEMPORARY, way], bounds)
        done = await run_child(words, cwd=tmp_path, timeout=seconds, output_limit=10_000)
        if "the kernel has no Landlock" in done.output:
            pytest.skip("needs Landlock")
        made = Path(done.output.strip())
        assert made.parent.parent == temporary and made.parent != left, done.output
        assert code is None or done.exit_code == code
        assert code is None or list(temporary.iterdir()) == [], way


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls are not known")
@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("python3 -m venv --without-pip venv", "venv/bin/activate"),
        ("tar -xf packed.tar", "packed/run"),
        ("cp -a packed.tar copy.tar", "copy.tar"),
        ("install -m 755 packed.tar installed", "installed"),
        ("git init -q new", "new/.git/config"),
        ("cc -o program -x c - <<< 'int main(){return 0;}' && ./program", "program"),
    ],
)
@pytest.mark.parametrize("protected", [False, True], ids=["nothing protected", "beside protected entries"])
@pytest.mark.needs("bash", "tar", "git", "cc")
async def test_programs_that_set_modes_and_times_end_well(
    tmp_path: Path, command: str, made: str, protected: bool
) -> None:
    if protected:
        for name in (".git", ".github/workflows"):
            (tmp_path / name).mkdir(parents=True)
    with tarfile.open(tmp_path / "packed.tar", "w") as packed:
        entry = tarfile.TarInfo("packed/run")
        entry.mode, entry.mtime, entry.uid, entry.gid = 0o751, 5, os.getuid(), os.getgid()
        packed.addfile(entry)
    sandbox = Sandbox(tmp_path)
    sandbox.found = Confinement("landlock", "landlock")
    environment = child_environment()
    words = sandbox.wrap(command, environment)
    done = await run_child(words, cwd=tmp_path, environment=environment, timeout=120, output_limit=10_000)
    if "the kernel has no Landlock" in done.output:
        pytest.skip("needs Landlock")
    assert (done.exit_code, (tmp_path / made).exists()) == (0, True), done.output
    if made == "packed/run":
        facts = (tmp_path / made).stat()
        assert (facts.st_mode & 0o777, facts.st_mtime) == (0o751, 5)


@pytest.mark.parametrize("network", [False, True])
def test_as_much_is_taken_as_the_version_of_landlock_knows(network: bool) -> None:
    """Rights over files came with versions 1, 2 (links between folders), 3 (cutting) and 5 (settings of devices)."""
    code = "import json, sys, landlock_helper\nprint(json.dumps([landlock_helper.taken_away(version, network="
    code += f"{network}) for version in (1, 2, 3, 4, 5, 6, 8)]))"
    folder = ROOT / "codelet" / "safety" / "sandbox"
    found = json.loads(subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True).stdout)
    tcp = 0 if network else 3
    newest = [0xFFFF, tcp, 3]
    assert found == [[0x1FFF], [0x3FFF], [0x7FFF], [0x7FFF, tcp], [0xFFFF, tcp], newest, newest]
