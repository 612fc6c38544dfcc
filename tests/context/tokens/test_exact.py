"""Exact counts without a download: whatever the machine lacks, nothing is fetched, written or deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

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
    package.chmod(0o555)
    try:
        assert watched(package, tmp_path, name, TIKTOKEN_CACHE_DIR=str(tmp_path))["counted"] == "2"
    finally:
        package.chmod(0o755)


@pytest.mark.parametrize("broken", ["changed", "empty", "missing", "folder", "no engine"])
def test_with_a_broken_file_or_engine_the_estimate_serves_and_the_file_stays(
    broken: str, package: Path, tmp_path: Path
):
    path = package / FILES["o200k_base"]
    whole = path.read_bytes()
    path.unlink()
    if broken == "folder":
        path.mkdir()
    elif broken != "missing":
        path.write_bytes({"changed": whole.replace(b" 1000\n", b" 1001\n", 1), "empty": b""}.get(broken, whole))
    if broken == "no engine":
        (package.parents[2] / "tiktoken.py").write_text("raise ImportError('no engine')\n")
    assert "o200k_base" in watched(package, tmp_path)["unavailable:"]
