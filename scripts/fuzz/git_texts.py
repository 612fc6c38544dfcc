"""Generated configurations, attributes, layouts and commands for the comparison with git."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable

from scripts.fuzz.git_places import PLANTED, Places, put

Bend = Callable[[Places], None]
"""Changes the layout of a fresh workspace."""

_PROGRAM = ("./pwn", "$WS/pwn", "sh ./pwn", "'./pwn'")
_ENTRIES: tuple[tuple[str, str | None, str, str], ...] = (
    *(("filter", name, key, "PROGRAM") for name in ("x", "x", "x", "x.y", "a b", "é", 'q"r', "a=b")
      for key in ("clean", "clean", "process", "smudge")),
    ("filter", "x", "required", "true"),
    ("core", None, "fsmonitor", "PROGRAM"),
    ("core", None, "fsmonitor", "PROGRAM"),
    ("core", None, "hooksPath", ".hooks"),
    ("core", None, "pager", "PROGRAM"),
    ("pager", None, "status", "PROGRAM"),
    ("pager", None, "log", "PROGRAM"),
    ("core", None, "sshCommand", "PROGRAM"),
    ("core", None, "editor", "PROGRAM"),
    ("core", None, "askPass", "PROGRAM"),
    ("core", None, "gitProxy", "PROGRAM"),
    ("core", None, "alternateRefsCommand", "PROGRAM"),
    ("core", None, "worktree", "$OUT"),
    ("core", None, "worktree", "../.."),
    ("core", None, "excludesFile", "$OUT/secret.txt"),
    ("core", None, "attributesFile", "$OUT/secret.txt"),
    ("mailmap", None, "file", "$OUT/secret.txt"),
    ("blame", None, "ignoreRevsFile", "$OUT/secret.txt"),
    ("diff", None, "orderFile", "$OUT/secret.txt"),
    ("diff", None, "external", "PROGRAM"),
    ("diff", "d", "command", "PROGRAM"),
    ("diff", "d", "textconv", "PROGRAM"),
    ("diff", None, "submodule", "diff"),
    ("diff", None, "ignoreSubmodules", "none"),
    ("merge", "m", "driver", "PROGRAM"),
    ("log", None, "diffMerges", "remerge"),
    ("log", None, "showSignature", "true"),
    ("log", None, "follow", "true"),
    ("gpg", None, "program", "PROGRAM"),
    ("gpg", "ssh", "program", "PROGRAM"),
    ("gpg", None, "format", "ssh"),
    ("format", None, "pretty", "%h %G?"),
    ("pretty", None, "evil", "%G?"),
    ("alias", None, "status", "!PROGRAM"),
    ("include", None, "path", "../settings.ini"),
    ("includeIf", "gitdir:/", "path", "../settings.ini"),
    ("includeIf", "onbranch:main", "path", "$WS/settings.ini"),
    ("remote", "o", "url", "ext::PROGRAM"),
    ("remote", "o", "promisor", "true"),
    ("remote", "o", "uploadpack", "PROGRAM"),
    ("extensions", None, "worktreeConfig", "true"),
    ("extensions", None, "worktreeConfig", "true"),
    ("extensions", None, "partialClone", "o"),
    ("extensions", None, "refStorage", "files"),
    ("core", None, "repositoryFormatVersion", "1"),
    ("core", None, "repositoryFormatVersion", "9"),
    ("core", None, "bare", "true"),
    ("protocol", None, "allow", "always"),
    ("protocol", "ext", "allow", "always"),
    ("url", "ext::sh ./pwn", "insteadOf", "https:"),
    ("credential", None, "helper", "PROGRAM"),
    ("interactive", None, "diffFilter", "PROGRAM"),
    ("sequence", None, "editor", "PROGRAM"),
    ("uploadpack", None, "packObjectsHook", "PROGRAM"),
    ("stash", None, "showPatch", "true"),
    ("submodule", "mod", "update", "!PROGRAM"),
    ("submodule", None, "recurse", "true"),
    ("status", None, "submoduleSummary", "true"),
    ("trailer", "x", "command", "PROGRAM"),
    ("grep", None, "fallbackToNoIndex", "true"),
    ("tar", "x", "command", "PROGRAM"),
    ("user", None, "name", "a"),
)  # fmt: skip
_RUNNING = 36
"""The number of entries that name a filter or a monitor, which reading commands run first."""
_BEFORE = ("\n", "[a]", "[core]\t", '[x "y"]', "# c\n", "; c\n", " ", "[a]b=c\n", "\n\n\t", "[a]b = \\\n c\n", "\\\n")
_ATTRIBUTES = ("filter=x", "filter=x", "filter=x.y", "filter=é", "diff=d", "merge=m", "text", "-diff", "eol=crlf")
COMMANDS = (
    "git status", "git status -s", "git status --porcelain=v2 --branch --ignored", "git diff",
    "git diff HEAD",
    "git diff --stat", "git diff --cached", "git diff -U0 -- a.txt", "git diff --numstat HEAD~1",
    "git diff HEAD~1 HEAD",
    "git diff docs src", "git diff a.txt b.txt", "git diff -- d src", "git diff --check", "git diff v1..HEAD",
    "git diff HEAD~1:.env..HEAD:.env", "git diff content content", "git diff -- '.e*'", "git diff -w --word-diff",
    "git log", "git log -p", "git log -p -1", "git log -p --all",
    "git log --stat -2", "git log -S KEY -p", "git log -m -p",
    "git log --graph --oneline --all", "git log --follow -p plain.txt", "git log -c -p", "git log -L1,1:a.txt",
    "git log --format=%an%n%ae", "git log -p -- src", "git log --oneline --name-only", "git log -U1 -2",
    "git show", "git show HEAD", "git show HEAD:a.txt", "git show v1", "git show content", "git show BLOB",
    "git show HEAD:.env", "git show :0:.env", "git show 'HEAD^{/two}:.env'", "git show 'HEAD^{/side: a}:.env'",
    "git show HEAD:", "git show -s HEAD", "git show --stat v1", "git show HEAD^2", "git show HEAD:plan.txt",
    "git blame a.txt", "git blame -L 1,2 a.txt", "git blame .env", "git blame HEAD -- a.txt", "git grep one",
    "git grep PLANTED", "git grep -n PLANTED -- d", "git grep x d", "git ls-files -s", "git ls-files -m",
    "git ls-files -o --exclude-standard", "git ls-tree -r HEAD", "git cat-file -p HEAD", "git cat-file -p BLOB",
    "git cat-file blob content", "git cat-file -p v1", "git cat-file -p HEAD:a.txt", "git cat-file -t BLOB",
    "git stash list", "git stash list -p", "git stash show", "git stash show -p",
    "git reflog", "git reflog -p",
    "git range-diff HEAD~1...HEAD", "git range-diff HEAD~1 HEAD main", "git -C src status", "git -C src log -p",
    "git -C d diff", "git -C src -C .. show", "git -C src show HEAD:a.txt",
    "git reflog show -p HEAD", "git shortlog -s HEAD", "git rev-list --all --oneline", "git branch -avv",
    "git tag -n",
    "git describe --always", "git for-each-ref",
    "git for-each-ref --format='%(raw)'", "git check-ignore -v a.txt b.txt",
    "git check-attr -a a.txt", "git remote -v", "git config --get core.pager", "git rev-parse --show-toplevel",
    "git rev-parse --show-superproject-working-tree", "git count-objects -v",
    "git name-rev HEAD", "git worktree list",
    "cd src && git status && git diff", "cd d && git log -p -1", "git --literal-pathspecs diff -- .env",
    "git --no-pager diff", "git archive HEAD", "git whatchanged -p", "git diff | head -3; git status",
)  # fmt: skip
_VARIABLES = (
    ("GIT_TRACE", "$WS/trace"), ("GIT_TRACE2_EVENT", "$WS/trace"),
    ("GIT_TRACE_SETUP", "$OUT/trace"),
    ("GIT_DIR", "$OTHER/.git"), ("GIT_DIR", "$WS/.git"),
    ("GIT_WORK_TREE", "$OUT"), ("GIT_EXTERNAL_DIFF", "$WS/pwn"),
    ("GIT_PAGER", "$WS/pwn"), ("GIT_OBJECT_DIRECTORY", "$OTHER/.git/objects"),
    ("GIT_CONFIG_GLOBAL", "$WS/settings.ini"),
    ("HOME", "$WS"), ("GIT_ICASE_PATHSPECS", "1"), ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "$OTHER/.git/objects"),
    ("GIT_COMMON_DIR", "$OTHER/.git"), ("GIT_EXEC_PATH", "$WS"),
    ("GIT_SSH_COMMAND", "$WS/pwn"), ("GIT_INDEX_FILE", "x"),
)  # fmt: skip


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
        put(config, old + text if chance() < 0.8 else text + "\n" + old)
        if chance() < 0.15:
            put(config, "\ufeff" + config.read_text())
        if chance() < 0.15:
            put(config, config.read_text().replace("\n", "\r\n"))
        if chance() < 0.15:
            put(directory / "config.worktree", self._configuration(1))
        put(workspace / "settings.ini", self._configuration(1))
        if chance() < 0.1:
            shutil.copy(workspace / "settings.ini", workspace / ".gitconfig")
        for place in (".gitattributes", "src/.gitattributes", ".git/info/attributes"):
            if chance() < 0.5:
                lines = [f"{choose(('*', '*.txt', 'a.txt', '**/*.py'))} {choose(_ATTRIBUTES)}\n" for _ in range(2)]
                put(workspace / place, "".join(lines))
        layout = choose(list(_LAYOUTS)) if chance() < 0.25 else "plain"
        if layout != "plain":
            _LAYOUTS[layout](self.places)
        return f"{layout}, config {config.read_bytes()[-300:] if config.is_file() else None!r}"

    def variables(self) -> dict[str, str]:
        """Variables of the user's environment."""
        if self.random.random() > 0.12:
            return {}
        name, value = self.random.choice(_VARIABLES)
        return {name: self._filled(value)}

    def command(self) -> str:
        """A git command."""
        return self.random.choice(COMMANDS).replace("BLOB", self.places.blob)

    def _filled(self, text: str) -> str:
        places = self.places
        for name, place in (("$WS", places.workspace), ("$OUT", places.outside), ("$OTHER", places.other)):
            text = text.replace(name, str(place))
        return text

    def _configuration(self, count: int) -> str:
        return "".join(self._entry() for _ in range(count))

    def _entry(self) -> str:
        choose, chance = self.random.choice, self.random.random
        section, subsection, key, value = choose(_ENTRIES if chance() < 0.6 else _ENTRIES[:_RUNNING])
        value = self._filled(value.replace("PROGRAM", choose(_PROGRAM)))
        header = self._case(section)
        if subsection is not None and subsection.isalnum() and subsection.isascii() and chance() < 0.15:
            header += f".{subsection}"
        elif subsection is not None:
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


