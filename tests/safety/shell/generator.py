"""Random commands, harmless and hostile, made from the tables and from the commands of the test data."""

from __future__ import annotations

import random
import shlex

from codelet.safety.shell.programs import READ_ONLY_GIT, READ_ONLY_PROGRAMS, Program, options_of
from tests.support.case_workspace import lines_of

PATHS = (
    ["a.txt", "b.txt", "src/app.py", "src", ".", "docs", "a.json", "./a.txt", "src/../b.txt", "docs/x y.md", "./-rf"]
    * 3
    + [".env", "deploy/id_ed25519", "../outside/secret.txt", "/home/me/.ssh/id_rsa", "/etc/passwd", "deploy", "~/.ssh"]
    + ["link_out", "inner_link", "pwn", "/proc/self/environ", "-oPWN", "--output=PWN", "emb", ".git/config", "@opts"]
    + ["src/*.py", "*.txt", "./*.txt", "*", "deploy/*", "d*/*", ".e*", "missing", "linkdir/secret.txt", "script.sed"]
)
TEXTS = [
    "main",
    "x",
    "a b",
    "[0-9]*",
    "%s",
    ",",
    ":",
    "1",
    "1,2",
    "^def",
    "*.py",
    "name",
    "auto",
    "always",
    "never",
    "%h %s",
    "short",
    "",
    "1p",
    "s/a/b/",
    "{print $1}",
    ".",
    ".name",
    "C",
    "a|b",
    "iso",
    "%Y",
    "+%s",
    "HEAD",
    "HEAD~1",
    "main",
    "$(touch PWN)",
    "a[$(touch PWN)]",
    "`touch PWN`",
    ";touch PWN",
    "w PWN",
    "e touch PWN",
    "%G?",
    "%n",
    "|./pwn",
    "--output=PWN",
    "-exec",
    "./pwn",
    "1,5p;w PWN",
    "s/1/touch PWN/e",
    "$ENV",
    "env",
    "@load",
    "PWN",
    "ext::./pwn",
]
NUMBERS = ["0", "1", "2", "5", "10", "+3", "80"]
REVISIONS = [
    "HEAD",
    "HEAD~1",
    "main",
    "HEAD:a.txt",
    "HEAD:.env",
    "other",
    "main..other",
    "stash@{0}",
    ":a.txt",
    "a.txt",
]

SED = ["p", "1p", "1,3p", "$p", "/a/p", "d", "s/a/b/", "s/a/b/g", "1q", "=", "w PWN", "s/1/2/w PWN", "1e touch PWN"]
AWK = ["{print}", "{print $1}", "NR==1", "{n++} END {print n}", "$1 > 1", '{print > "PWN"}', 'BEGIN{system("./pwn")}']
JQ = [
    ".",
    ".name",
    "keys",
    ".[]",
    "length",
    "map(.)",
    "env",
    "$ENV",
    "input",
    "to_entries",
    "@base64",
    "inputs",
    "type",
]
FIND = ["-name '*.py'", "-type f", "-maxdepth 1", "-print", "-ls", "-print0", "-size +1k", "-newer a.txt", "-empty"]
FIND += [
    "-not",
    "-prune",
    "-delete",
    "-exec ./pwn {} +",
    "-fprint PWN",
    "-printf '%p\\n'",
    "-iname x",
    "-o -name y",
    "-quit",
]
TESTS = [
    "-f a.txt",
    "-d src",
    "-e .env",
    "a = b",
    "1 -eq 1",
    "-n x",
    "-z ''",
    "-v 'a[$(touch PWN)]'",
    "-s a.txt -a -r a.txt",
]


