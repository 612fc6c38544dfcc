"""Sed scripts that we read as harmless, against GNU sed: with --sandbox it says of a script whether it runs
commands, writes or reads other files, before it does anything.
"""

from __future__ import annotations

import random
import subprocess

from codelet.safety.shell.program_arguments import RefusedError
from codelet.safety.shell.sed import read_sed

OPTIONS = (["-n"], ["-E"], ["-z"], ["-s"], ["-nE"], ["--posix"], ["-u"], ["--debug", "-n"], [])
DELIMITERS = "////////||##,,:@!%~;_+="
HIDDEN = ["e", "w PWN", "r .env", "W PWN", "R .env", "1e touch PWN", "e#", ";e", "w#", "}e", "\ne", ";w PWN", "s/x/y/e"]
ATOMS = [
    "a",
    "b",
    "one",
    ".",
    ".*",
    "^",
    "$",
    "\\n",
    "\\t",
    "\\.",
    "\\(a\\)",
    "\\|",
    "x*",
    "é",
    " ",
    "&",
    "\\&",
    "-",
    "=",
]
ATOMS += [
    "\\w",
    "\\b",
    "\\x41",
    "\\o101",
    "\\d065",
    "\\cA",
    "\\{2\\}",
    "(a|b)",
    "a+",
    "#",
    ";",
    "}",
    "{",
    "\\\\",
    "\\+",
]
BRACKETS = ["[a-z]", "[^a]", "[[:alpha:]]", "[^[:space:]]", "[0-9]", "[]a]", "[^]a]", "[.]", "[a.b]", "[\\n]", "[\\t]"]
ODD_BRACKETS = [
    "[D]",
    "[^D]",
    "[aD]",
    "[[:alpha:]D]",
    "[]D]",
    "[^]D]",
    "[\\D]",
    "[\\]",
    "[[.D.]]",
    "[[=D=]]",
    "[[.]D.]]",
]
ODD_BRACKETS += [
    "[",
    "]",
    "[[]",
    "[a",
    "[^",
    "[[:alpha:]",
    "[:D:]",
    "[D",
    "D]",
    "[[D]",
    "[\\]D]",
    "[a\\]",
    "\\[",
    "\\]",
]
COMMANDS = "pdqnNgGhHxlD=PFz"


