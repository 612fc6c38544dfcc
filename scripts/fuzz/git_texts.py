"""Generated configurations, attributes, layouts and commands for the comparison with git."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from scripts.fuzz.git_places import PLANTED, Places
from tests.support import repo

_PROGRAM = ("./pwn", "$WS/pwn", "sh ./pwn", "'./pwn'")
_FILTERS = ("x", "x", "x", "x.y", "a b", "é", 'q"r', "a=b")
_RUN_FIRST = [
    *((f"filter.{name}.{key}", "PROGRAM") for name in _FILTERS for key in ("clean", "clean", "process", "smudge")),
    ("filter.x.required", "true"), ("core.fsmonitor", "PROGRAM"), ("core.fsmonitor", "PROGRAM"),
    ("core.hooksPath", ".hooks"),
]  # fmt: skip
"""The entries with programs that reading commands run first: section, perhaps a subsection, and key; and the value."""
_BY_VALUE = {
    "PROGRAM": "core.pager pager.status pager.log core.sshCommand core.editor core.askPass core.gitProxy gpg.program"
    " core.alternateRefsCommand diff.external diff.d.command diff.d.textconv merge.m.driver gpg.ssh.program"
    " remote.o.uploadpack credential.helper interactive.diffFilter sequence.editor uploadpack.packObjectsHook"
    " trailer.x.command tar.x.command",
    "!PROGRAM": "alias.status submodule.mod.update",
    "ext::PROGRAM": "remote.o.url",
    "$OUT": "core.worktree",
    "../..": "core.worktree",
    "$OUT/secret.txt": "core.excludesFile core.attributesFile mailmap.file blame.ignoreRevsFile diff.orderFile",
    "true": "log.showSignature log.follow remote.o.promisor extensions.worktreeConfig extensions.worktreeConfig"
    " core.bare stash.showPatch submodule.recurse status.submoduleSummary grep.fallbackToNoIndex",
    "always": "protocol.allow protocol.ext.allow",
    "../settings.ini": "include.path includeIf.gitdir:/.path",
    "$WS/settings.ini": "includeIf.onbranch:main.path",
}
_ENTRIES = [
    *_RUN_FIRST, *((key, value) for value, keys in _BY_VALUE.items() for key in keys.split()),
    ("diff.submodule", "diff"), ("diff.ignoreSubmodules", "none"), ("log.diffMerges", "remerge"),
    ("gpg.format", "ssh"), ("format.pretty", "%h %G?"), ("pretty.evil", "%G?"), ("extensions.partialClone", "o"),
    ("extensions.refStorage", "files"), ("core.repositoryFormatVersion", "1"),
    ("core.repositoryFormatVersion", "9"), ("url.ext::sh ./pwn.insteadOf", "https:"), ("user.name", "a"),
]  # fmt: skip
_BEFORE = ("\n", "[a]", "[core]\t", '[x "y"]', "# c\n", "; c\n", " ", "[a]b=c\n", "\n\n\t", "[a]b = \\\n c\n", "\\\n")
_ATTRIBUTES = ("filter=x", "filter=x", "filter=x.y", "filter=é", "diff=d", "merge=m", "text", "-diff", "eol=crlf")
_COMMANDS = Path(__file__).with_name("git_commands.txt").read_text(encoding="utf-8").splitlines()
_VARIABLES = (
    ("GIT_TRACE", "$WS/trace"), ("GIT_TRACE2_EVENT", "$WS/trace"), ("GIT_TRACE_SETUP", "$OUT/trace"),
    ("GIT_DIR", "$OTHER/.git"), ("GIT_DIR", "$WS/.git"), ("GIT_WORK_TREE", "$OUT"), ("GIT_EXTERNAL_DIFF", "$WS/pwn"),
    ("GIT_PAGER", "$WS/pwn"), ("GIT_OBJECT_DIRECTORY", "$OTHER/.git/objects"),
    ("GIT_CONFIG_GLOBAL", "$WS/settings.ini"), ("HOME", "$WS"), ("GIT_ICASE_PATHSPECS", "1"),
    ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "$OTHER/.git/objects"), ("GIT_COMMON_DIR", "$OTHER/.git"),
    ("GIT_EXEC_PATH", "$WS"), ("GIT_SSH_COMMAND", "$WS/pwn"), ("GIT_INDEX_FILE", "x"),
)  # fmt: skip
_LAYOUTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "git folder moved": (("move", ".git", "store"), ("write", ".git", "gitdir: store\n")),
    "gitdir of another": (("write", ".git", "gitdir: $OTHER/.git\n"),),
    "gitdir outside": (("write", ".git", "gitdir: $OUT\n"),),
    "git folder a link": (("link", ".git", "$OTHER/.git"),),
    "objects a link": (("link", ".git/objects", "$OTHER/.git/objects"),),
    "refs a link": (("link", ".git/refs", "$OTHER/.git/refs"),),
    "config a link": (("link", ".git/config", "$OUT/secret.txt"),),
    "exclude a link": (("link", ".git/info/exclude", "$OUT/secret.txt"),),
    "folder a link": (("link", "d", "$OUT"),),
    "file a link": (("link", "a.txt", "$OUT/secret.txt"),),
    "attributes a link": (("link", ".gitattributes", "$OUT/secret.txt"),),
    "mailmap a link": (("link", ".mailmap", "$OUT/secret.txt"),),
    "common folder": (("write", ".git/commondir", "$OTHER/.git\n"),),
    "alternates": (("write", ".git/objects/info/alternates", "$OTHER/.git/objects\n"),),
    # A git folder among the files that looks like a linked worktree's and shares another repository.
    "false worktree": (
        ("write", "fake/gitdir", "$WS/.git\n"), ("write", "fake/commondir", "$OTHER/.git\n"),
        ("write", "fake/HEAD", "ref: refs/heads/main\n"), ("write", ".git", "gitdir: fake\n"),
    ),
    "bare among the files": (("copy", ".git", "src"),),
    "nested": (("copy", ".git", "d/.git"),),
    "empty git folder": (
        ("move", ".git", "../gone"), ("write", "docs/id_ed25519", f"{PLANTED}-SECRET\n"),
        ("write", "src/id_ed25519", "other\n"), ("folder", ".git"),
    ),
}  # fmt: skip
"""Changes to a fresh workspace, by name. A file or link that is made replaces the old one."""


class Texts:
    """A source of repositories and commands that repeats for the same seed."""

    def __init__(self, seed: int, places: Places) -> None:
        self.random = random.Random(seed)
        self.places = places

    def repository(self) -> str:
        """Change the fresh workspace. Returns a description."""
        choose, chance = self.random.choice, self.random.random
        workspace = self.places.workspace
        text = self._configuration(choose((0, 1, 1, 2, 2, 3)))
        directory = workspace / ".git"
        config = directory / "config"
        old = config.read_text()
        config.write_text(old + text if chance() < 0.8 else text + "\n" + old)
        if chance() < 0.15:
            config.write_text("\ufeff" + config.read_text())
        if chance() < 0.15:
            config.write_text(config.read_text().replace("\n", "\r\n"))
        if chance() < 0.15:
            (directory / "config.worktree").write_text(self._configuration(1))
        (workspace / "settings.ini").write_text(self._configuration(1))
        if chance() < 0.1:
            shutil.copy(workspace / "settings.ini", workspace / ".gitconfig")
        for place in (".gitattributes", "src/.gitattributes", ".git/info/attributes"):
            if chance() < 0.5:
                lines = [f"{choose(('*', '*.txt', 'a.txt', '**/*.py'))} {choose(_ATTRIBUTES)}\n" for _ in range(2)]
                repo.write(workspace, {place: "".join(lines)})
        layout = choose(list(_LAYOUTS)) if chance() < 0.25 else "plain"
        if layout != "plain":
            for action, part, *rest in _LAYOUTS[layout]:
                self._bend(action, workspace / part, *map(self._filled, rest))
        return f"{layout}, config {config.read_bytes()[-300:] if config.is_file() else None!r}"

    def _bend(self, action: str, path: Path, text: str = "") -> None:
        match action:
            case "move":
                path.rename(path.parent / text)
            case "copy":
                shutil.copytree(path, path.parent / text, symlinks=True, dirs_exist_ok=True)
            case "folder":
                path.mkdir()
            case _:
                if path.is_dir():
                    shutil.rmtree(path)
                path.unlink(missing_ok=True)
                if action == "write":
                    repo.write(path.parent, {path.name: text})
                else:
                    path.symlink_to(text)

    def variables(self) -> dict[str, str]:
        """Variables of the user's environment."""
        if self.random.random() > 0.12:
            return {}
        name, value = self.random.choice(_VARIABLES)
        return {name: self._filled(value)}

    def command(self) -> str:
        """A git command."""
        return self.random.choice(_COMMANDS).replace("BLOB", self.places.blob)

    def _filled(self, text: str) -> str:
        places = self.places
        for name, place in (("$WS", places.workspace), ("$OUT", places.outside), ("$OTHER", places.other)):
            text = text.replace(name, str(place))
        return text

    def _configuration(self, count: int) -> str:
        return "".join(self._entry() for _ in range(count))

    def _entry(self) -> str:
        choose, chance = self.random.choice, self.random.random
        name, value = choose(_ENTRIES if chance() < 0.6 else _RUN_FIRST)
        value = self._filled(value.replace("PROGRAM", choose(_PROGRAM)))
        section, _, name = name.partition(".")
        subsection, _, key = name.rpartition(".")
        header = self._case(section)
        if subsection.isalnum() and subsection.isascii() and chance() < 0.15:
            header += f".{subsection}"
        elif subsection:
            escaped = subsection.replace("\\", "\\\\").replace('"', '\\"')
            if chance() < 0.2:
                escaped = "".join(f"\\{c}" if c.isalpha() and chance() < 0.5 else c for c in escaped)
            header += f'{choose((" ", " ", chr(9), "  "))}"{escaped}"'
        before = choose(_BEFORE) if chance() < 0.5 else ""
        between = choose(("\n\t", "\n", "\n", "", " ", "\t", " ; no\n", "# [core]\n", "\n\n"))
        equals = choose((" = ", "=", " =", "= ", "\t=\t"))
        if chance() < 0.2:
            value = f'"{value}"'
        elif chance() < 0.15 and len(value) > 3:
            value = f"{value[:3]}\\\n{value[3:]}"
        elif chance() < 0.1:
            value = f'{value[:2]}"{value[2:]}"'
        end = choose(("\n", "\n", "\n", " ; c\n", " # c\n", "\r\n", "\n\n"))
        return f"{before}[{header}]{between}{self._case(key)}{equals}{value}{end}"

    def _case(self, name: str) -> str:
        return self.random.choice((name, name, name.upper(), name.lower(), name.swapcase()))
