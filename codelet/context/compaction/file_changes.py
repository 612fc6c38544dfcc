"""What shell commands did to files, and which candidate lines are no longer what their file says.

Of commands only what surely ran counts: the first command of a line, or one whose line went well; a program that
failed says so. Lines are known by their text: one that comes again later (read again, written again) is current
again, and a line that a file is known to hold does not go stale by an edit of another file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate, pairwise

from codelet.context.compaction.edits import substituted
from codelet.context.compaction.shell_commands import TRIVIAL, ShellCommand
from codelet.context.compaction.work_tree import Commits, FileEffect, moved, of_git, path_of

_PROGRAMS = frozenset({"rm", "unlink", "mv", "git", "sed", "perl", "touch", "tee"})
_SAID_NO = re.compile(r"(?:^|\n)(?:rm|mv|unlink|sed|fatal|error|git|perl)\b[^\n]{0,40}:")
_FILE_NAME = re.compile(r"[\w@.+~-]*(?:/[\w@.+~-]+)*\.[A-Za-z]\w*")
# What git says of a checkout that was one of files, not of a branch.
_FILES_BACK = re.compile(r"^Updated \d+ paths? from ", re.MULTILINE)
_GLOB = re.compile(r"[*?\[]")
_PASSING = ("/tmp/", "/dev/", "/proc/")


def same_file(one: str, other: str) -> bool:
    """Whether two paths can name one file: they are equal, or one ends with the other."""
    if one == other:
        return True
    long, short = (one, other) if len(one) > len(other) else (other, one)
    short = short.removeprefix("./")
    return bool(short) and (long == short or long.endswith("/" + short))


def changed_since(text: str, turn: int, changed: Mapping[str, int], deleted: Mapping[str, int]) -> str:
    """What became, after a turn, of a file that a text names: the end of a sentence, or nothing.

    `changed` and `deleted` have the turn in which that last happened to each file.
    """
    names = _FILE_NAME.findall(text)
    for files, what in ((deleted, "was deleted"), (changed, "changed")):
        for path, last in files.items():
            if last > turn and any(same_file(name, path) for name in names):
                return f"; {path.rpartition('/')[2]} {what} in t{last}"
    return ""


def covers_path(pattern: str, path: str) -> bool:
    """Whether a path in a command, which may be a pattern or a folder, covers a file."""
    pattern = pattern.rstrip("/").removeprefix("./")
    if _GLOB.search(pattern):
        return fnmatchcase(path, pattern) or fnmatchcase(path, "*/" + pattern)
    return same_file(pattern, path) or f"/{pattern.lstrip('/')}/" in "/" + path


def effects(ended: Sequence[tuple[ShellCommand, bool | None]], output: str) -> list[FileEffect]:
    """The effects of a line of commands, in order."""
    found: list[FileEffect] = []
    sure = True
    for command, passed in ended:
        if command.link in ("|", "||", "&"):
            sure = False
        elif command.link == ";":
            sure = True
        acts = command.name in _PROGRAMS or command.writes
        if acts and (passed is True or (passed is None and sure and not _SAID_NO.search(output))):
            found += _of(command, output)
        sure = sure and (command.name in TRIVIAL or command.name in _PROGRAMS)
    return found


def _of(command: ShellCommand, output: str) -> list[FileEffect]:
    words = command.words[1:]
    named = [path_of(command, word) for word in words if not word.startswith("-")]
    found = [FileEffect("written", path_of(command, file)) for file in command.writes]
    match command.name:
        case "rm" | "unlink":
            found += [FileEffect("deleted", path) for path in named]
        case "mv":
            found += moved(named)
        case "touch" | "tee":
            found += [FileEffect("written", path) for path in named]
        case "git":
            files = "--" in words or _FILES_BACK.search(output) is not None
            found += of_git(command, [word for word in words if word != "--"], output, files=files)
        case "sed" | "perl":
            found += _in_place(command)
    return [effect for effect in found if not effect.path.startswith(_PASSING) and "$" not in effect.path]


def _in_place(command: ShellCommand) -> list[FileEffect]:
    """The effects of `sed -i` and `perl -pi`: lines that their substitutions match are no longer what they were."""
    words = list(command.words[1:])
    flags = [word for word in words if word.startswith("-")]
    if not any(re.match(r"-\w*i|--in-place", flag) for flag in flags):
        return []
    scripts: list[str] = []
    files: list[str] = []
    for before, word in pairwise(["", *words]):
        if before in ("-e", "--expression"):
            scripts.append(word)
        elif word and not word.startswith("-"):  # an empty word is the suffix that BSD's sed wants behind -i
            (files if scripts or "-e" in flags else scripts).append(word)
    extended = command.name == "perl" or any(re.match(r"-\w*[Er]\Z|--regexp-extended", flag) for flag in flags)
    patterns = substituted(scripts, extended=extended)
    found = []
    for path in files:
        found += [FileEffect("edited", path_of(command, path), pattern) for pattern in patterns]
        found.append(FileEffect("written", path_of(command, path)))
    return found


# A line as tools print it beside its number: `12\tx = 1`, `12: x = 1`, `src/a.py:12:x = 1`, `[12] x`.
_NUMBERED = re.compile(r"(?:[\w./@-]+[:-])?\[?\d+(?:\]|[:|\u2192\u2502\t-])[ \t|]*|\d+ +(?=\S)")
_SHORTEST_PART = 6
# What small edits put in may be parts of lines: so many of the newest are looked at, of so many lines at most.
_LATE_EDITS, _SMALL_EDIT = 20, 40
# Three blanks or more between two words; the blanks stand in front, as text that is spelt out is searched for faster.
_WIDE = re.compile(r" {3}(?<=\S {3}) *(?=\S)")


def squeezed(line: str) -> str:
    """A line without its indentation and without the blanks that align its words, as candidates are."""
    line = line.strip()
    return _WIDE.sub("  ", line) if "   " in line else line


class StaleLines:
    """Keeps the numbers of stale candidates in `dead`, and the texts that were removed in `gone`.

    `texts` are the candidates' texts, `source_of` the number of the source that each stood in last, `number` finds a
    candidate by its text. `files[source]` is the file that a source shows, if it is known.
    """

    def __init__(self, texts: Sequence[str], source_of: Sequence[int], number: Callable[[str], int | None]) -> None:
        self.dead: set[int] = set()
        self.gone: set[str] = set()
        # The sources that changed a file since the last commit: what goes back to the commit loses what they put in.
        self.wrote: set[int] = set()
        self._stashed: set[int] = set()
        self._commits = Commits[int]()
        self.files: dict[int, str] = {}
        self._texts = texts
        self._source_of = source_of
        self._number = number
        self._of_source: dict[int, list[int]] = {}
        self._size: dict[int, int] = {}
        # The sources that show a file, those of them that still hold lines of it, and the files by their last name.
        self._showing: dict[str, list[int]] = {}
        self._holding: dict[str, list[int]] = {}
        self._named: dict[str, list[str]] = {}
        self._numbered: dict[str, list[int]] = {}
        self._looked_at = 0

    def shows(self, source: int, file: str, *, wrote: bool) -> None:
        """Record which file a source shows, and whether it changed it."""
        if file:
            self.files[source] = file
            if file not in self._showing:
                self._named.setdefault(file.rpartition("/")[2], []).append(file)
            self._showing.setdefault(file, []).append(source)
        if wrote:
            self.wrote.add(source)

    def took(self, source: int, numbers: Sequence[int], texts: Iterable[str]) -> None:
        """Record that candidates came in, or came again: they are current."""
        if source in self.files or source in self.wrote:
            own = self._of_source.setdefault(source, [])
            if not own:
                self._holding.setdefault(self.files.get(source, ""), []).append(source)
            own.extend(numbers)
            self._size[source] = self._size.get(source, 0) + len(numbers)
        if self.gone:
            self.gone.difference_update(texts)

    def revived(self, numbers: Iterable[int]) -> None:
        """Make candidates that came again current."""
        self.dead.difference_update(numbers)

    def remove(self, file: str, lines: Sequence[str], kept: Iterable[str] = ()) -> None:
        """Record that an edit of a file ("" if unknown) removed `lines`, except those that it put back (`kept`)."""
        bare = [line.strip() for line in lines]
        stays = {line.strip() for line in kept}
        self._look_at_numbered()
        for place, line in enumerate(bare):
            if not line or line in stays:
                continue
            # The blanks that align words are left out where a text with many of them was read.
            forms = dict.fromkeys((line, squeezed(line)))
            self.gone.update(forms)
            hits = [n for form in forms for n in (*self._numbered.get(form, ()), self._number(form)) if n is not None]
            self.dead.update(hit for hit in hits if self._may_be_of(hit, file))
            if place in (0, len(bare) - 1) and len(line) > _SHORTEST_PART:
                put_in = self._put_into(file)
                self.dead.update(n for n in put_in if len(self._texts[n]) >= _SHORTEST_PART and self._texts[n] in line)
            if not hits and place in (0, len(bare) - 1) and len(line) >= _SHORTEST_PART:
                self._remove_part(file, line)

    def _put_into(self, file: str) -> Iterator[int]:
        """The candidates that small edits put into a file of late; each may be part of a line."""
        for shown in self._named.get(file.rpartition("/")[2], ()) if file else ():
            for source in self._showing[shown][-_LATE_EDITS:] if same_file(shown, file) else ():
                if source in self.wrote and self._size.get(source, 0) <= _SMALL_EDIT:
                    yield from self._of(source)

    def _remove_part(self, file: str, part: str) -> None:
        """Strike out lines that contain `part`: the first and the last line of a removed text may be part of a line."""
        self.dead.update(number for number in self._of_file(file) if part in self._texts[number])

    def rewrite(self, file: str, kept: Iterable[str] = ()) -> None:
        """Record that a file was deleted, or written anew as `kept`: what was seen of it before is stale."""
        stays = {form for line in kept for form in (line.strip(), squeezed(line))}
        self.dead.update(number for number in self._of_file(file) if self._texts[number] not in stays)

    def undone(self, file: str) -> None:
        """Record that the last edit of a file was taken back: what it put in is stale, if nothing showed it since."""
        mine = [source for source in self.wrote if same_file(self.files.get(source, ""), file)]
        if mine:
            self.wrote.discard(max(mine))
            self.dead.update(self._of(max(mine)))

    def happened(self, effects: Iterable[FileEffect]) -> None:
        """Record what the commands of one line did to files."""
        patterns: dict[str, list[re.Pattern[str]]] = {}
        for effect in effects:
            if effect.pattern is not None:
                patterns.setdefault(effect.path, []).append(effect.pattern)
            else:
                self._happened(effect)
        for path, own in patterns.items():
            self._edited(path, own)

    def _happened(self, effect: FileEffect) -> None:
        if effect.how == "deleted":
            self.dead.update(number for file in self._meant(effect.path) for number in self._of_file(file))
        elif effect.how == "committed":
            self._commits.add(effect.path, self.wrote)
            self.wrote.clear()
        elif effect.how == "reopened":
            self.wrote |= self._commits.back_to(effect.path)
        elif effect.how in ("rewound", "undone"):
            back = self._commits.back_to if effect.how == "rewound" else self._commits.without
            self.dead.update(number for source in back(effect.path) for number in self._of(source))
        elif effect.how in ("reverted", "stashed"):
            for source in self.wrote:
                file = self.files.get(source, "")
                if not effect.path or not file or covers_path(effect.path, file):
                    lost = set(self._of(source)) - self.dead
                    self.dead |= lost
                    self._stashed |= lost if effect.how == "stashed" else set()
        elif effect.how == "unstashed":
            self.dead -= self._stashed
            self._stashed.clear()

    def _edited(self, path: str, patterns: Iterable[re.Pattern[str]]) -> None:
        """Record that a command replaced what matches one of the patterns in the files that a path covers."""
        for file in self._meant(path):
            numbers = list(self._of_file(file))
            texts = [self._texts[number] for number in numbers]
            ends = list(accumulate(len(text) + 1 for text in texts))
            # One search in all lines is far cheaper than one in each.
            whole = "\n".join(texts)
            places = (found.start() for pattern in patterns for found in pattern.finditer(whole))
            self.dead.update(numbers[bisect_right(ends, place)] for place in places if place < len(whole))

    def _meant(self, path: str) -> Iterable[str]:
        """The files that a path in a command covers (`covers_path`), without asking each of them where it is plain."""
        if _GLOB.search(path):
            return [file for file in self._showing if covers_path(path, file)]
        plain = path.rstrip("/").removeprefix("./")
        within = f"/{plain.lstrip('/')}/"
        named = [file for file in self._named.get(plain.rpartition("/")[2], ()) if same_file(plain, file)]
        return dict.fromkeys([*named, *(file for file in self._showing if within in "/" + file)])

    def _of_file(self, file: str) -> Iterator[int]:
        """The candidates that stood last in a source that shows a file."""
        for shown in self._named.get(file.rpartition("/")[2], ()) if file else ():
            if same_file(shown, file):
                sources = self._holding.get(shown, [])
                sources[:] = [source for source in sources if self._of(source)]
                for source in sources:
                    yield from self._of_source[source]

    def _of(self, source: int) -> list[int]:
        """The candidates that stood last in a source, but for stale ones that stay so.

        What moved on to a newer source never comes back to this one, so it is looked at once.
        """
        own = self._of_source.get(source, [])
        own[:] = [n for n in own if self._source_of[n] == source and (n not in self.dead or n in self._stashed)]
        return own

    def _may_be_of(self, number: int, file: str) -> bool:
        """Whether a candidate may be a line of a file: it is not known to belong to another."""
        own = self.files.get(self._source_of[number], "")
        return not own or not file or same_file(own, file)

    def _look_at_numbered(self) -> None:
        """Index the candidates that are numbered lines by the line without its number."""
        for number in range(self._looked_at, len(self._texts)):
            text = self._texts[number]
            # A number stands in front, or behind a path and one of these: to look for them is cheaper than to match.
            if ":" in text or "-" in text or text[:1] == "[" or text[:1].isdecimal():
                found = _NUMBERED.match(text)
                if found:
                    self._numbered.setdefault(text[found.end() :], []).append(number)
        self._looked_at = len(self._texts)
