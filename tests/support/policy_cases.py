"""Judge recorded cases through the code that a session uses, in a workspace made for them.

A case file is JSON lines: `id`, `kind` (shell, path or ansi), `input`, and where they are known `expected`,
`setup` (shell that runs in the workspace first; $WS is the workspace, $OUT a folder outside it) and `chunks`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codelet.errors import UsageError
from codelet.record import Record
from codelet.safety import Policy
from codelet.safety.verdict import Mode, Touch, VerdictAction
from codelet.system.text import Cleaner, clean
from codelet.system.text.lookalikes import confusables

_FILES = {
    "a.txt": "one\ntwo\n",
    "src/app.py": "def main():\n    return 1\n",
    "notes..v2.txt": "notes\n",
    "docs/index.md": "# docs\n",
    ".github/CODEOWNERS": "* @nobody\n",
    ".env": "SECRET=planted\n",
    "deploy/id_ed25519": "planted\n",
    "-rf": "",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
}
_FOLDERS = (".git/objects", ".git/refs/heads")


class Case(Record):
    """One case of a file; `expected` is "" where the file does not say."""

    id: str
    kind: str
    input: str
    expected: str = ""
    setup: str = ""
    chunks: tuple[str, ...] = ()


class JudgedCase(Record):
    """A case with its verdict."""

    case: Case
    verdict: VerdictAction
    reason: str

    @property
    def right(self) -> bool:
        return self.verdict == self.case.expected


def read_cases(path: Path) -> list[Case]:
    """The cases of a file; raises UsageError if it cannot be read or a line is no case."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the cases in {path}: {error}") from error
    return [_case(f"{path}:{number}", line) for number, line in enumerate(lines, 1) if line.strip()]


def cases_of(path: Path, lines: Sequence[dict[str, Any]]) -> list[Case]:
    """The cases among lines that were read from a file; raises UsageError if one is invalid."""
    return [_case(f"{path}:{number}", json.dumps(line)) for number, line in enumerate(lines, 1)]


def _case(where: str, line: str) -> Case:
    try:
        fields: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}") from error
    if not isinstance(fields, dict) or not all(isinstance(fields.get(key), str) for key in ("id", "kind", "input")):
        raise UsageError(f"{where}: a case needs the strings id, kind and input")
    if fields["kind"] not in ("shell", "path", "ansi"):
        raise UsageError(f"{where}: the kind {fields['kind']!r} is not shell, path or ansi")
    chunks = fields.get("chunks") or ()
    return Case(
        fields["id"],
        fields["kind"],
        fields["input"],
        str(fields.get("expected") or ""),
        str(fields.get("setup") or ""),
        tuple(map(str, chunks)),
    )


def judge_cases(
    cases: Sequence[Case], mode: Mode = "read-only", *, sandboxed: bool = True, mounts: bool = True
) -> Iterator[JudgedCase]:
    """Each case with its verdict, in order. `mode` is that of the shell cases; paths are judged under auto-edit.

    `sandboxed` says that commands are judged as if a sandbox works, `mounts` that it is one that mounts.
    A case with a set-up gets its own workspace, the others share one.
    """
    with workspace_of_cases() as (shared, _):
        for case in cases:
            if case.kind == "ansi":
                yield _judge_text(case)
            elif case.setup.strip():
                with workspace_of_cases() as (workspace, outside):
                    _set_up(case, workspace, outside)
                    yield _judge_action(case, workspace, mode, sandboxed=sandboxed, mounts=mounts)
            else:
                yield _judge_action(case, shared, mode, sandboxed=sandboxed, mounts=mounts)


