"""Ways out of the sandbox, each tried for real: under bubblewrap and under Landlock, as root and as a plain user.

Places outside are not emptied by the sandbox: a read-only mount, a filter or a rule has to hold.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from codelet.safety.sandbox import Confinement, Sandbox, find_confinement
from codelet.safety.verdict import SandboxKind
from codelet.system.process import child_environment, run_child
from codelet.system.process.start import CommandWords
from tests.support import escapes
from tests.support.program import processes_with

_NOBODY = 65534
_PROGRAM = Path(escapes.__file__)
_ALLOWED = {"read-only": {"pair of sockets"}, "workspace": {"pair of sockets", "workspace: write", "workspace: secret"}}


def _both_on_one_port() -> tuple[socket.socket, socket.socket]:
    """A listener and a socket for datagrams: the port that one was given may be another program's for the other."""
    while True:
        tcp, datagrams = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            datagrams.bind(tcp.getsockname())
        except OSError as error:
            tcp.close()
            datagrams.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return tcp, datagrams


class Place:
    """A workspace and its surroundings: their places `at`, and the files `made` that must stay unchanged."""

    def __init__(self, base: Path, other: Path) -> None:
        self.workspace, self.outside, self.home = base / "workspace", base / "outside", base / "home"
        for folder in (
            "workspace/src",
            "workspace/.venv/bin",
            "workspace/.git",
            "outside/empty",
            "home/.ssh",
            "home/.agent",
        ):
            (base / folder).mkdir(parents=True)
        (self.workspace / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
        for path in ("workspace/.env", "workspace/.git/config", "outside/kept", "home/.ssh/id_rsa", "home/.netrc"):
            (base / path).write_text("planted\n")
        (self.home / ".bashrc").write_text("")
        self.program = base / "escapes.py"
        shutil.copy(_PROGRAM, self.program)
        self.before = self._facts()
        self.listeners = [self._listening(str(path)) for path in (self.home / ".agent" / "s", base / "s", other / "s")]
        self.abstract = f"codelet-{os.getpid()}-{base.name}"
        self.listeners.append(self._listening(f"\0{self.abstract}"))
        self.tcp, self.datagrams = _both_on_one_port()
        self.port = self.tcp.getsockname()[1]
        for each in (self.datagrams, self.tcp):
            each.setblocking(False)

    def _listening(self, address: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        if address[0] != "\0":
            os.chmod(address, 0o777)
        return listener

    def _facts(self) -> dict[str, tuple[str, ...]]:
        """Content, mode, owner and times of every file but in the workspace's own folder `src`."""
        facts = {}
        for path in sorted((*self.outside.rglob("*"), *self.home.rglob("*.*"), *self.workspace.rglob("*"))):
            if path.is_file() and "src" not in path.parts:
                found = path.stat()
                kept = (found.st_mode, found.st_uid, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink)
                facts[str(path)] = (path.read_text(), *map(str, kept))
        return facts

    def touched(self) -> list[str]:
        """Changed, new and missing files, and the listener that was reached."""
        now = self._facts()
        changed = [] if (self.outside / "empty").is_dir() else ["empty"]
        changed += [path for path in now.keys() | self.before.keys() if now.get(path) != self.before.get(path)]
        for name, listener in (("datagram", self.datagrams), ("tcp", self.tcp)):
            try:
                listener.recv(64) if name == "datagram" else listener.accept()
                changed.append(name)
            except BlockingIOError:
                continue
        return changed

    def given_to(self, user: int) -> None:
        """Let the user own all of it, so that only the sandbox can refuse."""
        base = self.workspace.parent
        for path in (base, *base.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)
        self.before = self._facts()

    def arguments(self) -> dict[str, Any]:
        """The arguments of the program of the tries."""
        paths = [str(each.getsockname()) for each in self.listeners[:3]]
        folders = {name: str(getattr(self, name)) for name in ("workspace", "outside", "home")}
        return folders | {"pid": os.getpid(), "sockets": paths, "abstract": self.abstract, "port": self.port}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    folders = [folder for folder in ("/opt", "/var/lib", str(Path.home())) if os.access(folder, os.W_OK)]
    base, other = (Path(tempfile.mkdtemp(prefix="codelet-", dir=folders[at])) for at in (0, min(1, len(folders) - 1)))
    for folder in (base, other):
        folder.chmod(0o755)
    place = Place(base, other)
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("PATH", f"{place.workspace}/.venv/bin:{os.environ['PATH']}")
    try:
        yield place
    finally:
        for each in (*place.listeners, place.datagrams, place.tcp):
            each.close()
        for folder in (base, other):
            shutil.rmtree(folder)


async def confined(place: Place, way: str, kept: Sequence[Path] = ()) -> Sandbox:
    """A sandbox of this way."""
    sandbox = Sandbox(place.workspace, kept=kept)
    sandbox.found = await find_confinement(place.workspace)
    if sandbox.found.way is None or (way == "bubblewrap" and sandbox.found.way != way):
        pytest.skip(f"needs {way}: {sandbox.found.detail}")
    if way == "landlock":
        sandbox.found = Confinement("landlock", "")
    return sandbox


def as_user(argv: Sequence[str], user: int, folder: Path) -> Sequence[str]:
    """The words that run a confined command as another user, by a Python that this user can start."""
    words = list(argv)
    if "landlock_helper" in words[3]:
        helper = str(shutil.copy(words[3], folder))
        words[:4] = [str(shutil.which("python3", path="/usr/bin:/usr/local/bin")), "-I", "-S", helper]
    words = [*_reached(words)]
    dropped = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *words]
    return CommandWords(dropped, argv.data) if isinstance(argv, CommandWords) else dropped


def _reached(words: Sequence[str]) -> Iterator[str]:
    """The words without what this user sees and the other one cannot name: toolchains in root's home."""
    home = f"{pwd.getpwuid(0).pw_dir}/"
    skipped = 0
    for at, word in enumerate(words):
        skipped = 3 if word == "--ro-bind" and words[at + 1].startswith(home) else skipped
        if skipped == 0:
            yield word
        skipped = max(skipped - 1, 0)


@pytest.mark.parametrize("user", ["own", "plain"])
@pytest.mark.parametrize("kind", ["read-only", "workspace"])
@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
async def test_no_way_leads_out(place: Place, way: str, kind: SandboxKind, user: str) -> None:
    sandbox = await confined(place, way)
    other = user == "plain" and os.geteuid() == 0
    if user == "plain" and not (
        other and os.access("/usr/bin/setpriv", os.X_OK) and os.path.exists("/usr/bin/python3")
    ):
        pytest.skip("needs root, setpriv and a Python that every user can start")
    if other:
        place.given_to(_NOBODY)
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"
    environment = child_environment()
    told = json.dumps(place.arguments())
    mark = f"3141{os.getpid()}"
    argv = sandbox.wrap(f"{python} {place.program} '{told}'; (setsid sleep {mark} &) ; exit 0", environment, kind)
    done = await run_child(
        as_user(argv, _NOBODY, place.workspace.parent) if other else argv,
        cwd=place.workspace,
        environment=environment,
        timeout=60,
        output_limit=1 << 20,
    )
    found = json.loads(done.output)
    done_in = {name for name, result in found.items() if result == "done"} - {"network: udp"}  # it may go nowhere
    assert done_in == _ALLOWED[kind], found
    assert not place.touched()
    assert len(found) == len(escapes.TRIES) + 3
    assert not processes_with(mark)


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
async def test_nothing_takes_the_place_of_what_is_kept(place: Place, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a record nor a folder of programs can be put aside with the folder around it, and another one be made."""
    workspace = place.workspace
    for folder in ("logs/deep", "tools/bin"):
        (workspace / folder).mkdir(parents=True)
    audit = workspace / "logs" / "deep" / "audit.jsonl"
    audit.write_text("kept\n")
    sandbox = await confined(place, way, [audit])
    monkeypatch.setenv("PATH", f"{workspace}/tools/bin:{os.environ['PATH']}")
    environment = child_environment()
    moves = ["mv logs old", "mv logs/deep logs/old", "mv tools old", "rm -rf logs tools", "rmdir tools/bin"]
    forged = "mkdir -p logs/deep tools/bin; echo forged > logs/deep/audit.jsonl; cp /bin/true tools/bin/ls"
    for move in moves:
        argv = sandbox.wrap(f"{move}; {forged}; echo new > src/new.txt", environment)
        done = await run_child(argv, cwd=workspace, environment=environment, timeout=20, output_limit=10_000)
        assert audit.read_text() == "kept\n", (move, done.output)
        assert not (workspace / "tools" / "bin" / "ls").exists(), (move, done.output)
    assert (workspace / "src" / "new.txt").read_text() == "new\n", "the rest can be written"
