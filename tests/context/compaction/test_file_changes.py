"""What commands did to files, as far as it is certain, and which lines that were seen are no longer true."""

from __future__ import annotations

import pytest

from codelet.context.compaction.file_changes import StaleLines, covers_path, effects, same_file
from codelet.context.compaction.shell_commands import endings

LINES: list[tuple[str, int | None, str, list[str]]] = [
    ("rm a.py", 0, "", ["deleted a.py"]),
    ("rm a.py", 1, "", []),
    ("rm a.py", None, "", ["deleted a.py"]),
    ("rm a.py", None, "rm: cannot remove 'a.py'", []),
    ("rm a.py", 0, "rm: cannot remove", ["deleted a.py"]),
    ("unlink a.py", 0, "", ["deleted a.py"]),
    ("rm -rf src old/", 0, "", ["deleted src", "deleted old/"]),
    ("cd src && rm a.py /x/b.py ~/c.py", 0, "", ["deleted src/a.py", "deleted /x/b.py", "deleted ~/c.py"]),
    ("make || rm a.py", None, "", []),
    ("make && rm a.py", None, "", []),
    ("cd src; rm a.py", None, "", ["deleted src/a.py"]),
    ("make; rm a.py", None, "", ["deleted a.py"]),
    ("make | rm a.py", None, "", []),
    ("make & rm a.py", None, "", []),
    ("echo x && rm a.py", None, "", ["deleted a.py"]),
    ("touch b && rm a.py", None, "", ["written b", "deleted a.py"]),
    ("mv a.py b.py", 0, "", ["moved a.py", "written b.py"]),
    ("mv a.py src", 0, "", ["moved a.py", "written src/a.py"]),
    ("mv a.py src/", 0, "", ["moved a.py", "written src/a.py"]),
    ("mv a b", 0, "", ["moved a", "written b"]),
    ("mv a.py b.py src", 0, "", ["moved a.py", "moved b.py", "written src/a.py", "written src/b.py"]),
    ("mv a.py", 0, "", []),
    ("touch a.py b.py", 0, "", ["written a.py", "written b.py"]),
    ("make | tee log.txt", 0, "", ["written log.txt"]),
    ("echo x > a.txt", 0, "", ["written a.txt"]),
    ("echo x >> /tmp/a", 0, "", []),
    ("rm /tmp/x $FILE a.py", 0, "", ["deleted a.py"]),
    ("cat > a.py", 0, "", ["written a.py"]),
    ("sed -i s/a/b/ x.py", 0, "", ["edited x.py /a/", "written x.py"]),
    ("sed s/a/b/ x.py", 0, "", []),
    (
        "sed -i.bak 's/a b/c/g;s|d/e|f|' x.py y.py",
        0,
        "",
        [
            "edited x.py /a b/",
            "edited x.py /d/e/",
            "written x.py",
            "edited y.py /a b/",
            "edited y.py /d/e/",
            "written y.py",
        ],
    ),
    ("sed -ni -e s/a/b/p -e s/c/d/ x.py", 0, "", ["edited x.py /a/", "edited x.py /c/", "written x.py"]),
    ("sed --in-place -e s/a/b/ x.py", 0, "", ["edited x.py /a/", "written x.py"]),
    ("sed --in-place --expression s/a/b/ x.py", 0, "", ["edited x.py /a/", "written x.py"]),
    ("sed -i '' s/a/b/ x.py", 0, "", ["edited x.py /a/", "written x.py"]),
    ("sed -i 's/a+(b)/c/' x.py", 0, "", ["edited x.py /a\\+\\(b\\)/", "written x.py"]),
    ("sed -E -i 's/a+(b)/c/' x.py", 0, "", ["edited x.py /a+(b)/", "written x.py"]),
    ("sed -i -r 's/a+/c/' x.py", 0, "", ["edited x.py /a+/", "written x.py"]),
    ("sed -i --regexp-extended 's/a+/c/' x.py", 0, "", ["edited x.py /a+/", "written x.py"]),
    ("sed -i 's/a\\+\\(b\\)/c/' x.py", 0, "", ["edited x.py /a+(b)/", "written x.py"]),
    ("perl -pi -e 's/a+(b)/c/' x.py", 0, "", ["edited x.py /a+(b)/", "written x.py"]),
    ("perl -pe 's/a/b/' x.py", 0, "", []),
    ("sed -i '5d' x.py", 0, "", ["written x.py"]),
    ("sed -i 's/\\(a*\\)*/x/' x.py", 0, "", ["written x.py"]),
    ("sed -i 's/a*b*c*d*e*/x/' x.py", 0, "", ["written x.py"]),
    ("sed -i 's/[/x/' x.py", 0, "", ["written x.py"]),
    ("cd src && sed -i s/a/b/ x.py", 0, "", ["edited src/x.py /a/", "written src/x.py"]),
    ("python x.py", 0, "", []),
    ("ls && rm a.py && git commit -m x", 0, "", ["deleted a.py", "committed "]),
    ("rm a.py; ls", 0, "", ["deleted a.py"]),
    ("rm a.py; ls", 1, "", ["deleted a.py"]),
    ("git commit -m x", 0, "", ["committed "]),
    ("git commit --dry-run", 0, "", []),
    ("git rm a.py", 0, "", ["deleted a.py"]),
    ("git rm --cached a.py", 0, "", []),
    ("git mv a.py b.py", 0, "", ["moved a.py", "written b.py"]),
    ("git restore a.py", 0, "", ["reverted a.py"]),
    ("git restore .", 0, "", ["reverted "]),
    ("git restore :/", 0, "", ["reverted "]),
    ("git restore --staged a.py", 0, "", []),
    ("git restore --staged --worktree a.py", 0, "", ["reverted a.py"]),
    ("git checkout -- a.py b.py", 0, "", ["reverted a.py", "reverted b.py"]),
    ("git checkout -- .", 0, "", ["reverted "]),
    ("git checkout .", 0, "", ["reverted "]),
    ("git checkout main", 0, "", []),
    ("git reset --hard", 0, "", ["reverted "]),
    ("git reset", 0, "", []),
    ("git stash", 0, "", ["stashed "]),
    ("git stash push", 0, "", ["stashed "]),
    ("git stash save x", 0, "", ["stashed "]),
    ("git stash pop", 0, "", ["unstashed "]),
    ("git stash apply", 0, "", ["unstashed "]),
    ("git stash list", 0, "", []),
    ("git stash -u", 0, "", ["stashed "]),
    ("git", 0, "", []),
    ("git status", 0, "", []),
    ("cd sub && git checkout -- a.py", 0, "", ["reverted sub/a.py"]),
]