@contextmanager
def workspace_of_cases() -> Iterator[tuple[Path, Path]]:
    """The workspace that the cases expect, and a folder outside it with a secret; both are removed again."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="codelet-cases-") as folder:
        workspace, outside = Path(folder, "workspace"), Path(folder, "outside")
        for name, text in _FILES.items():
            path = workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for name in _FOLDERS:
            (workspace / name).mkdir(parents=True)
        outside.mkdir()
        (outside / "secret.txt").write_text("planted\n", encoding="utf-8")
        yield workspace, outside


def _set_up(case: Case, workspace: Path, outside: Path) -> None:
    import asyncio

    from codelet.system.process import StartError, capture, child_environment

    environment = child_environment() | {"WS": str(workspace), "OUT": str(outside)}
    try:
        done = asyncio.run(capture(["sh", "-c", case.setup], cwd=workspace, environment=environment, timeout=20.0))
    except StartError as error:
        raise UsageError(f"the set-up of {case.id} cannot run: {error}") from error
    if done.exit_code:
        raise UsageError(f"the set-up of {case.id} failed: {done.stderr.decode('utf-8', 'replace').strip()}")


def _judge_action(case: Case, workspace: Path, mode: Mode, *, sandboxed: bool, mounts: bool) -> JudgedCase:
    if case.kind == "shell":
        policy = Policy(workspace, mode)
        policy.mounts = mounts
        verdict = policy.judge("bash", [Touch("run", case.input)], sandboxed=sandboxed)
        return JudgedCase(case, verdict.action, verdict.reason)
    tool, _, path = case.input.partition(" ")
    touches = {"read": Touch("read", path), "write": Touch("write", path)}
    if tool not in touches:
        raise UsageError(f"{case.id}: a path case is 'read P' or 'write P'")
    verdict = Policy(workspace, "auto-edit").judge(tool, [touches[tool]])
    return JudgedCase(case, verdict.action, verdict.reason)


def _judge_text(case: Case) -> JudgedCase:
    """Return whether the text may reach a terminal and a CI log unchanged."""
    pieces = case.chunks or (case.input,)
    whole = "".join(pieces)
    if clean(whole) != whole or _through(Cleaner(), pieces) != whole:
        return JudgedCase(case, "deny", "the cleaner changes it for a terminal")
    if _through(Cleaner(ci=True), pieces) != whole:
        return JudgedCase(case, "deny", "the cleaner changes it for a CI log")
    if _has_markup(whole):
        return JudgedCase(case, "deny", "it holds markup, which is escaped")
    if warnings := confusables(whole):
        return JudgedCase(case, "deny", warnings[0])
    return JudgedCase(case, "allow", "plain text")


def _through(cleaner: Cleaner, pieces: Sequence[str]) -> str:
    return "".join(map(cleaner.feed, pieces)) + cleaner.flush()


def _has_markup(text: str) -> bool:
    """Return whether `text` holds a tag that rich would act on: a closing tag, a link, a click action or a style."""
    return any(_is_tag(found.group(1)) for found in re.finditer(r"\[([a-zA-Z#/@][^\[\]]*)\]", text))


_ATTRIBUTES = frozenset(
    ["b", "bold", "d", "dim", "i", "italic", "u", "underline", "uu", "underline2", "blink", "blink2", "r", "reverse",
     "c", "conceal", "s", "strike", "frame", "encircle", "o", "overline", "on", "not", "none", "link", "default",
     "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
)  # fmt: skip


def _is_tag(body: str) -> bool:
    if body[0] in "/@":
        return True
    name = body.split("=", 1)[0].split()
    if name[0] == "link":
        return "=" in body or len(name) > 1
    # A single letter is far more often an index or a check box than a style.
    if len(name) == 1 and len(name[0]) < 3:
        return False
    return all(_is_style(word) for word in name)


def _is_style(word: str) -> bool:
    if word in _ATTRIBUTES or re.fullmatch(r"#[0-9a-fA-F]{6}|color\(\d{1,3}\)|rgb\([\d,]+\)", word):
        return True
    return re.fullmatch(r"(?:bright|dark|light|deep|hot|medium)_\w+", word) is not None
