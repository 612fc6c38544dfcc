"""Exact counts without a download: whatever the machine lacks, nothing is fetched, written or deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from codelet.context.tokens import exact
from codelet.system.process.start import child_environment, lent, own_variables

FILES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
WATCHED = """
import os, sys
done = []
def watch(event, arguments):
    if event.startswith("socket.") or event in ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate"):
        done.append((event, str(arguments[:1])))
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        done.append((event, str(arguments[0])))
sys.addaudithook(watch)
from codelet.context.tokens import exact
before = dict(os.environ)
try:
    print("counted", exact.count_tokens("hello world", NAME))
except exact.ExactUnavailable as error:
    print("unavailable:", error)
print("environment", "changed" if dict(os.environ) != before else "as before")
print("done", done)
"""


def bundled() -> Path:
    spec = find_spec("litellm")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "litellm_core_utils" / "tokenizers"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder of tokeniser files of a `litellm` that is found before the installed one."""
    folder = tmp_path / "site" / "litellm" / "litellm_core_utils" / "tokenizers"
    folder.mkdir(parents=True)
    (tmp_path / "site" / "litellm" / "__init__.py").write_text("raise RuntimeError('it must not be imported')\n")
    for file in FILES.values():
        shutil.copy(bundled() / file, folder)
    return folder


def watched(package: Path, tmp_path: Path, name: str = "o200k_base", **variables: str) -> dict[str, str]:
    """The output of a process that counts with those files and no network to speak of."""
    temporary = tmp_path / "tmp"
    temporary.mkdir(exist_ok=True)
    before = tree(package)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(package.parents[2]), *filter(None, sys.path)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(temporary),
        "HOME": str(temporary),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"NAME = {name!r}\n{WATCHED}"],
        env=environment | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert tree(package) == before, "no file was written or deleted"
    assert list(temporary.iterdir()) == []
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert told["done"] == "[]", "nothing was written, deleted or asked of a network"
    assert told["environment"] == "as before"
    return told


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", FILES)
def test_counts_come_from_the_file_and_from_nowhere_else(name: str, package: Path, tmp_path: Path):
    told = watched(package, tmp_path, name)
    assert told["counted"] == "2"


@pytest.mark.parametrize("user", ["", "/nowhere/at/all", "elsewhere"])
def test_the_users_own_folder_is_neither_read_nor_written(user: str, package: Path, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    told = watched(package, tmp_path, TIKTOKEN_CACHE_DIR=user, DATA_GYM_CACHE_DIR=user)
    assert told["counted"] == "2"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_that_cannot_be_written_serves(package: Path, tmp_path: Path):
    package.chmod(0o555)
    for file in package.iterdir():
        file.chmod(0o444)
    try:
        assert watched(package, tmp_path)["counted"] == "2"
    finally:
        package.chmod(0o755)


@pytest.mark.parametrize("fault", ["cut", "changed", "empty", "another"])
def test_with_a_broken_file_the_estimate_serves_and_the_file_stays(fault: str, package: Path, tmp_path: Path):
    path = package / FILES["o200k_base"]
    whole = path.read_bytes()
    other = (package / FILES["cl100k_base"]).read_bytes()
    changed = whole.replace(b" 1000\n", b" 1001\n", 1)
    assert changed != whole
    path.write_bytes({"cut": whole[:100_000], "changed": changed, "empty": b"", "another": other}[fault])
    told = watched(package, tmp_path)
    assert "o200k_base" in told["unavailable:"]


def test_without_a_file_the_estimate_serves(package: Path, tmp_path: Path):
    (package / FILES["o200k_base"]).unlink()
    told = watched(package, tmp_path)
    assert "o200k_base" in told["unavailable:"]


def test_with_a_folder_in_the_place_of_the_file_the_estimate_serves(package: Path, tmp_path: Path):
    path = package / FILES["o200k_base"]
    path.unlink()
    path.mkdir()
    told = watched(package, tmp_path)
    assert told["unavailable:"].startswith("the tokeniser's file")


@pytest.mark.parametrize("source", ["raise ImportError('no engine')", "raise OSError('no disk')"])
def test_without_a_tokeniser_that_works_the_estimate_serves(source: str, package: Path, tmp_path: Path):
    (package.parents[2] / "tiktoken.py").write_text(f"{source}\n")
    told = watched(package, tmp_path)
    assert told["unavailable:"].startswith("tiktoken ")


@pytest.mark.parametrize("user", [None, "/the/users/own"])
def test_no_child_sees_the_folder_that_is_lent(user: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    if user is None:
        monkeypatch.delenv(exact.CACHE_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(exact.CACHE_VARIABLE, user)
    with lent(exact.CACHE_VARIABLE, str(tmp_path)):
        assert os.environ[exact.CACHE_VARIABLE] == str(tmp_path)
        assert own_variables().get(exact.CACHE_VARIABLE) == user
        child = subprocess.run(["env"], env=child_environment(), capture_output=True, text=True, check=True)
        assert str(tmp_path) not in child.stdout
        assert child_environment().get(exact.CACHE_VARIABLE) == user
        assert child_environment({"A": "b"})["A"] == "b"
    assert os.environ.get(exact.CACHE_VARIABLE) == own_variables().get(exact.CACHE_VARIABLE) == user
    with pytest.raises(ZeroDivisionError), lent(exact.CACHE_VARIABLE, str(tmp_path)):
        raise ZeroDivisionError
    assert os.environ.get(exact.CACHE_VARIABLE) == user


def test_children_may_be_started_while_it_is_lent_and_given_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv(exact.CACHE_VARIABLE, raising=False)
    ends = threading.Event()

    def lend() -> None:
        while not ends.is_set():
            with lent(exact.CACHE_VARIABLE, str(tmp_path)):
                pass

    thread = threading.Thread(target=lend)
    thread.start()
    try:
        seen = [child_environment().get(exact.CACHE_VARIABLE) for _ in range(500)]
    finally:
        ends.set()
        thread.join()
    assert seen == [None] * 500