def _moved(places: Places) -> None:
    (places.workspace / ".git").rename(places.workspace / "store")
    put(places.workspace / ".git", "gitdir: store\n")


def _pointed(target: str) -> Bend:
    def change(places: Places) -> None:
        shutil.rmtree(places.workspace / ".git")
        put(places.workspace / ".git", f"gitdir: {places.base / target}\n")

    return change


def _linked(part: str, target: str) -> Bend:
    def change(places: Places) -> None:
        path = places.workspace / part
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(places.base / target)

    return change


def _written(part: str, text: str) -> Bend:
    return lambda places: put(places.workspace / part, text.replace("$OTHER", str(places.other)))


def _false_worktree(places: Places) -> None:
    """A git folder among the files that looks like a linked worktree's and shares another repository."""
    put(places.workspace / "fake" / "gitdir", f"{places.workspace}/.git\n")
    put(places.workspace / "fake" / "commondir", f"{places.other}/.git\n")
    put(places.workspace / "fake" / "HEAD", "ref: refs/heads/main\n")
    shutil.rmtree(places.workspace / ".git")
    put(places.workspace / ".git", "gitdir: fake\n")


def _bare(places: Places) -> None:
    shutil.copytree(places.workspace / ".git", places.workspace / "src" / "emb", symlinks=True)
    for name in os.listdir(places.workspace / "src" / "emb"):
        (places.workspace / "src" / "emb" / name).rename(places.workspace / "src" / name)


