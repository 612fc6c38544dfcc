"""The places that a confined command sees, tested by real commands in each sandbox."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelet.loop.toolbox import Toolbox
from codelet.safety import Policy
from codelet.safety.sandbox import Confinement, Sandbox, find_confinement, variables_for_reading
from codelet.safety.sandbox.places import seen_places
from codelet.safety.verdict import Answer, Question, SandboxKind, Touch
from codelet.system.process import child_environment, run_child
from tests.safety.conftest import call, toolbox
from tests.support import repo as repositories

_SECRET = "planted-seen-nowhere"
_KINDS: tuple[SandboxKind, ...] = ("read-only", "workspace")
_OF_HOME = (
    ".ssh/id_rsa", ".aws/credentials", ".mozilla/firefox/p/logins.json", ".config/google-chrome/Default/Cookies",
    ".local/share/keyrings/login.keyring", ".electrum/wallets/default", ".config/sops/age/keys.txt", ".bashrc",
    ".cargo/credentials.toml", ".config/gh/hosts.yml", "notes/plain.txt", "other-project/src/app.py",
)  # fmt: skip


@pytest.fixture(params=["bubblewrap", "landlock"])
async def way(request: pytest.FixtureRequest, tmp_path: Path) -> Confinement:
    found = await find_confinement(tmp_path)
    if found.way is None or (request.param == "bubblewrap" and found.way != "bubblewrap"):
        pytest.skip(f"needs {request.param}: {found.detail}")
    return found.replace(way=request.param)


@pytest.fixture
def home() -> Iterator[Path]:
    """A home outside the folders that the sandbox empties."""
    with tempfile.TemporaryDirectory(prefix="codelet-home-", dir="/var/tmp") as folder:
        yield Path(folder, "home")


@pytest.fixture
def work(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in a home full of secrets, with a folder next to both."""
    for name in (*(f"home/{one}" for one in _OF_HOME), "outside/secret.txt"):
        path = home.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{_SECRET}\n")
    tool = home / ".cargo" / "bin" / "mytool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho tool ran\n")
    tool.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return repositories.plain(home / "work", {"a.txt": "hello\n"})


async def shown(work: Path, way: Confinement, command: str, kind: SandboxKind = "read-only", **options: object) -> str:
    sandbox = Sandbox(work, **options)  # type: ignore[arg-type]
    sandbox.found = way
    environment = child_environment()
    words = sandbox.wrap(command, environment, kind)
    return (await run_child(words, cwd=work, environment=environment, timeout=60, output_limit=1 << 20)).output


@pytest.mark.parametrize("kind", _KINDS)
async def test_uv_is_told_to_use_no_cache_which_is_read_only(work: Path, way: Confinement, kind: SandboxKind) -> None:
    assert (await shown(work, way, "echo $UV_NO_CACHE", kind)).strip() == "1"


@pytest.mark.needs("git")
@pytest.mark.parametrize("kind", _KINDS)
async def test_nothing_of_the_home_or_beside_it_is_seen_but_toolchains(
    work: Path, way: Confinement, kind: SandboxKind
) -> None:
    read = f"cat ~/.*/* ~/*/* ~/.b* ../../outside/*; grep -rs {_SECRET[:7]} ~ {work.parent.parent}; cat a.txt; mytool"
    output = await shown(work, way, read, kind)
    assert _SECRET not in output
    assert "hello" in output and "tool ran" in output
    assert "tool ran" in await shown(work, way, "git status -sb && mytool", kind)


