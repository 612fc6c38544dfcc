"""Shell scripts that are allowed without a sandbox, run by bash where all can be written: none may change a file, run a
planted program or print a planted secret.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from codelet.safety import Policy
from codelet.safety.verdict import Touch
from codelet.system.process import child_environment
from tests.safety.shell.runner import SECRET, Jail

SEDS = ["1p", "s/a/b/", "w PWN", "s/1/2/w PWN", "1e touch PWN", "$=", "/one/d", "r .env"]
BRACKETS = ["[a-z]", "[!x]", "[[:alpha:]]", "[[:punct:]]", "[]k]", "[^]x]"]
TIME_LIMIT = 2
BATCH = 25
EACH = f'for one; do timeout -k 1 {TIME_LIMIT} bash -c "$one" 2>&1 | head -c 100000; done; printf "\\nEND\\n"'
PLANTED = "touch PWN\n"
NAMES = ["-oPWN", "--pre=sh", "-delete", "-i", "--output=PWN", "w PWN", "expire", "-exec", "--", "-p"]
WILD = [
    "*",
    "?",
    "?*",
    "*.txt",
    "src/*",
    "./*",
    "*.py",
    "docs/*",
    "d*",
    "[a-c]*",
    "[!x]*",
    "k",
    "[[:punct:]]*",
    "src/[a-z]*",
]
FILES = [
    "a.txt",
    "b.txt",
    "src/app.py",
    "./a.txt",
    "docs/x?y.md",
    "src",
    ".",
    "a.json",
    "missing",
    '"docs/x y.md"',
    "-",
]
FILES += [
    "../outside/secret.txt",
    ".env",
    "k",
    "link_out",
    "deploy/id_ed25519",
    "linkdir/secret.txt",
    "PWN",
    "$HOME/.ssh/id_rsa",
]
PROGRAMS = ["cat", "cat -n", "head -2", "tail -n +1", "wc -l", "sort", "sort -u", "uniq", "uniq -c", "xxd", "xxd -l 8"]
PROGRAMS += ["grep a", "grep -n one", "grep -r x", "rg x", "rg -n a", "ls -la", "find", "diff a.txt", "cut -c1-3", "nl"]
PROGRAMS += ["awk 1", "awk '{print $1}'", "stat", "file", "od -c", "base64", "md5sum", "echo", "printf '%s\\n'", "tac"]
PROGRAMS += [
    "test -f",
    "basename",
    "realpath",
    "comm a.txt",
    "paste",
    "tr a b <",
    "jq .",
    "column -t",
    "cmp a.txt",
    "less",
]
ENDS = [
    "",
    "",
    "",
    " -p",
    " | xargs wc -l",
    " -print0 | xargs -0 wc",
    " | sort | xargs -I X wc -c X",
    " | xargs cat",
    " -i",
    " -c",
    " -o PWN",
    " > PWN",
    " 2>/dev/null",
    " >/dev/null 2>&1",
    " < a.txt",
    " | wc -l",
    " 2>/dev/null -o PWN",
    " < a.txt -i b.txt",
    " 2>/dev/null a.txt .env",
    " 2>/dev/null .env",
    " < a.txt .env",
]
ENDS += [" | sort", " -type f", " -- a.txt", " PWN", " <<< hello", " | xxd - -p", " && ls", " || ls", "; ls", " | cat"]
FRAMES = ["cd src && {}", "({})", "{{ {}; }}", "! {}", 'echo "$({})"', "{} # done", "cd docs; {}", "if {}; then ls; fi"]
FRAMES += [
    "for f in *.txt; do {}; done",
    'x=$({}); echo "$x"',
    "LC_ALL=C {}",
    "time {}",
    "eval {}",
    "cat <({})",
    "{} &",
]
FRAMES += [
    'for f in {w}; do cat "$f"; done',
    "[ -f a.txt ] && {}",
    "[[ -f a.txt ]] && {}",
    "[[ ! -s {w} ]] || {}",
    "PATH=. {}",
    "command {}",
    "printf -v PATH .; {}",
    "cd {w} && {}",
]
FRAMES += [
    "while {}; do break; done",
    "case a in a) {};; esac",
    "f() {{ {}; }}; f",
    "trap '{}' EXIT",
    "{} <<E\nx\nE",
    "echo $((1+1)); {}",
]


class Lines:
    """Random scripts: harmless ones, and hostile ones that look like them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def script(self) -> str:
        """One script."""
        choose = self.random.choice
        line = self._simple()
        if self.random.random() < 0.3:
            line += choose([" | ", " && ", "; ", " || ", "\n"]) + self._simple()
        if self.random.random() < 0.3:
            frame = choose(FRAMES)
            line = frame.replace("{w}", self._word()).replace("{{", "{").replace("}}", "}").replace("{}", line)
        return line

    def _simple(self) -> str:
        choose = self.random.choice
        if self.random.random() < 0.3:
            options = choose(["-n ", "", "-E ", "-e ", "-ne ", "-s ", "-i ", "-z "])
            file = choose(["a.txt", "cmd.txt", self._word()])
            return f"sed {options}{shlex.quote(choose(SEDS))} {file}{self._end()}"
        words = " ".join(self._word() for _ in range(choose((0, 1, 1, 1, 2))))
        return f"{choose(PROGRAMS)} {words}{self._end()}"

    def _end(self) -> str:
        return self.random.choice(ENDS) if self.random.random() < 0.4 else ""

    def _word(self) -> str:
        kind = self.random.random()
        if kind < 0.5:
            return self.random.choice(FILES[:9] if self.random.random() < 0.8 else FILES)
        if kind < 0.75:
            return self.random.choice(WILD)
        word = self.random.choice(
            ["a.txt", ".env", "k", "src/app.py", "-i", "./-delete", "deploy/id_ed25519", "--pre=sh"]
        )
        at = self.random.randrange(len(word))
        return word[:at] + self.random.choice([*BRACKETS, "?", "*", "??"]) + word[at + 1 :]