class Generator:
    """Random commands from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.samples = lines_of("benign.txt") * 2 + lines_of("effects.txt")

    def command(self) -> str:
        """One command line."""
        kind = self.random.random()
        if kind < 0.55:
            return self._simple()
        if kind < 0.75:
            joint = self.random.choice([" | ", " | ", " && ", "; ", " || ", "\n"])
            return joint.join(self._simple() for _ in range(self.random.randint(2, 3)))
        if kind < 0.85:
            return self._decorated(self._simple())
        return self._mutated(self.random.choice(self.samples))

    def _decorated(self, command: str) -> str:
        forms = ["cd src && {}", "({})", "{{ {}; }}", "! {}", 'echo "$({})"', "{} 2>/dev/null", "{} >/dev/null 2>&1"]
        forms += [
            "{} < a.txt",
            "LC_ALL=C {}",
            "cd docs; {}",
            "{} # done",
            "{} > PWN",
            "{} &",
            "PATH=. {}",
            "[ -f a.txt ] && {}",
            "[[ -d src ]] && {}",
        ]
        return self.random.choice(forms).format(command)

    def _mutated(self, command: str) -> str:
        """A known command with one word taken out, doubled, swapped or replaced."""
        words = command.split(" ")
        at = self.random.randrange(len(words))
        change = self.random.random()
        if change < 0.3:
            words[at] = self.random.choice(PATHS)
        elif change < 0.5:
            words.insert(at, self.random.choice(self.random.choice(self.samples).split(" ")))
        elif change < 0.7:
            del words[at]
        elif change < 0.85:
            words[at] = self.random.choice(TEXTS)
        return " ".join(words)

    def _simple(self) -> str:
        if self.random.random() < 0.35:
            name = self.random.choice(list(READ_ONLY_GIT))
            return " ".join(["git", name, *self._arguments(READ_ONLY_GIT[name])])
        name = self.random.choice(list(READ_ONLY_PROGRAMS))
        return " ".join([name, *self._special(name, READ_ONLY_PROGRAMS[name])])

    def _special(self, name: str, program: Program) -> list[str]:
        choose = self.random.choice
        path = choose(PATHS)
        if name == "find":
            return [path, *self.random.sample(FIND, self.random.randint(0, 3))]
        if name == "test":
            return [choose(TESTS)]
        if name == "jq":
            return [
                choose(["", "-r", "-c", "-n", "-s", "-e"]),
                shlex.quote(choose(JQ)),
                path if path != "." else "a.json",
            ]
        if name in ("echo", "printf"):
            return [self._quoted(choose(TEXTS)) for _ in range(self.random.randint(1, 3))]
        if name == "sed":
            return [choose(["-n", "-n", "-e", "-E", "-i", "-s"]), shlex.quote(choose(SED)), choose(PATHS)]
        if name in ("awk", "gawk", "mawk"):
            return [shlex.quote(choose(AWK)), choose(PATHS)]
        if name == "seq":
            return self.random.sample(NUMBERS[:5], 2)
        return self._arguments(program)

    def _quoted(self, text: str) -> str:
        style = self.random.random()
        if style < 0.7:
            return shlex.quote(text)
        return f'"{text}"' if style < 0.9 else text

    def _arguments(self, program: Program) -> list[str]:
        options = options_of(program.options)
        words = [word for _ in range(self.random.choice([0, 1, 1, 2, 3])) for word in self._option(options)]
        for token in program.operands.split():
            kind = token.partition("!")[0]
            if kind.endswith("*"):
                words += [self._operand(kind[:-1]) for _ in range(self.random.choice([0, 1, 1, 2]))]
            elif self.random.random() < 0.85:
                words.append(self._operand(kind))
        if self.random.random() < 0.07:
            words.insert(self.random.randrange(len(words) + 1), self.random.choice(PATHS + TEXTS))
        return words

    def _option(self, kinds: dict[str, str]) -> list[str]:
        flags = sorted(name for name, kind in kinds.items() if not kind and name != "-NUM")
        values = sorted((name, kind) for name, kind in kinds.items() if kind and kind[0] != "?")
        optional = sorted((name, kind[1:]) for name, kind in kinds.items() if kind[:1] == "?")
        if values and self.random.random() < 0.35:
            name, kind = self.random.choice(values)
            value = self._operand(kind)
            return [f"{name}={value}"] if name.startswith("--") and self.random.random() < 0.5 else [name, value]
        if optional and self.random.random() < 0.3:
            name, kind = self.random.choice(optional)
            return [f"{name}={self._operand(kind)}" if name.startswith("--") else name]
        return [self.random.choice(flags)] if flags else []

    def _operand(self, kind: str) -> str:
        if kind in ("read", "list"):
            return self.random.choice(PATHS)
        if kind == "rev":
            return self.random.choice(REVISIONS + PATHS[:12])
        if kind == "number":
            return self.random.choice(NUMBERS)
        return self._quoted(self.random.choice(TEXTS))
