"""Generated shell lines: harmless ones, and hostile ones that look like them."""

from __future__ import annotations

import random
import shlex

SEDS = ["1p", "s/a/b/", "w PWN", "s/1/2/w PWN", "1e touch PWN", "$=", "/one/d", "r .env"]
BRACKETS = ["[a-z]", "[!x]", "[[:alpha:]]", "[[:punct:]]", "[]k]", "[^]x]", "?", "*", "??"]
WILD = "* ? ?* *.txt src/* ./* *.py docs/* d* [a-c]* [!x]* k [[:punct:]]* src/[a-z]*".split()
HARMLESS = ["a.txt", "b.txt", "src/app.py", "./a.txt", "docs/x?y.md", "src", ".", "a.json", "missing"]
FILES = [
    *HARMLESS, '"docs/x y.md"', "-", "../outside/secret.txt", ".env", "k", "link_out", "deploy/id_ed25519",
    "linkdir/secret.txt", "PWN", "$HOME/.ssh/id_rsa",
]  # fmt: skip
BENT = ["a.txt", ".env", "k", "src/app.py", "-i", "./-delete", "deploy/id_ed25519", "--pre=sh"]
"""Words in which one character becomes a pattern."""
PROGRAMS = [
    "cat", "cat -n", "head -2", "tail -n +1", "wc -l", "sort", "sort -u", "uniq", "uniq -c", "xxd", "xxd -l 8",
    "grep a", "grep -n one", "grep -r x", "rg x", "rg -n a", "ls -la", "find", "diff a.txt", "cut -c1-3", "nl",
    "awk 1", "awk '{print $1}'", "stat", "file", "od -c", "base64", "md5sum", "echo", "printf '%s\\n'", "tac",
    "test -f", "basename", "realpath", "comm a.txt", "paste", "tr a b <", "jq .", "column -t", "cmp a.txt", "less",
]  # fmt: skip
ENDS = [
    "", "", "", " -p", " | xargs wc -l", " -print0 | xargs -0 wc", " | sort | xargs -I X wc -c X", " | xargs cat",
    " -i", " -c", " -o PWN", " > PWN", " 2>/dev/null", " >/dev/null 2>&1", " < a.txt", " | wc -l",
    " 2>/dev/null -o PWN", " < a.txt -i b.txt", " 2>/dev/null a.txt .env", " 2>/dev/null .env", " < a.txt .env",
    " | sort", " -type f", " -- a.txt", " PWN", " <<< hello", " | xxd - -p", " && ls", " || ls", "; ls", " | cat",
]  # fmt: skip
FRAMES = [
    "cd src && LINE", "(LINE)", "{ LINE; }", "! LINE", 'echo "$(LINE)"', "LINE # done", "cd docs; LINE",
    "if LINE; then ls; fi", "for f in *.txt; do LINE; done", 'x=$(LINE); echo "$x"', "LC_ALL=C LINE", "time LINE",
    "eval LINE", "cat <(LINE)", "LINE &", 'for f in WORD; do cat "$f"; done', "[ -f a.txt ] && LINE",
    "[[ -f a.txt ]] && LINE", "[[ ! -s WORD ]] || LINE", "PATH=. LINE", "command LINE", "printf -v PATH .; LINE",
    "cd WORD && LINE", "while LINE; do break; done", "case a in a) LINE;; esac", "f() { LINE; }; f",
    "trap 'LINE' EXIT", "LINE <<E\nx\nE", "echo $((1+1)); LINE",
]  # fmt: skip


class Lines:
    """A source of scripts that repeats for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def script(self) -> str:
        """One script."""
        choose, chance = self.random.choice, self.random.random
        line = self._simple()
        if chance() < 0.3:
            line += choose([" | ", " && ", "; ", " || ", "\n"]) + self._simple()
        if chance() < 0.3:
            line = choose(FRAMES).replace("WORD", self._word()).replace("LINE", line)
        return line

    def _simple(self) -> str:
        choose, chance = self.random.choice, self.random.random
        if chance() < 0.3:
            options = choose(["-n ", "", "-E ", "-e ", "-ne ", "-s ", "-i ", "-z "])
            file = choose(["a.txt", "cmd.txt", self._word()])
            line = f"sed {options}{shlex.quote(choose(SEDS))} {file}"
        else:
            words = " ".join(self._word() for _ in range(choose((0, 1, 1, 1, 2))))
            line = f"{choose(PROGRAMS)} {words}"
        return line + (choose(ENDS) if chance() < 0.4 else "")

    def _word(self) -> str:
        choose, kind = self.random.choice, self.random.random()
        if kind < 0.5:
            return choose(HARMLESS if self.random.random() < 0.8 else FILES)
        if kind < 0.75:
            return choose(WILD)
        word = choose(BENT)
        at = self.random.randrange(len(word))
        return word[:at] + choose(BRACKETS) + word[at + 1 :]