def _nested(places: Places) -> None:
    shutil.copytree(places.workspace / ".git", places.workspace / "d" / ".git", symlinks=True)


def _empty(places: Places) -> None:
    shutil.rmtree(places.workspace / ".git")
    (places.workspace / ".git").mkdir()
    put(places.workspace / "docs" / "id_ed25519", f"{PLANTED}-SECRET\n")
    put(places.workspace / "src" / "id_ed25519", "other\n")


_LAYOUTS: dict[str, Bend] = {
    "git folder moved": _moved,
    "gitdir of another": _pointed("other/.git"),
    "gitdir outside": _pointed("outside"),
    "git folder a link": _linked(".git", "other/.git"),
    "objects a link": _linked(".git/objects", "other/.git/objects"),
    "refs a link": _linked(".git/refs", "other/.git/refs"),
    "config a link": _linked(".git/config", "outside/secret.txt"),
    "exclude a link": _linked(".git/info/exclude", "outside/secret.txt"),
    "folder a link": _linked("d", "outside"),
    "file a link": _linked("a.txt", "outside/secret.txt"),
    "attributes a link": _linked(".gitattributes", "outside/secret.txt"),
    "mailmap a link": _linked(".mailmap", "outside/secret.txt"),
    "common folder": _written(".git/commondir", "$OTHER/.git\n"),
    "alternates": _written(".git/objects/info/alternates", "$OTHER/.git/objects\n"),
    "false worktree": _false_worktree,
    "bare among the files": _bare,
    "nested": _nested,
    "empty git folder": _empty,
}
