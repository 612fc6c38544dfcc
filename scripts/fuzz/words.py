"""What a word stands for: ours against `bash -c`, in folders of hostile names and under several locales.

A word that we say is certain must come out of bash as we say; of one that is not, bash may give no word that is
not among ours. What we do not read (it asks) is passed over.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from codelet.safety.shell.folders import Location
from codelet.safety.shell.program_arguments import RefusedError
from codelet.safety.shell.script_parser import read_script
from codelet.safety.shell.syntax import SimpleCommand
from codelet.safety.shell.wildcards import expansion

LOCALES = ("C", "C.UTF-8")
BATCH = 100
PLAIN_NAMES = [b"a.txt", b"b.txt", b"ab", b"B.TXT", b"a b", b"Makefile", b"0", b"9z", b"x", b"q", b"README.md"]
PLAIN_NAMES += [b"sub/a.py", b"sub/b.py", b"sub/Z.py", b"sub/deep/c.txt", b".hidden", b"sub/.env", b"_z", b"e.txt"]
HOSTILE_NAMES = [b"-oPWN", b"--pre=sh", b"-i", b"-delete", b"[a]", b"[", b"]", b"a]", b"a[b", b"x*y", b"q?", b"b\\s"]
HOSTILE_NAMES += [b"new\nline", b"~t", b"{a,b}", b"a,b", b"=", b"!x", b"^x", b"!", b"^", b"-", b"[!a]", b"[[:x:]]"]
HOSTILE_NAMES += ["é".encode(), "éa.txt".encode(), "ñ".encode(), b"\xff\xc3\xa9x", b"\xff\xfe", b"a\xe9", b"\xc3"]
HOSTILE_NAMES += ["sub/é.py".encode(), b"sub/-x", b"sub/]", b"sub/a-b", "日本".encode(), b"$HOME", b"'", b'"', b"a:b"]
BRACKETS = ["[a-c]", "[!x]", "[^x]", "[[:alpha:]]", "[[:punct:]]", "[]a]", "[]-]", "[!]x]", "[^]x]", "[a", "[", "]"]
BRACKETS += ["[a-z]", "[A-Z]", "[0-9]", "[ab]", "[[.a.]]", "[[=e=]]", "[a\\]b]", '["a-c"]', "['!'a]", "[a/b]", "[!]"]
BRACKETS += ["[[]", "[[a]", "[a]]", "[!-a]", "[--a]", "[é]", "[\\!a]", "[[:alpha:]-]", "[^", "[!a-b", "[-a]", "[.]"]
PIECES = ["*", "?", "*", "?", "a", "b", "é", "x", ".", "/", "sub/", "~", "-", "=", ":", "!", "^", ",", "1", "..", "./"]
PIECES += [
    "'*'",
    '"?"',
    "\\*",
    "\\[",
    "'['",
    '"]"',
    "' '",
    '"$HOME"',
    "$HOME",
    "'a b'",
    "\\ ",
    "$'\\t'",
    "{",
    "}",
    "\\\\",
]


def make_folder(folder: Path, names: Sequence[bytes]) -> None:
    """Fill `folder` with files of these names, and with links of three kinds."""
    for name in names:
        path = os.fsencode(folder) + b"/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb"):
            pass
    os.symlink("a.txt", folder / "link")
    os.symlink("sub", folder / "ld")
    os.symlink("nowhere", folder / "dangling")


def words_of(source: random.Random, names: Sequence[bytes]) -> Iterator[str]:
    """Random words without end."""
    readable = [name.decode() for name in names if name.isascii() and b"\n" not in name]
    while True:
        kind = source.random()
        if kind < 0.45:
            name = source.choice(readable)
            at = source.randrange(len(name) + 1)
            wild = source.choice(BRACKETS if source.random() < 0.7 else ["*", "?", "?*", "*?"])
            yield name[:at] + wild + name[at + source.choice((0, 1, 1, 1, 2)) :]
        elif kind < 0.75:
            yield "".join(source.choice(BRACKETS + PIECES) for _ in range(source.randint(1, 5)))
        else:
            yield "".join(source.choice(PIECES) for _ in range(source.randint(1, 7)))


def read_word(word: str, place: Location) -> tuple[list[str], bool] | None:
    """The words that `word` may stand for and whether that is certain; None where we do not say."""
    parts = read_script(f"show {word}").parts
    if len(parts) != 1 or not isinstance(parts[0], SimpleCommand):
        return None
    found: list[str] = []
    certain = True
    for one in parts[0].words[1:]:
        if one.dynamic:
            return None
        if one.glob is None:
            found.append(one.text)
            continue
        try:
            stands_for = expansion(one, place)
        except RefusedError:
            return None
        found += stands_for.words
        certain = certain and stands_for.certain
    return found, certain


def ask_bash(words: Sequence[str], folder: Path, locale: str) -> list[list[str]]:
    """What bash makes of each word."""
    script = "show() { printf '%s\\0' \"$@\"; printf '\\1\\0'; }\n" + "".join(f"show {word}\n" for word in words)
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "LC_ALL": locale}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, check=False)
    groups = done.stdout.split(b"\1\0")[:-1]
    if done.stderr or len(groups) != len(words):
        return [] if len(words) == 1 else [got for word in words for got in (ask_bash([word], folder, locale) or [[]])]
    return [[os.fsdecode(part) for part in group.split(b"\0")[:-1]] for group in groups]


def differences(words: Sequence[str], folder: Path, locale: str) -> Iterator[str]:
    """One line for each of the words, all of them read by us, that bash reads otherwise."""
    place = Location(os.path.realpath(folder), os.path.realpath(folder))
    for word, theirs in zip(words, ask_bash(words, folder, locale), strict=True):
        ours = read_word(word, place)
        assert ours is not None
        expected, certain = ours
        same = sorted(theirs) == sorted(expected or [""]) if certain else set(theirs) <= set(expected) and bool(theirs)
        if not same:
            yield f"DIFFERS {word!r} in {locale}: bash gives {theirs}, we say {expected} (certain: {certain})"


def run(count: int, seed: int) -> int:
    """Compare `count` random words; gives the number that differ."""
    source = random.Random(seed)
    made = wild = open_ones = wrong = 0
    with tempfile.TemporaryDirectory() as top:
        folders = {Path(top, "plain"): PLAIN_NAMES, Path(top, "hostile"): PLAIN_NAMES + HOSTILE_NAMES}
        for folder, names in folders.items():
            make_folder(folder, names)
            place = Location(os.path.realpath(folder), os.path.realpath(folder))
            generated = words_of(source, names)
            compared = 0
            while compared < count // len(folders):
                batch: list[str] = []
                while len(batch) < min(BATCH, count // len(folders) - compared):
                    word = next(generated)
                    made += 1
                    if (ours := read_word(word, place)) is not None:
                        batch.append(word)
                        wild += any(sign in word for sign in "*?[")
                        open_ones += not ours[1]
                compared += len(batch)
                for locale in LOCALES:
                    for line in differences(batch, folder, locale):
                        wrong += 1
                        print(line, flush=True)
    compared = count // 2 * 2
    print(
        f"words (seed {seed}): {made} made, {compared} read by us and compared with bash in {len(LOCALES)} locales "
        f"({wild} with wildcards, {open_ones} of them open); {wrong} differ"
    )
    return wrong
