"""Repositories whose own configuration and attributes start programs: what a clone can bring."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def configure(repo: Path, *settings: str) -> None:
    for setting in settings:
        key, _, value = setting.partition("=")
        git(repo, "config", key, value)


def submodule(repo: Path, payload: str) -> None:
    inner = repo / "mod"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x").write_text("x")
    git(inner, "add", "x")
    git(inner, "commit", "-qm", "x")
    git(repo, "add", "mod")
    git(repo, "commit", "-qm", "submodule")
    configure(inner, f"core.fsmonitor={payload}", f"filter.f.clean={payload}", f"diff.external={payload}")
    (inner / ".gitattributes").write_text("* filter=f diff=f\n")
    (inner / "x").write_text("changed")


def attribute(line: str, *settings: str) -> Callable[[Path, str], None]:
    def set_up(repo: Path, payload: str) -> None:
        (repo / ".gitattributes").write_text(line + "\n")
        configure(repo, *(setting.replace("PAYLOAD", payload) for setting in settings))

    return set_up


def plain(*settings: str) -> Callable[[Path, str], None]:
    return lambda repo, payload: configure(repo, *(setting.replace("PAYLOAD", payload) for setting in settings))


def hooks(repo: Path, payload: str) -> None:
    folder = repo / ".hooks"
    folder.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "query-watchman"):
        (folder / name).write_text(f"#!/bin/sh\n{payload}\n")
        (folder / name).chmod(0o755)
    configure(repo, f"core.hooksPath={folder}", f"core.fsmonitor={folder}/query-watchman")


def promisor(repo: Path, payload: str) -> None:
    configure(
        repo,
        "core.repositoryFormatVersion=1",
        "extensions.partialClone=origin",
        f"remote.origin.url=ext::{payload}",
        "remote.origin.promisor=true",
        "protocol.ext.allow=always",
    )
    blob = subprocess.run(
        ["git", "-C", str(repo), "rev-parse", "HEAD:a.txt"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


SET_UPS: dict[str, Callable[[Path, str], None]] = {
    "fsmonitor": plain("core.fsmonitor=PAYLOAD"),
    "hooks": hooks,
    "external diff": plain("diff.external=PAYLOAD"),
    "diff driver": attribute("* diff=d", "diff.d.command=PAYLOAD"),
    "text converter": attribute("* diff=d", "diff.d.textconv=PAYLOAD"),
    "clean filter": attribute("* filter=f", "filter.f.clean=PAYLOAD", "filter.f.required=true"),
    "smudge filter": attribute("* filter=f", "filter.f.smudge=PAYLOAD"),
    "process filter": attribute("* filter=f", "filter.f.process=PAYLOAD"),
    "filter with a point and a blank": attribute("* filter=f.g", "filter.f.g.clean=PAYLOAD"),
    "pager": plain("core.pager=PAYLOAD", "pager.log=PAYLOAD", "pager.status=PAYLOAD", "pager.diff=PAYLOAD"),
    "signature program": plain("log.showSignature=true", "gpg.program=PAYLOAD", "format.pretty=%h %G?"),
    "ssh signature": plain("log.showSignature=true", "gpg.format=ssh", "gpg.ssh.program=PAYLOAD"),
    "alias": plain("alias.status=!PAYLOAD", "alias.log=!PAYLOAD"),
    "submodule": submodule,
    "submodule log": lambda repo, payload: (
        submodule(repo, payload),
        configure(repo, "diff.submodule=diff", "status.submoduleSummary=true", "submodule.recurse=true"),
    )[0],
    "remerge": lambda repo, payload: attribute("* merge=m", "merge.m.driver=PAYLOAD", "log.diffMerges=remerge")(
        repo, payload
    ),
    "missing objects": promisor,
    "editor and others": plain("core.editor=PAYLOAD", "core.sshCommand=PAYLOAD", "core.askPass=PAYLOAD"),
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A repository with two commits, a merge, a stash, a change, and a folder."""
    folder = tmp_path / "repo"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for text in ("one\n", "one\ntwo\n"):
        (folder / "a.txt").write_text(text)
        (folder / "sub" / "b.txt").write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", text.strip().replace("\n", " "))
    git(folder, "checkout", "-qb", "other", "HEAD~1")
    (folder / "a.txt").write_text("zero\none\n")
    git(folder, "commit", "-qam", "other")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "-m", "merge", "-X", "ours", "other")
    (folder / "a.txt").write_text("stashed\n")
    git(folder, "stash", "-q")
    (folder / "a.txt").write_text("changed\n")
    return folder
