"""Run commands in bubblewrap, watched by strace, in a workspace full of canaries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from codelet.system.process import child_environment

SECRET = "CANARY-7f3a91c2e8"
TIME_LIMIT = 60.0
"""Seconds: `locale --charmaps` unpacks two hundred files, each watched by strace."""
_HOSTILE = ("core.fsmonitor", "diff.external", "core.pager", "diff.d.textconv", "filter.f.clean", "gpg.program")


class Jail:
    """A workspace with a hostile repository, a home and a folder outside, each with a planted secret."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.home, self.outside = folder / "workspace", folder / "home", folder / "outside"
        self.log = folder / "log"
        for place in (self.workspace, self.home / ".ssh", self.outside, self.log):
            place.mkdir(parents=True)
        self._plant()
        self._make_repository()
        self.before = self.snapshot()

    def _plant(self) -> None:
        files = {
            "a.txt": "one 1\ntwo 2\n1\n",
            "b.txt": "1\n2\n",
            "a.json": '{"name": "x", "items": [1, 2]}\n',
            "src/app.py": "def main():\n    return 1\n",
            "docs/x y.md": "# docs\n",
            "script.sed": "w PWN\n",
            "opts": "--output=PWN\n",
            "-rf": "",
            "-oPWN": "",
            "pwn": "#!/bin/sh\ntouch PWN\n",
            ".env": f"KEY={SECRET}\n",
            "deploy/id_ed25519": f"{SECRET}\n",
        }
        for name, text in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.workspace / "pwn").chmod(0o755)
        (self.outside / "secret.txt").write_text(f"{SECRET}\n")
        (self.home / ".ssh" / "id_rsa").write_text(f"{SECRET}\n")
        (self.workspace / "link_out").symlink_to("../outside/secret.txt")
        (self.workspace / "linkdir").symlink_to("../outside")
        (self.workspace / "inner_link").symlink_to("a.txt")
        for name in ("objects", "refs"):
            (self.workspace / "emb" / name).mkdir(parents=True)
        (self.workspace / "emb" / "HEAD").write_text("ref: refs/heads/main\n")
        (self.workspace / "emb" / "config").write_text("[core]\n\tbare = true\n\tfsmonitor = ../pwn\n")

    def _make_repository(self) -> None:
        def git(*words: str) -> None:
            identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
            subprocess.run(["git", "-C", str(self.workspace), *identity, *words], check=True, capture_output=True)

        git("init", "-q", "-b", "main")
        git("add", "a.txt", "a.json", "src")
        git("commit", "-qm", "one")
        git("branch", "other")
        (self.workspace / "a.txt").write_text("one 1\ntwo 2\n1\nthree\n")
        git("commit", "-qam", "two")
        (self.workspace / "b.txt").write_text("1\n2\n3\n")
        git("add", "b.txt")
        git("stash", "-q")
        (self.workspace / "a.txt").write_text("one 1\ntwo 2\n1\nfour\n")
        (self.workspace / "b.txt").write_text("1\n2\n")
        for key in _HOSTILE:
            git("config", key, "./pwn")
        (self.workspace / ".gitattributes").write_text("*.txt diff=d filter=f\n")

    def snapshot(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for place in (self.workspace, self.home, self.outside):
            for folder, folders, files in os.walk(place):
                for name in (*folders, *files):
                    facts = os.lstat(f"{folder}/{name}")
                    if (facts.st_mode & 0o170000) != 0o040000:
                        found[f"{folder}/{name}"] = (facts.st_mode, facts.st_size, facts.st_mtime_ns)
                    else:
                        found[f"{folder}/{name}"] = (facts.st_mode, 0, 0)
        return found

    def run(self, command: str) -> list[str]:
        """Return the command's forbidden effects, none if it only read."""
        trace = self.log / "trace"
        traced = ["strace", "-f", "-qq", "-e", "trace=socket,execve,openat,open", "-o", str(trace)]
        environment = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(self.home), "FAKE_API_KEY": SECRET})
        argv = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        argv += ["--unshare-pid", "--unshare-net", "--die-with-parent", "--chdir", str(self.workspace)]
        for place in (self.workspace, self.home, self.outside, self.log):
            argv += ["--bind", str(place), str(place)]
        watched = traced if shutil.which("strace") else []
        try:
            done = subprocess.run(
                [*argv, *watched, "bash", "-c", command],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIME_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ["it outlived its limit"]
        wrong = []
        if SECRET.encode() in done.stdout + done.stderr:
            wrong.append("it printed a secret")
        after = self.snapshot()
        if after != self.before:
            wrong.append(f"it wrote {sorted(set(after.items()) ^ set(self.before.items()))[:3]}")
            self.before = after
        if watched:
            wrong += self._traced(trace.read_text(errors="replace"))
        return wrong

    def _traced(self, trace: str) -> list[str]:
        wrong = []
        if found := re.search(r"socket\(AF_(?!UNIX)\w+", trace):
            wrong.append(f"it opened a socket: {found.group()}")
        for found in re.finditer(r'execve\("([^"]+)"[^\n]*= 0', trace):
            path = os.path.normpath(self.workspace / found[1])
            if path.startswith(str(self.workspace)):
                wrong.append(f"it ran {path}")
        for found in re.finditer(
            r'open(?:at)?\([^"\n]*"([^"]*(?:\.env|id_ed25519|secret\.txt|id_rsa|link_out))"[^\n]*= \d', trace
        ):
            wrong.append(f"it opened {found[1]}")
        return wrong
