"""Paths: containment, links, secrets, protected and delicate names."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from fnmatch import translate
from pathlib import Path

import pytest

from codelet.safety import paths
from codelet.safety.opener import open_file, status_of
from codelet.safety.paths import LENGTH_CAP, Access, contained, judge_path, relative_name, why_unread


def one_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def test_names_with_stars_are_read_as_the_shell_reads_them() -> None:
    """Each pattern with nothing, something and another piece for its stars, and each short of a piece.

    It is the first one here as patterns are parsed once: so it is seen to run what parses them.
    """
    secret, harmless = one_of(paths.SECRET_FILES), one_of(paths.NOT_SECRET)
    delicate = one_of(paths.DELICATE_FILES)
    every = (*paths.SECRET_FILES, *paths.NOT_SECRET, *paths.DELICATE_FILES)
    names = {one.replace("*", for_stars) for one in every for for_stars in ("", "x", "x.y", one.rpartition("*")[2])}
    pieces = [one.split("*") for one in every]
    names |= {"x".join(one[:at] + one[at + 1 :]) for one in pieces for at in range(len(one))}
    names |= {"x".join(one[::-1]) for one in pieces}
    names |= {re.sub(r"(.)\*\1", r"\1", one) for one in every}  # two pieces that share a letter
    names |= {name for one in names for name in (f"x{one}", f"{one}x", f"x{one}x")}
    plain = sorted(name for name in names if name and "/" not in name and not name.endswith(paths.COPIES))
    assert len(plain) > 500
    for name in plain:
        spelled = (name, name.removeprefix("."))
        kept = any(map(secret.fullmatch, spelled)) and not harmless.fullmatch(name)
        assert (why_unread(name) is not None) == kept, name
        assert (paths.delicate(name) is not None) == bool(delicate.fullmatch(name)), name
    assert paths.delicate("agents.md/plain.txt") is None, "a folder of that name"


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("a.txt", "allow"),
        ("new/deep/file.txt", "allow"),
        (".", "allow"),
        ("./src//app.py", "allow"),
        (".github/CODEOWNERS", "allow"),
        (".env.example", "allow"),
        ("src/token.py", "allow"),
        ("../x", "ask"),
        ("/etc/passwd", "ask"),
        ("~/.ssh/id_rsa", "ask"),
        ("../workspace-secrets/key", "ask"),
        (".env", "ask"),
        (".ENV", "ask"),
        (".env.local", "ask"),
        ("deploy/id_ed25519", "ask"),
        ("x/credentials.json", "ask"),
        (".aws/config", "ask"),
        (".git/config", "ask"),
        (".git/config.worktree", "ask"),
        ("certs/server.key", "ask"),
        ("/dev/zero", "deny"),
        ("/proc/self/environ", "deny"),
        ("/sys/kernel", "deny"),
        ("/proc/../proc/1/root/etc/shadow", "deny"),
        ("a.txt\0.png", "deny"),
        ("a\ud800", "deny"),
    ],
)
def test_reading(workspace: Path, path: str, action: str) -> None:
    assert judge_path(path, "read", workspace).action == action


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("a.txt", "allow"),
        ("new/deep/file.txt", "allow"),
        (".gitignore", "allow"),
        ("src/hooks/useThing.ts", "allow"),
        ("AGENTS.md", "ask"),
        ("docs/CLAUDE.md", "ask"),
        (".github/workflows/ci.yml", "ask"),
        (".gitlab-ci.yml", "ask"),
        (".gitattributes", "ask"),
        (".husky/pre-commit", "ask"),
        (".envrc", "ask"),
        (".bashrc", "ask"),
        (".env", "ask"),
        ("package/.npmrc", "ask"),
        (".git", "deny"),
        (".git/config", "deny"),
        (".GIT/hooks/x", "deny"),
        ("sub/.git/hooks/post-checkout", "deny"),
        (".codelet/config.toml", "deny"),
        (".codelet/new/x", "deny"),
        (".claude/settings.json", "deny"),
        (".vscode/settings.json", "deny"),
        (".mcp.json", "deny"),
        (".cursor/mcp.json", "deny"),
        ("../x", "deny"),
        ("/etc/cron.d/x", "deny"),
        ("~/.bashrc", "deny"),
        ("/dev/null/x", "deny"),
        ("/proc/self/mem", "deny"),
    ],
)
def test_writing(workspace: Path, path: str, action: str) -> None:
    assert judge_path(path, "write", workspace).action == action


def test_links(places: tuple[Path, Path]) -> None:
    workspace, outside = places
    (workspace / "out").symlink_to(outside / "secret.txt")
    (workspace / "outdir").symlink_to(outside)
    (workspace / "inner").symlink_to("a.txt")
    (workspace / "hidden").symlink_to(".env")
    (workspace / "hook").symlink_to(".git/hooks")
    (workspace / "loop1").symlink_to("loop2")
    (workspace / "loop2").symlink_to("loop1")
    (workspace / "gone").symlink_to(outside / "not-there")
    (workspace / "environment").symlink_to("/proc/self/environ")
    os.link(outside / "secret.txt", workspace / "hard")
    assert judge_path("out", "read", workspace).action == "ask"
    assert judge_path("out", "write", workspace).action == "deny"
    assert judge_path("outdir/new", "write", workspace).action == "deny"
    assert judge_path("inner", "read", workspace).action == "allow"
    assert judge_path("inner", "write", workspace).action == "allow"
    assert judge_path("hidden", "read", workspace).action == "ask"
    assert judge_path("hook/pre-commit", "write", workspace).action == "deny"
    loop = judge_path("loop1", "read", workspace)
    assert loop.action == "deny" and loop.reason == f"loop1: {os.strerror(errno.ELOOP)}"
    assert judge_path("gone", "write", workspace).action == "deny"
    assert judge_path("hard", "write", workspace).action == "ask"
    kernel = judge_path("environment", "read", workspace)
    assert kernel.action == "deny" and kernel.reason.startswith("/proc ")


def test_what_is_no_file(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    assert judge_path("pipe", "read", workspace).action == "deny"
    assert judge_path("x" * 300, "read", workspace).action == "deny"


def test_a_linked_workspace_is_the_place_it_leads_to(places: tuple[Path, Path]) -> None:
    workspace, outside = places
    linked = outside / "link"
    linked.symlink_to(workspace)
    assert judge_path("a.txt", "write", linked).action == "allow"
    assert judge_path(str(workspace / "a.txt"), "write", linked).action == "allow"
    assert judge_path("../secret.txt", "read", linked).action == "ask"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x/" * 128, ""),
        ("x/" * 129, "too long"),
        ("x" * 4_097, "too long"),
        ("a\0b", "NUL"),
        ("a\ud800b", "Unicode"),
        ("a\udfff", "Unicode"),
        ("a\ue000", ""),
    ],
    ids=["deep", "too deep", "long", "NUL", "first half", "last half", "beyond"],
)
def test_what_is_no_path_is_denied_with_its_reason(tmp_path: Path, text: str, word: str) -> None:
    found = judge_path(text, "read", tmp_path)
    assert (found.action == "deny", word in found.reason) == (bool(word), True)


def test_another_name_of_a_file_asks_before_a_write_a_folder_does_not(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("x\n")
    assert judge_path("one.txt", "write", tmp_path).action == "allow"
    (tmp_path / "two.txt").hardlink_to(tmp_path / "one.txt")
    found = judge_path("one.txt", "write", tmp_path)
    assert (found.action, found.reason.partition(" has ")[2][:12]) == ("ask", "another name")
    assert judge_path("one.txt", "read", tmp_path).action == "allow"
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    assert judge_path("folder", "write", tmp_path).action == "allow"


@pytest.mark.parametrize(
    ("path", "access", "reason", "sensitive"),
    [
        ("a.txt", "read", "reads ", False),
        ("a.txt", "write", "writes ", False),
        (".env", "list", "reads ", False),
        (".env", "read", ".env ", True),
        (".env", "write", ".env ", True),
        ("AGENTS.md", "write", "AGENTS.md ", True),
        (".git/config", "write", ".git/config ", False),
        ("/etc/passwd", "list", "/etc/passwd is outside", False),
        ("/etc/passwd", "write", "/etc/passwd is outside", False),
    ],
)
def test_a_verdict_names_the_place_and_says_whether_its_name_is_sensitive(
    workspace: Path, path: str, access: Access, reason: str, sensitive: bool
) -> None:
    found = judge_path(path, access, workspace)
    assert found.place == Path(os.path.realpath(workspace / path))
    assert (found.reason.startswith(reason), found.sensitive) == (True, sensitive), found.reason


def test_a_path_starts_where_the_command_stands_and_at_home_by_a_tilde(workspace: Path) -> None:
    (workspace / "sub").mkdir(exist_ok=True)
    inner = judge_path("b.txt", "read", workspace, str(workspace / "sub"))
    assert inner.place == Path(os.path.realpath(workspace)) / "sub" / "b.txt"
    home = judge_path("~/notes", "read", workspace)
    assert home.place == Path(os.path.realpath(Path.home() / "notes"))
    for text, shell in (("~/notes", True), ("~nobody-of-this-name/notes", False)):
        plain = judge_path(text, "read", workspace, shell=shell)
        assert plain.place == Path(os.path.realpath(workspace)) / text, "it is the name of a folder"


def test_the_longest_path_is_looked_at(tmp_path: Path) -> None:
    longest = "x/../" * 100 + "y"
    assert judge_path("./" * 20 + "y", "read", tmp_path).action == "allow"
    text = "." + "/" * 100 + "x" * (LENGTH_CAP - 101)
    assert "too long" not in judge_path(text, "read", tmp_path).reason.replace(os.strerror(errno.ENAMETOOLONG), "")
    assert judge_path(longest, "read", tmp_path).action == "deny", "more than 128 slashes"
    assert judge_path("/dev/null", "read", tmp_path).action == "deny"
    (tmp_path / "file").write_text("x")
    assert judge_path("file/below", "read", tmp_path).action == "allow", "it is not there, and says so when it is read"


def test_containment_is_by_component(tmp_path: Path) -> None:
    assert contained("/a/b", "/a/b") and contained("/a/b/c", "/a/b") and contained("/a", "/")
    assert not contained("/a/bc", "/a/b") and not contained("/a", "/a/b")
    assert relative_name(tmp_path / "x" / "y", tmp_path) == "x/y"
    assert relative_name(tmp_path, tmp_path) == "."
    assert relative_name("/elsewhere", tmp_path) == "/elsewhere"


def test_what_is_not_read_unasked_is_outside_or_has_the_name_of_a_secret() -> None:
    assert why_unread("/work/a.txt", "/work") is None
    assert "outside" in (why_unread("/other/a.txt", "/work") or "")
    assert why_unread("a.txt", "/work") is None and why_unread("a.txt") is None
    for path, root in (("/work/.env", "/work"), (".env", "/work"), (".env", "")):
        assert why_unread(path, root)
    assert why_unread("/.aws/project/a.txt", "/.aws/project") is None, "only what is below the workspace counts"


def test_what_is_opened_at_a_place_leaves_nothing_open_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "link").symlink_to("a.txt")
    before = os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd")
    for _ in range(3):
        os.close(open_file(tmp_path / "a.txt", os.O_RDONLY))
        assert stat.S_ISLNK(status_of(tmp_path / "link").st_mode)
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            open_file(tmp_path / "link", os.O_RDONLY)
    assert stat.S_ISDIR(status_of(Path("/")).st_mode)
    assert len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd")) == len(before)
