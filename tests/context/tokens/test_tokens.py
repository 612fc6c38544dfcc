"""The estimate: its numbers and its calibration; exact counts, without a download."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from codelet.context import ContextWindow
from codelet.context.tokens import Budget, characters, estimate_message, estimate_text, exact, picture_tokens
from codelet.conversation import Conversation
from codelet.messages import assistant, tool_call, user
from codelet.usage import Usage


def test_a_quarter_of_the_characters_and_four_more():
    assert estimate_text("12345") == 2
    assert estimate_message({"role": "user", "content": "12345678"}) == 6
    assert estimate_message({"role": "user", "content": None}) == 4
    assert estimate_message({"role": "user", "content": [{"type": "text", "text": "1234"}]}) == 5
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    assert characters({"role": "assistant", "content": "", "tool_calls": [call]}) > len("c1functionread{}")
    assert characters({"role": "tool", "tool_call_id": "c1", "content": "ok"}) == 4


def test_calibration_follows_the_provider_within_bounds():
    window, conversation = ContextWindow(Budget(1 << 30), 0), Conversation()

    def report(tokens: int, times: int, characters: int = 3_984) -> None:
        for _ in range(times):
            window.forget()
            conversation.clear()
            conversation.append(user("x" * characters))
            usage = Usage(total_input=tokens, cache_read=0, cache_write=0, output=0, reasoning=0)
            window.measured(usage, conversation, len(conversation.body))

    report(1_400, 40)
    assert 1_390 <= window.factor <= 1_400
    report(90_000, 40)
    assert window.factor == pytest.approx(2_000, abs=3)
    report(334, 60)
    assert window.factor == pytest.approx(700, abs=3)
    before = window.factor
    report(5_000, 1, characters=40)
    assert window.factor == before
    assert window.characters(window.estimate(user("x" * 3_984))) == pytest.approx(4_000, rel=0.01)


def test_exact_counts_come_from_the_bundled_files():
    assert [exact.count_tokens(text) for text in ("hello world", "", "<|endoftext|>")] == [2, 0, 7]
    assert exact.count_tokens(" " * 1_000_000) > 0, "the library panics at that many"
    assert exact.count_tokens("hello world", "o200k_base") == 2
    models = ("openai/gpt-4o-mini", "anthropic/claude-sonnet-4")
    assert [exact.encoding_name(model) for model in models] == ["o200k_base", "cl100k_base"]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(exact.count_tokens, ["a b c"] * 8)) == [3] * 8


def test_a_picture_counts_by_its_size_up_to_what_vendors_make_of_a_large_one():
    def tokens(*sizes: tuple[int, int]) -> int:
        pictures = [
            {"name": "a.png", "media_type": "image/png", "data": "", "width": width, "height": height}
            for width, height in sizes
        ]
        return picture_tokens({"role": "user", "content": "", "images": pictures})

    assert [tokens((75, 10)), tokens((75, 11)), tokens((75, 10), (150, 10))] == [1, 2, 3]
    assert tokens((1_200, 1_000)) == tokens((90_000, 90_000)) == 1_600


def test_a_request_is_counted_with_its_calls_and_what_stands_beside_it():
    alone = exact.exact_size([user("hello world")], [], "anthropic/x")
    assert exact.exact_size([user("hello world")], ["hello world", "", "hello"], "anthropic/x") == alone + 3
    calling = [assistant("hello", [tool_call("c1", "read", '{"path": "a.py"}')])]
    assert exact.exact_size(calling, [], "openai/gpt-4o") > exact.exact_size([assistant("hello")], [], "openai/gpt-4o")
    assert exact.has_own_encoding("openai/gpt-4o") and not exact.has_own_encoding("openai/gpt-oss:20b")


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
