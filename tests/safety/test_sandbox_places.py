"""The places that a sandbox hides, protects and shows, with real files, and its command lines."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from codelet.safety.sandbox.command_lines import Bounds, bubblewrap_argv, landlock_argv, writable_root
from codelet.safety.sandbox.places import (
    Secrets,
    find_attributes,
    home_in_system,
    protected_places,
    seen_places,
)
from tests.support import repo as repositories


@pytest.fixture
def root(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace that is no repository; the home is empty, and the settings' folder is in it."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")


def inside(root: Path, places: list[str]) -> list[str]:
    """The places in a folder, relative to it."""
    return [place[len(str(root)) + 1 :] for place in places if place.startswith(f"{root}/")]


def test_secrets_of_the_workspace_are_hidden_from_what_only_reads(root: Path, home: Path) -> None:
    make(root, ".env", "a/b/id_rsa", "a/plain.txt", ".git/config", ".git/credentials")
    (root / "a" / "token.pem").mkdir()
    (root / "a" / "real.txt").write_text("x\n")
    (root / "b.pem").symlink_to(root / "a" / "real.txt")
    (root / "c.pem").symlink_to(root / "nowhere")
    secrets = Secrets(str(root))
    assert inside(root, secrets.hidden_from("ls", "read-only")) == [".env", "a/b/id_rsa", "a/real.txt"]
    assert inside(root, secrets.hidden_from("ls", "workspace")) == []
    (root / "again").symlink_to(root / "a")
    assert inside(root, Secrets(str(root)).of_workspace()) == [".env", "a/b/id_rsa", "a/real.txt"], "each once"
    make(root, "a/b/.env")
    (root / ".env").unlink()
    assert inside(root, secrets.of_workspace()) == ["a/b/.env", "a/b/id_rsa", "a/real.txt"], "listed again"


def test_a_folder_whose_time_was_set_is_looked_into(root: Path) -> None:
    """A command could set it back, to hide a repository that it made."""
    make(root, "a/x", "b/x")
    secrets = Secrets(str(root))
    os.utime(root / "a", (0, 0))
    assert (secrets.of_workspace(), secrets.repositories()) == ([], set())
    for name in ("a", "b"):
        before = (root / name).stat()
        make(root, f"{name}/.env", f"{name}/.git/config")
        os.utime(root / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert inside(root, secrets.of_workspace()) == ["a/.env", "b/.env"]
    assert inside(root, sorted(secrets.repositories())) == ["a/.git", "b/.git"]


def test_secrets_are_looked_for_in_so_many_folders(root: Path) -> None:
    make(root, ".env", "a/.env", "a/b/.env", "a/b/c/.env")
    assert inside(root, Secrets(str(root), most=2).of_workspace()) == [".env", "a/.env"]


def test_repositories_are_looked_for_in_so_many_folders(root: Path) -> None:
    for number in range(3_010):
        (root / f"{number}" / ".git").mkdir(parents=True)
    make(root, "1/.git/modules/x/.git/config")
    assert len(Secrets(str(root)).repositories()) == 2_999, "the workspace itself is one of the 3,000 folders"


def test_secrets_of_a_home_that_is_seen_are_hidden_from_every_command(root: Path, home: Path) -> None:
    make(home, ".ssh/config", ".config/gh/hosts.yml", ".netrc", ".config/tool/credentials.json", "notes.txt")
    make(home, ".config/tool/deep/down/credentials.json", "sub/.env", ".cargo/credentials.toml")
    (home / ".aws").write_text("a file, no folder\n")
    settings = [".config/gh", ".config/gh/hosts.yml", ".config/tool/credentials.json"]
    expected = [".aws", ".cargo/credentials.toml", *settings, ".netrc", ".ssh"]
    for kind in ("workspace", "read-only"):
        assert inside(home, Secrets(str(root), open_home=True).hidden_from("ls", kind)) == expected
        assert inside(home, Secrets(str(home)).hidden_from("ls", kind))[: len(expected)] == expected, (
            "it is the workspace"
        )
        assert inside(home, Secrets(str(root)).hidden_from("ls", kind)) == [], "nothing of it is there"


def test_a_workspace_in_a_secret_folder_is_not_hidden_from_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    make(home, ".ssh/work/a.txt", ".netrc")
    assert inside(home, Secrets(str(home / ".ssh" / "work")).of_home()) == [".netrc"]


@pytest.mark.needs("git")
def test_what_git_keeps_is_left_to_git(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = repositories.plain(root / "repo", {".env": "A=1\n", "a.txt": "x\n"})
    make(folder, "id_rsa")
    secrets = Secrets(str(folder))
    assert inside(folder, secrets.hidden_from("git status", "read-only")) == ["id_rsa"]
    assert inside(folder, secrets.hidden_from("git status -s && git diff | head -n 5", "read-only")) == ["id_rsa"]
    for line in (
        "ls",
        "cat .e*; : git",
        "git log; cat .e*",
        "git log | grep -f .env",
        "git status $(cat .env)",
        "git &",
    ):
        assert inside(folder, secrets.hidden_from(line, "read-only")) == [".env", "id_rsa"], line
    make(root, "plain/.env")
    assert inside(root / "plain", Secrets(str(root / "plain")).hidden_from("git status", "read-only")) == [".env"]
    monkeypatch.setenv("PATH", str(root))
    assert inside(folder, secrets.hidden_from("git status", "read-only")) == [], "git does not say: it may be all"


@pytest.mark.needs("git")
def test_where_git_fails_what_it_keeps_is_not_guessed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repositories.plain(root / "repo", {".env": "A=1\n"})
    git = tmp_path / "failing" / "git"
    git.parent.mkdir()
    git.write_text("#!/bin/sh\nexit 3\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:{os.environ['PATH']}")
    assert inside(folder, Secrets(str(folder)).hidden_from("git status", "read-only")) == []


def test_what_programs_outside_obey_cannot_be_written(root: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(root, "AGENTS.md", "src/AGENTS.md", "a.txt", ".git/config", "venv/pyvenv.cfg", "tools/bin/x", "kept.jsonl")
    make(root, "pyvenv.cfg", "other/a", "conf/codelet/settings.toml")
    (root / "linked").symlink_to(root / "venv")
    (root / "CLAUDE.md").symlink_to(root / "a.txt")
    monkeypatch.setenv("PATH", f"{root}/tools/bin:relative:{root}/gone:/usr/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{root}/conf")
    found = inside(root, protected_places(root, [root / "kept.jsonl", root / "absent"]))
    assert found == [".git", "AGENTS.md", "conf/codelet", "kept.jsonl", "tools/bin", "venv"]
    assert protected_places(root / "gone") == []
    monkeypatch.delenv("XDG_CONFIG_HOME")
    make(home, ".config/codelet/settings.toml")
    assert ".config/codelet" in inside(home, protected_places(home))


@pytest.mark.needs("git")
def test_the_repository_and_the_programs_are_seen_wherever_they_are(root: Path, tmp_path: Path) -> None:
    folder = repositories.plain(root / "repo")
    (tmp_path / "bin").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "bin")
    make(folder, "sub/a.txt")
    seen = seen_places(str(folder / "sub"), {"PATH": f"{tmp_path}/way:relative:{tmp_path}/gone:/"})
    assert seen[0] == str(folder) and str(folder / ".git") in seen
    assert {str(tmp_path / "bin"), str(tmp_path / "way")} <= set(seen), "as spelled, and resolved"
    assert any(os.path.realpath(sys.prefix).startswith(place) for place in (*seen, "/usr"))
    assert "/" not in seen and str(tmp_path / "gone") not in seen and len(seen) == len(set(seen))
    assert str(folder) not in seen_places(str(tmp_path), {})


@pytest.mark.needs("git")
def test_a_repository_that_holds_the_home_shows_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = repositories.plain(tmp_path / "home")
    make(home, "work/a.txt")
    monkeypatch.setenv("HOME", str(home))
    seen = seen_places(str(home / "work"), {})
    assert not {str(home), str(home / ".git")} & set(seen)
    assert str(home / ".git") in seen_places(str(home), {})


def test_of_the_home_toolchains_are_seen_and_no_more(root: Path, home: Path, tmp_path: Path) -> None:
    make(home, ".cargo/bin/cargo", ".cargo/credentials.toml", ".pyenv/shims/python", ".config/tool/key", "notes.txt")
    make(home, "opt/node/bin/node", "opt/node/lib/x.js", "scripts/bin/x", ".local/bin/tool", ".local/share/keyrings/k")
    make(home, ".gitconfig", "data/a.txt", "jdk/bin/java", ".config/git/config")
    (home / ".config/git/config").write_text("[url]\n\tinsteadOf = https://u:p@h/\n")
    make(tmp_path, "rust/toolchains/x")
    (home / ".rustup").symlink_to(tmp_path / "rust")
    search = ":".join(f"{home}/{folder}" for folder in ("opt/node/bin", "scripts/bin", ".local/bin", "missing/bin"))
    environment = {"PATH": search, "JAVA_HOME": f"{home}/jdk"}
    seen = seen_places(str(root), environment, ("~/data", f"{home}/absent"))
    assert sorted(inside(home, seen)) == [
        ".cargo/bin", ".gitconfig", ".local/bin", ".pyenv", ".rustup", "data", "jdk", "opt/node", "scripts/bin",
    ]  # fmt: skip
    assert str(tmp_path / "rust") in seen, "where the link leads"
    assert inside(home, seen_places(str(home), environment)) == [], "it is the workspace: all of it is seen"


@pytest.mark.needs("git")
def test_of_a_git_file_that_leads_elsewhere_only_what_points_back_is_seen(root: Path) -> None:
    ours = repositories.plain(root / "ours")
    repositories.git(ours, "worktree", "add", "-q", str(root / "linked"))
    make(root, "stray/a.txt")
    (root / "stray" / ".git").write_text(f"gitdir: {ours}/.git\n")
    assert str(ours / ".git") in seen_places(str(root / "linked"), {})
    assert str(ours / ".git") not in seen_places(str(root / "stray"), {})


def test_a_home_among_the_folders_of_the_system_is_not_shown_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for home, search, hidden in (
        ("/usr/share/me", "/usr/bin", "/usr/share/me"),
        ("/usr", "/usr/bin", None),
        ("/srv/me", "/usr/bin", None),
        ("/usr/sbin", "/usr/bin::/usr/sbin", None),
    ):
        monkeypatch.setenv("HOME", home)
        assert home_in_system(search) == hidden, home
    monkeypatch.setenv("HOME", "/usr/share/me")
    assert not {"/usr", "/usr/bin"} & set(seen_places("/srv/work", {"PATH": "/usr/bin"})), "they are seen already"


@pytest.mark.needs("git")
def test_attributes_are_mounted_only_over_a_folder_of_the_repository(root: Path) -> None:
    folder = repositories.plain(root / "repo", {"sub/a.txt": "x\n"})
    info = folder / ".git" / "info"
    info.mkdir(exist_ok=True)
    for place in (folder, folder / "sub"):
        found = find_attributes(str(place))
        assert found is not None and found[0] == str(info) and b".[eE][nN][vV] -diff" in found[1]
    assert find_attributes(str(root)) is None, "no repository"
    info.rename(root / "elsewhere")
    assert find_attributes(str(folder)) is None, "there is no such folder"
    info.symlink_to(root / "elsewhere")
    assert find_attributes(str(folder)) is None, "a link may lead out of the repository"


def pairs(argv: list[str], option: str) -> list[str]:
    """The values of a bubblewrap option, in order."""
    return [argv[place + 2] for place, word in enumerate(argv) if word == option]


def test_bubblewrap_is_told_what_can_be_written_seen_and_reached(root: Path) -> None:
    make(root, ".env", "keys/id_rsa", ".git/config")
    secret, keys, git = str(root / ".env"), str(root / "keys"), str(root / ".git")
    bounds = Bounds(root=str(root), protected=(git,), hidden=(secret, keys))
    argv = list(bubblewrap_argv("/usr/bin/bwrap", ["sh", "-c", "ls"], bounds))
    assert argv[0] == "/usr/bin/bwrap" and argv[argv.index("--") :] == ["--", "sh", "-c", "ls"]
    assert pairs(argv, "--bind") == [str(root)] and "--share-net" not in argv
    assert {git, secret}.issubset(pairs(argv, "--ro-bind")) and argv[argv.index(keys) - 1] == "--tmpfs"
    assert argv.index("/usr") < argv.index(str(root)) < argv.index(git) < argv.index(secret), "the later one holds"
    assert "/" not in pairs(argv, "--ro-bind") and argv[argv.index("--remount-ro") + 1] == "/"
    assert "/" in pairs(list(bubblewrap_argv("bwrap", ["ls"], bounds.replace(open_home=True))), "--ro-bind")
    deep = bounds.replace(protected=(f"{root}/a/b/c", f"{root}/a/d", "/elsewhere/x"))
    held = pairs(list(bubblewrap_argv("bwrap", ["ls"], deep)), "--bind")
    assert held == [str(root), f"{root}/a", f"{root}/a/b"], "the folders that lead there, the outer one first"
    sizes = {argv[place + 3]: int(argv[place + 1]) for place, word in enumerate(argv) if word == "--size"}
    assert sizes == {place: 4096 if place == keys else 1 << (30 if place == "/tmp" else 24) for place in sizes}
    assert "/tmp" in sizes and "/var/tmp" in sizes
    reads = list(bubblewrap_argv("bwrap", ["ls"], bounds.replace(kind="read-only", network=True)))
    assert pairs(reads, "--bind") == [] and str(root) in pairs(reads, "--ro-bind") and "--share-net" in reads
    assert git not in reads and "/var/tmp" in argv and "/var/tmp" not in reads
    resolver = os.path.realpath("/etc/resolv.conf")
    assert (pairs(argv, "--ro-bind-try"), pairs(reads, "--ro-bind-try")) == ([], [resolver])


def test_what_commands_need_in_a_folder_that_is_hidden_is_there_to_be_read(root: Path) -> None:
    hidden = os.path.realpath("/tmp")
    needed, own, elsewhere = f"{hidden}/programs", f"{root}/.venv", "/usr/bin"
    for kind in ("workspace", "read-only"):
        bounds = Bounds(root=str(root), kind=kind, seen=(needed, own, elsewhere, hidden), open_home=True)
        argv = list(bubblewrap_argv("bwrap", ["ls"], bounds))
        assert needed in pairs(argv, "--ro-bind") and argv.index("/tmp") < argv.index(needed), "before it, it is hidden"
        assert not {own, elsewhere, hidden} & {*pairs(argv, "--ro-bind"), *pairs(argv, "--bind")}


def test_landlock_grants_all_but_what_is_kept(root: Path) -> None:
    make(root, ".git/config", "a.txt", "src/b.py", "src/keep/c.py")
    (root / "link").symlink_to(root / "a.txt")
    kept = (str(root / ".git"), str(root / "src" / "keep"))
    argv = landlock_argv(["ls", "-l"], Bounds(root=str(root), protected=kept))
    request = json.loads(argv[4])
    assert argv[5:] == ["ls", "-l"] and argv[1:3] == ["-I", "-S"]
    assert sorted(inside(root, request["write"])) == ["a.txt", "src/b.py"]
    assert request["network"] is False and "/" not in request["read"] and "/usr" in request["read"]
    assert {str(root), "/proc"} <= {*request["read"]} & {*request["list"]}
    assert json.loads(landlock_argv(["ls"], Bounds(root=str(root), open_home=True))[4])["read"] == ["/"]
    whole = json.loads(landlock_argv(["ls"], Bounds(root=str(root), network=True))[4])
    assert (whole["write"], whole["network"]) == ([str(root)], True)
    reads = Bounds(root=str(root), kind="read-only", hidden=(str(root / "a.txt"),), protected=(str(root / ".git"),))
    request = json.loads(landlock_argv(["ls"], reads)[4])
    assert request["write"] == [] and str(root / "src") in request["read"]
    assert str(root / "a.txt") not in request["read"] and str(root) not in request["read"]


def test_landlock_grants_no_home_with_the_folders_of_the_system(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/usr/share")
    read = json.loads(landlock_argv(["ls"], Bounds(root=str(root)))[4])["read"]
    assert "/usr/bin" in read and not {"/usr", "/usr/share"} & set(read)


def test_the_whole_file_system_is_no_workspace(root: Path) -> None:
    (root / "way").symlink_to("/")
    for place in (Path("/"), root / "way"):
        with pytest.raises(FileNotFoundError, match="whole file system"):
            writable_root(place)
    (root / "here").symlink_to(root)
    assert writable_root(root / "here") == str(root)