class Scripts:
    """Random scripts: most are valid and only read, some hide a command in what looks like text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def script(self) -> str:
        """One script."""
        choose = self.random.choice
        commands = [self._command(0) for _ in range(choose((1, 1, 2, 2, 3, 4)))]
        if self.random.random() < 0.1:
            commands.insert(0, ":a")
            commands.append(choose(["$!ba", "ta", "b a", "Tend;:end", "b"]))
        text = choose([";", ";", "\n", " ; ", ";;", "\n\n"]).join(commands)
        if self.random.random() < 0.2:
            at = self.random.randrange(len(text) + 1)
            text = text[:at] + choose([*HIDDEN, *ODD_BRACKETS, "/", "\\", ";", "\n", "}", "{", " "]) + text[at:]
        return text

    def _command(self, depth: int) -> str:
        choose = self.random.choice
        address = self._address()
        kind = self.random.random()
        if kind < 0.1:
            return address + self._two_readings()
        if kind < 0.5:
            return address + self._substitution()
        if kind < 0.7:
            return address + choose(COMMANDS) + choose(["", "", "", "5", " ", " # note", "#w PWN"])
        if kind < 0.78:
            mark = choose(DELIMITERS)
            return f"{address}y{mark}ab{mark}{choose(['xy', '[]', 'e;', '&é', 'x' + chr(92) + mark])}{mark}"
        if kind < 0.86:
            return (
                address
                + choose(["a ", "i ", "c ", "a\\\n", "i\\\n", "a", "c\\"])
                + choose(["text", "w PWN", "}e", "x;e", ""])
            )
        if kind < 0.95 and depth < 2:
            inner = choose([";", "\n"]).join(self._command(depth + 1) for _ in range(choose((1, 2))))
            return f"{address}{{{inner}{choose(['}', ';}', chr(10) + '}', ' }'])}"
        return choose(["b", "t", "# a comment; w PWN", "bend", "b end\n:end", address + choose(HIDDEN)])

    def _two_readings(self) -> str:
        """Two substitutions to who ends a pattern at its first delimiter, one with flags to who reads brackets."""
        choose = self.random.choice
        mark = choose(DELIMITERS)
        opening = choose(["[", "[^", "[a", "x[", "[[:alpha:]", "[]", "[^]", "[[.", "[\\", "[]a", "\\[", "[[", "[a\\]"])
        closing = choose(["]", "a]", "]x", "]]", ".]]", ":]]", "\\]", ""])
        flags = choose(["", "1", "g", "p", "x"])
        hidden = choose(["e", "e#", "w PWN", "ge;p", "pe}", "we", "w#", "e\n", "r .env"])
        return f"s{mark}{opening}{mark}{closing}{mark}{flags}{choose(';#}')}s{mark}{hidden}{mark}x{mark}"

    def _address(self) -> str:
        choose = self.random.choice
        if self.random.random() < 0.5:
            return ""
        first = self._one_address(["1", "$", "2~3", "0~4", "10"])
        second = ""
        if self.random.random() < 0.35:
            second = choose([",", " , "]) + self._one_address(["3", "$", "+2", "~4", "5"])
        return first + second + choose(["", "", "", " ", "!", " ! "])

    def _one_address(self, numbers: list[str]) -> str:
        if self.random.random() < 0.5:
            return self.random.choice(numbers)
        mark = self.random.choice(DELIMITERS)
        start = mark if mark == "/" else f"\\{mark}"
        return f"{start}{self._pattern(mark)}{mark}{self.random.choice(['', '', '', 'I', 'M', 'IM', ' I'])}"

    def _pattern(self, mark: str) -> str:
        pieces = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            kind = self.random.random()
            if kind < 0.6:
                pieces.append(self.random.choice(ATOMS))
            elif kind < 0.85:
                pieces.append(self.random.choice(BRACKETS))
            elif kind < 0.93:
                pieces.append(self.random.choice(ODD_BRACKETS).replace("D", mark))
            else:
                pieces.append("\\" + mark)
        return "".join(pieces)

    def _substitution(self) -> str:
        choose = self.random.choice
        mark = choose(DELIMITERS)
        replacement = choose(
            ["", "x", "&", "\\1", "\\n", "[", "]", "é", "a\\\nb", "\\" + mark, "\\U&", "x;w PWN", "e", "\\\\"]
        )
        flags = choose(["", "", "", "g", "p", "gp", "2", "gI", "3g", "Mp", "i", "e", "w PWN", " p", "ge"])
        return f"s{mark}{self._pattern(mark)}{mark}{replacement}{mark}{flags}"


def ask_sed(script: str, options: list[str], locale: str) -> str:
    """What GNU sed says of the script: "" where it runs it, else the error; nothing is read or written."""
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": locale}
    argv = ["sed", "--sandbox", *options, "-e", "d", "-e", script]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, env=environment, capture_output=True, check=False)
    return done.stderr.decode("utf-8", "replace").strip()


def run(count: int, seed: int) -> int:
    """Ask sed about `count` scripts that we read; gives the number that do more than we say."""
    generator, source = Scripts(seed), random.Random(seed)
    made = read = brackets = invalid = wrong = 0
    while read < count:
        script = generator.script()
        made += 1
        try:
            read_sed([script])
        except RefusedError:
            continue
        read += 1
        brackets += "[" in script
        answer = ask_sed(script, source.choice(OPTIONS), source.choice(("C", "C.UTF-8")))
        invalid += bool(answer)
        if "sandbox" in answer:
            wrong += 1
            print(f"DIFFERS {script!r}: {answer}", flush=True)
    print(
        f"sed (seed {seed}): {made} made, {read} read by us and shown to sed "
        f"({brackets} with brackets; sed finds {invalid} invalid); {wrong} run, write or read more"
    )
    return wrong