def told(line: str, code: int | None = 0, output: str = "") -> list[str]:
    """The effects of a line, each in words, with the pattern of what an edit removes."""
    found = effects(endings(line, code, output), output)
    return [f"{one.how} {one.path}" + (f" /{one.pattern.pattern}/" if one.pattern else "") for one in found]


@pytest.mark.parametrize(("line", "code", "output", "expected"), LINES)
def test_the_effects_of_a_line_of_commands(line: str, code: int | None, output: str, expected: list[str]) -> None:
    assert told(line, code, output) == expected


def test_a_pattern_that_is_too_long_is_not_searched_for() -> None:
    assert told(f"sed -i s/{'a' * 300}/b/ x.py") == [f"edited x.py /{'a' * 300}/", "written x.py"]
    assert told(f"sed -i s/{'a' * 301}/b/ x.py") == ["written x.py"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a.py", "a.py", True),
        ("src/a.py", "a.py", True),
        ("a.py", "src/a.py", True),
        ("a.py", "src/ba.py", False),
        ("src/a.py", "./src/a.py", True),
        ("/w/src/a.py", "./src/a.py", True),
        ("/w/src/a.py", "lib/a.py", False),
        ("", "a.py", False),
        ("./", "a.py", False),
        ("", "", True),
    ],
)
def test_two_paths_of_one_file(one: str, other: str, same: bool) -> None:
    assert same_file(one, other) is same


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("src", "src/a.py", True),
        ("src/", "/w/src/a.py", True),
        ("./src", "src/a.py", True),
        ("src", "srcs/a.py", False),
        ("rc", "src/a.py", False),
        ("/w/src", "/w/src/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("*.py", "src/a.py", True),
        ("./*.py", "a.py", True),
        ("a?.py", "src/ab.py", True),
        ("[ab].py", "src/a.py", True),
        ("*.js", "src/a.py", False),
        ("b.py", "src/a.py", False),
    ],
)
def test_what_a_path_in_a_command_covers(pattern: str, path: str, covered: bool) -> None:
    assert covers_path(pattern, path) is covered


class Seen:
    """Lines that were seen: each text once, with the source that showed it last."""

    def __init__(self, *sources: tuple[str, list[str]], wrote: tuple[int, ...] = ()) -> None:
        self.texts: list[str] = []
        self.source_of: list[int] = []
        self.stale = StaleLines(self.texts, self.source_of, lambda text: self._number(text))
        for source, (file, lines) in enumerate(sources):
            self.show(source, file, lines, wrote=source in wrote)

    def _number(self, text: str) -> int | None:
        return self.texts.index(text) if text in self.texts else None

    def show(self, source: int, file: str, lines: list[str], *, wrote: bool = False) -> None:
        self.stale.shows(source, file, wrote=wrote)
        numbers = []
        for line in lines:
            number = self._number(line)
            if number is None:
                number = len(self.texts)
                self.texts.append(line)
                self.source_of.append(source)
            self.source_of[number] = source
            numbers.append(number)
        self.stale.revived(numbers)
        self.stale.took(source, numbers, lines)

    def run(self, line: str) -> list[str]:
        """The lines that are stale after a line of commands that went well."""
        self.stale.happened(effects(endings(line, 0, ""), ""))
        return self.dead

    @property
    def dead(self) -> list[str]:
        return [self.texts[number] for number in sorted(self.stale.dead)]