@pytest.mark.needs("git")
def test_of_a_toolchain_that_a_variable_names_its_programs_are_seen(work: Path, tmp_path: Path) -> None:
    for name in ("cargo/bin/tool", "cargo/credentials.toml", "go/pkg/x", "go/src/x", "java/lib/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    variables = {name: str(tmp_path / folder) for name, folder in _NAMED.items()}
    seen = seen_places(str(work), variables, [])
    assert {place for place in seen if place.startswith(str(tmp_path))} == {
        str(tmp_path / name) for name in ("cargo/bin", "go/pkg", "java")
    }


def test_a_folder_of_the_home_that_holds_more_than_a_toolchain_is_not_seen_for_its_programs(
    work: Path, home: Path
) -> None:
    for name in (".cargo/lib/x", "tool/bin/x", "tool/lib/x"):
        (home / name).parent.mkdir(parents=True)
    places = seen_places(str(work), {"PATH": f"{home}/.cargo/bin:{home}/tool/bin:relative/bin"})
    assert f"{home}/.cargo/bin" in places and f"{home}/.cargo" not in places
    assert f"{home}/tool" in places and f"{home}/tool/bin" not in places


_NAMED = {"CARGO_HOME": "cargo", "GOPATH": "go", "JAVA_HOME": "java"}


async def test_the_user_may_name_more(work: Path, way: Confinement) -> None:
    read = "cat ~/notes/plain.txt; cat ~/.ssh/id_rsa"
    assert _SECRET not in await shown(work, way, read)
    assert (await shown(work, way, read, seen=("~/notes",))).count(_SECRET) == 1
    assert (await shown(work, way, read, open_home=True)).count(_SECRET) == 1, "the name of a secret stays hidden"


@pytest.mark.needs("git")
async def test_private_settings_of_the_machine_are_not_read(work: Path, way: Confinement) -> None:
    if not os.access("/etc/shadow", os.R_OK):
        pytest.skip("needs a user who can read /etc/shadow")
    assert "root:" not in await shown(work, way, "cat /etc/shado*")
    assert "root:" in await shown(work, way, "cat /etc/passwd")


@pytest.mark.needs("git")
async def test_nothing_can_be_written_in_the_empty_home(work: Path, way: Confinement) -> None:
    assert "Read-only file system" in (output := await shown(work, way, "echo x > ~/new")) or "denied" in output


def box_with(work: Path, way: Confinement, **options: bool) -> Toolbox:
    sandbox = Sandbox(work, **options)
    sandbox.found = way
    return toolbox(work, Policy(work), sandbox=sandbox)


@pytest.mark.needs("git")
async def test_the_model_is_told_that_the_home_is_not_there(work: Path, way: Confinement) -> None:
    box = box_with(work, way)
    for command, told in (("ls ~/notes/", True), ("ls missing/", False)):
        box.policy.mode = "auto"
        _, text = await call(box, "bash", command=command)
        assert ("sandbox_seen" in text) == told, text


@pytest.mark.needs("git")
async def test_a_command_that_cannot_write_is_asked_about_and_runs_outside_after_a_yes(
    work: Path, way: Confinement
) -> None:
    command = "awk '{print > \"new.txt\"}' a.txt"
    for line, rule in ((command, "bash"), ("find . -newer a.txt -fprint new.txt", ""), ("wc -l a.txt", "")):
        _, text = await call(box_with(work, way), "bash", command=line)
        assert (f"The rule {rule} " in text) == bool(rule), text
    assert not (work / "new.txt").exists()
    asked: list[Question] = []

    async def answer(question: Question) -> Answer:
        asked.append(question)
        return Answer(len(asked) > 1)

    sandbox = Sandbox(work)
    sandbox.found = way
    box = toolbox(work, Policy(work), answer, sandbox=sandbox)
    assert (await call(box, "bash", command=command))[0] == "failed" and not (work / "new.txt").exists()
    assert (await call(box, "bash", command=command))[0] == "done"
    assert (work / "new.txt").read_text() == (work / "a.txt").read_text()
    assert [question.arguments["unconfined"] for question in asked] == [True, True]
    (work / "new.txt").unlink()
    assert (await call(toolbox(work, Policy(work, yes=True), sandbox=sandbox), "bash", command=command))[0] == "done"
    box = box_with(work, way)
    box.policy.add_allow("bash(sort a.txt)")
    verdict = box.policy.judge("bash", [Touch("run", "sort a.txt", unconfined=True)])
    assert (verdict.action, verdict.sandbox) == ("ask", None)


@pytest.mark.needs("git")
async def test_under_landlock_a_failure_to_write_is_asked_about_and_one_to_read_is_not(
    work: Path, way: Confinement
) -> None:
    sandbox = Sandbox(work)
    sandbox.found = way.replace(way="landlock")
    (work / ".env").write_text(f"KEY={_SECRET}\n")
    for line, offered in {
        "awk: cannot open `new.txt' for output (Permission denied)": True,
        "tar: d: Cannot mkdir: Operation not permitted": True,
        "cat: .env: Permission denied": False,
        f"cat: {work.parent.parent}/outside/secret.txt: Permission denied": False,
        "cp: cannot create regular file '.git/hooks/x': Permission denied": False,
        "cat: new.txt: No such file or directory": False,
    }.items():
        assert sandbox.kept_from_writing("workspace", line) is offered, line
    asked: list[Question] = []

    async def answer(question: Question) -> Answer:
        asked.append(question)
        return Answer(True)

    box = toolbox(work, Policy(work, "auto"), answer, sandbox=sandbox)
    assert (await call(box, "bash", command="cat missing.txt"))[0] == "failed" and not asked
    assert (await call(box, "bash", command="mkdir ../made && chmod 700 ../made"))[0] == "done" and len(asked) == 1
    assert (work.parent / "made").stat().st_mode & 0o777 == 0o700


@pytest.mark.needs("git")
async def test_that_a_workspace_holds_the_home_is_said_once(home: Path, way: Confinement, work: Path) -> None:
    for folder, said in ((home, 1), (work, 0)):
        box = box_with(folder, way)
        for _ in range(2):
            await call(box, "bash", command="ls")
        notes = box.notices.take()
        assert len([note for note in notes if "your home" in note]) == said, notes


@pytest.mark.needs("git")
async def test_what_only_reads_is_given_variables_of_a_list(
    work: Path, way: Confinement, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DEPLOY_TARGET", "MY_SEED", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, _SECRET)
    monkeypatch.setenv("JAVA_HOME", "/usr/lib/jvm/x")
    read = variables_for_reading(child_environment())
    assert _SECRET not in read.values()
    assert read["JAVA_HOME"] == "/usr/lib/jvm/x" and "PATH" in read and read["GIT_ALLOW_PROTOCOL"] == "none"
    box = box_with(work, way)
    _, text = await call(box, "bash", command="printf '%s' \"$HOME\"; cat /proc/self/environ")
    assert _SECRET not in text
    box.policy.mode = "auto"
    monkeypatch.setenv("BUILD_PLACE", "a-plain-value")
    for write, told in (("", False), ("touch made; ", True)):
        _, text = await call(box, "bash", command=f"{write}printf '%s' \"$BUILD_PLACE\"")
        assert ("a-plain-value" in text) is told, "a command that writes has the user's variables"


_KEY = 0x0C0DE1E7


@pytest.fixture
def segment() -> Iterator[int]:
    """The key of a segment of memory that only this user may read."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    number = libc.shmget(_KEY, 4096, 0o1600)
    if number < 0:
        pytest.skip("needs the shared memory of System V")
    ctypes.memmove(libc.shmat(number, None, 0), _SECRET.encode(), len(_SECRET))
    yield _KEY
    libc.shmctl(number, 0, None)


@pytest.mark.needs("git", "python3")
async def test_memory_that_others_share_is_not_reached(work: Path, way: Confinement, segment: int) -> None:
    look = (
        "import ctypes; c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p; "
        f"n = c.shmget({segment}, 4096, 0); print(n); print(ctypes.string_at(c.shmat(n, None, 0), 30) if n >= 0 else 0)"
    )
    output = await shown(work, way, f'python3 -c "{look}"')
    assert output.split() == ["-1", "0"]


@pytest.mark.needs("git")
async def test_git_shows_no_secret_that_it_keeps(work: Path, way: Confinement) -> None:
    if way.way != "bubblewrap":
        pytest.skip("Landlock mounts nothing: there the words of git ask")
    (work / ".env").write_text(f"KEY={_SECRET}\n")
    (work / ".ENV.local").write_text(f"KEY={_SECRET}\n")
    (work / ".env.example").write_text("KEY=an-example\n")
    (work / ".gitattributes").write_text("* diff\n.env* diff\n")
    repositories.git(work, "add", "-f", ".")
    repositories.git(work, "commit", "-qm", "keys")
    for command in ("git log -p", "git show", "git diff HEAD~1", "git log -p -m --cc | cat", "cat .e*; git log -p"):
        output = await shown(work, way, command)
        assert _SECRET not in output, command
        assert "an-example" in output, "what holds none is shown"
    assert await shown(work, way, "git log --oneline -G planted-seen") == ""
    assert (await shown(work, way, "git status --short")).strip() == "", "a hidden file would be a changed one"