class Place(Jail):
    """The jail of the tests with more names; commands run without a trace, so that many can run."""

    def __init__(self, folder: Path, *, hostile: bool) -> None:
        super().__init__(folder)
        if not hostile:
            (self.workspace / "-rf").unlink()
            (self.workspace / "-oPWN").unlink()
        (self.workspace / "cmd.txt").write_text("touch PWN #/\na/b e#x\n")
        (self.workspace / "src" / "b.py").write_text("x = 1\n")
        for name in NAMES if hostile else ():
            (self.workspace / name).write_text(PLANTED)
        for name in (b"k", b"\xff\xc3\xa9x", "é".encode()) if hostile else ():
            os.symlink(b"../outside/secret.txt", os.fsencode(self.workspace) + b"/" + name)
        self.before = self.snapshot()

    def run_all(self, commands: list[str]) -> Iterator[tuple[str, str]]:
        """Run the commands in one jail; gives those that did what they must not, with what that was."""
        wrong = self._wrong(commands)
        if wrong and len(commands) == 1:
            yield commands[0], wrong
        elif wrong:
            found = [one for command in commands for one in self.run_all([command])]
            yield from found or [(f"one of {commands}", wrong)]

    def _wrong(self, commands: list[str]) -> str:
        """Return the forbidden effects of these commands, "" without any."""
        environment = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(self.home)})
        argv = [
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--tmpfs",
            "/tmp",
            "--unshare-net",
            "--die-with-parent",
        ]
        for place in (self.workspace, self.home, self.outside):
            argv += ["--bind", str(place), str(place)]
        argv += ["--chdir", str(self.workspace), "bash", "-c", EACH, "each", *commands]
        done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        wrong = "it printed a secret; " if SECRET.encode() in done.stdout + done.stderr else ""
        if done.returncode or b"END" not in done.stdout[-5:]:
            wrong += f"it did not run to the end: {done.stderr[-200:]!r}; "
        after = self.snapshot()
        if after != self.before:
            wrong += f"it changed {sorted(set(after.items()) ^ set(self.before.items()))[:3]}"
            self.before = after
        return wrong


def run(count: int, seed: int) -> int:
    """Run `count` different allowed scripts; gives the number that did what they must not."""
    generator = Lines(seed)
    made = done = wrong = brackets = seds = blocks = 0
    with tempfile.TemporaryDirectory() as top:
        places = [Place(Path(top, name), hostile=name == "hostile") for name in ("plain", "hostile")]
        policies = [Policy(place.workspace, "read-only") for place in places]
        waiting: list[list[str]] = [[], []]
        seen: set[tuple[int, str]] = set()
        while done < count:
            script = generator.script()
            made += 1
            for index, (place, policy) in enumerate(zip(places, policies, strict=True)):
                os.environ["HOME"] = str(place.home)
                if (index, script) in seen or policy.judge(
                    "bash", [Touch("run", script)], sandboxed=False
                ).action != "allow":
                    continue
                seen.add((index, script))
                waiting[index].append(script)
                done += 1
                brackets += "[" in script
                seds += "sed " in script
                blocks += script.startswith(("for ", "if ", "x="))
            for index, batch in enumerate(waiting):
                if len(batch) >= BATCH or (batch and done >= count):
                    os.environ["HOME"] = str(places[index].home)
                    for command, what in places[index].run_all(batch):
                        wrong += 1
                        print(f"HARM {command!r}: {what}", flush=True)
                    waiting[index] = []
    print(
        f"scripts (seed {seed}): {made} made, {done} allowed and run "
        f"({brackets} with brackets, {seds} with sed, {blocks} with blocks or variables); {wrong} did harm"
    )
    return wrong