def test_an_edit_makes_its_lines_stale_in_its_own_file_only() -> None:
    seen = Seen(("a.py", ["one", "two = 2", "12: three"]), ("b.py", ["four", "two = 2 in b"]), ("", ["loose"]))
    seen.stale.remove("src/a.py", ["  one  ", "kept", "", "four"], ["kept"])
    assert seen.dead == ["one"]
    assert seen.stale.gone == {"one", "four"}
    seen.stale.remove("a.py", ["three"])
    assert seen.dead == ["one", "12: three"], "the number in front of it is not its own"
    seen.stale.remove("a.py", ["loose"])
    assert seen.dead == ["one", "12: three", "loose"], "of what file it was nobody knows"
    seen.stale.remove("", ["four"])
    assert "four" in seen.dead
    seen.show(3, "a.py", ["one"])
    assert "one" not in seen.dead
    assert "one" not in seen.stale.gone


def test_the_first_and_last_line_of_an_edit_may_be_parts_of_lines() -> None:
    lines = ["begin = compute(1)", "middle = compute(2)", "end = compute(3)"]
    seen = Seen(("a.py", lines), ("b.py", ["other = compute(1)"]))
    seen.stale.remove("a.py", ["compute(1)", "compute(2)", "compute(3)"])
    assert seen.dead == ["begin = compute(1)", "end = compute(3)"]
    seen.stale.remove("a.py", ["pute("])
    assert "middle = compute(2)" not in seen.dead, "it is too short to tell a line"
    seen.stale.remove("a.py", ["mpute("])
    assert "middle = compute(2)" in seen.dead
    assert "other = compute(1)" not in seen.dead


def test_a_file_written_anew_holds_what_it_was_given() -> None:
    seen = Seen(("src/a.py", ["one", "two"]), ("b.py", ["three"]))
    seen.stale.rewrite("a.py", ["two "])
    assert seen.dead == ["one"]
    seen.stale.rewrite("")
    assert seen.dead == ["one"]


class Counted(list[str]):
    """Lines that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, place: int) -> str:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(place)


def looks_of(writes: int) -> int:
    """How many lines are looked at while a file is written anew so often, each time with other lines."""
    seen = Seen()
    seen.texts = Counted()
    seen.stale = StaleLines(seen.texts, seen.source_of, {}.get)
    for source in range(writes):
        seen.stale.rewrite("src/a.py")
        seen.stale.happened(effects(endings("sed -i s/nothing/x/ src/a.py", 0, ""), ""))
        numbers = range(len(seen.texts), len(seen.texts) + 5)
        seen.texts += [f"line {number} of the file" for number in numbers]
        seen.source_of += [source] * 5
        seen.stale.shows(source, "src/a.py", wrote=True)
        seen.stale.took(source, numbers, seen.texts[-5:])
    return seen.texts.looks


def test_a_file_that_changes_all_the_time_costs_as_much_at_the_end_as_at_the_beginning() -> None:
    assert looks_of(400) < 5 * looks_of(100)


def test_a_large_edit_stays_one_when_most_of_its_lines_were_read_again() -> None:
    many = [f"part {number} of it" for number in range(50)]
    seen = Seen(("a.py", many), ("a.py", many[5:]), wrote=(0,))
    seen.stale.rewrite("b.py")
    seen.stale.remove("a.py", ["x = part 1 of it + 1"])
    assert seen.dead == []
    few = Seen(("a.py", many[:9]), ("a.py", many[5:]), wrote=(0,))
    few.stale.remove("a.py", ["x = part 1 of it + 1"])
    assert few.dead == ["part 1 of it"]


def test_commands_make_lines_stale() -> None:
    sources = (("src/a.py", ["one 1", "two 2"]), ("src/b.py", ["three 3"]), ("c.txt", ["four 4"]))
    assert Seen(*sources).run("rm src/a.py") == ["one 1", "two 2"]
    assert Seen(*sources).run("rm -r src") == ["one 1", "two 2", "three 3"]
    assert Seen(*sources).run("rm 'src/*.py' c.txt") == ["one 1", "two 2", "three 3", "four 4"]
    assert Seen(*sources).run("mv c.txt d.txt") == []
    assert Seen(*sources).run("sed -i 's/two/2/' src/a.py src/b.py") == ["two 2"]
    assert Seen(*sources).run("sed -i 's/1$/2/;s/^thr/x/' src/*.py") == ["one 1", "three 3"]
    assert Seen(*sources).run("sed -i 's/four/4/' src/a.py") == []


def test_what_goes_back_to_the_commit_loses_what_was_put_in_since() -> None:
    sources = (("src/a.py", ["read of a"]), ("src/a.py", ["put in a"]), ("b.py", ["put in b"]), ("", ["put somewhere"]))
    wrote = (1, 2, 3)
    assert Seen(*sources, wrote=wrote).run("git checkout .") == ["put in a", "put in b", "put somewhere"]
    assert Seen(*sources, wrote=wrote).run("git checkout -- src/a.py") == ["put in a", "put somewhere"]
    assert Seen(*sources, wrote=wrote).run("git commit -m x && git reset --hard") == []
    assert Seen(*sources, wrote=wrote).run("git checkout main") == []
