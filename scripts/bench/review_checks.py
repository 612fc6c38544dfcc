"""Checks of reviews by the real program with a scripted model: what is sent suffices, and no finding is lost.

`check_sent`: each case is a change with a bug that is not on an added row alone: a removal, an unchanged row that
becomes wrong, a file that is deleted or renamed, a contract between two parts of the change, moved code, a mode. It
names the facts that a reader needs. Each must be in the request that shows the file of the bug, or in the answer of a
tool that the request offers.

`check_places`: CASES is a folder with a folder for each case: `before/` (files), `change.diff`, and `expected.json`
with `expected`: a list of `path` and `line`. The model reports a critical bug in every way of pointing that the case
permits. Every finding must be reported on a line or listed, and no run may end with 0. The forms of an answer are in
tests/review/test_model_answers.py.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from codelet.review.diff import FileDiff, lines_of, parse_diff
from tests.support import repo
from tests.support.reviews import asked, finding, found, is_closing, is_confirmation, review
from tests.support.script import Call, Reply
from tests.support.server import ModelServer, Recorded

Files = Mapping[str, str | None]
Claim = dict[str, Any]


class Fact(NamedTuple):
    """A text that a reader needs: in the request itself, or in the answer of a tool to a call."""

    text: str
    tool: str = ""
    arguments: Mapping[str, object] = {}


def look(text: str, pattern: str, **more: object) -> Fact:
    """A fact that `grep` gives."""
    return Fact(text, "grep", {"pattern": pattern, **more})


def open_file(text: str, path: str, **more: object) -> Fact:
    """A fact that `read` gives."""
    return Fact(text, "read", {"path": path, **more})


class SentCase(NamedTuple):
    """A change to files (None removes one), the file of the bug, and the facts. `small` splits the change."""

    name: str
    before: Files
    after: Files
    path: str
    facts: Sequence[Fact]
    small: bool = False


BODY = "".join(f"    step_{n}()\n" for n in range(30))
FILLER = "".join(f"value_{n} = {n}\n" for n in range(60))


def on_kept_rows() -> Iterator[SentCase]:
    """Removed code that is still needed, and rows that stay and are wrong now."""
    for name, gone, kept in (
        ("a lock", "lock.acquire()", "work()"), ("a check", "if not user.may(): raise Denied", "delete(user)"),
        ("a decrement", "idle -= 1", "notify()"), ("a close", "handle.close()", "return"),
        ("an await", "await flush()", "done()"), ("a bound", "n = min(n, LIMIT)", "read(n)"),
    ):  # fmt: skip
        before, after = f"def run():\n{BODY}    {gone}\n    {kept}\n{BODY}", f"def run():\n{BODY}    {kept}\n{BODY}"
        facts: tuple[Fact, ...] = (Fact(f"-     {gone}"), Fact(kept), Fact("(+0 -1)"))
        yield SentCase(f"removed: {name}", {"app.py": before}, {"app.py": after}, "app.py", facts)
    for name, gap in (("next to it", 1), ("between two hunks", 8), ("far below", 60)):
        middle = "".join(f"    keep_{n}()\n" for n in range(gap))
        before = f"def run(e):\n    e = find()\n{middle}    unlock(e)\n{middle}    return None\n"
        after = before.replace("find()", "find() if on else None").replace("return None", "unlock(e)")
        fact = Fact("unlock(e)") if gap < 20 else open_file("unlock(e)", "app.py")
        yield SentCase(f"unchanged row, {name}", {"app.py": before}, {"app.py": after}, "app.py", (fact,))
    before = "TIMEOUT = 30\n\n\n\n\ndef wait(seconds=TIMEOUT):\n    sleep(seconds * 1000)\n"
    after = before.replace("= 30\n", "= 30_000  # ms\n", 1)
    facts = (Fact("TIMEOUT = 30"), open_file("* 1000", "conf.py"))
    yield SentCase("unchanged row, a unit", {"conf.py": before}, {"conf.py": after}, "conf.py", facts)


def on_other_files() -> Iterator[SentCase]:
    """Files that are deleted, renamed or of another mode, and what still needs them."""
    user = "import auth\n\n\ndef view():\n    return auth.ok()\n"
    lib = {"auth.py": f"def ok():\n    return True\n{FILLER}"}
    moved, renamed = {"auth.py": None, "login.py": lib["auth.py"]}, Fact('renamed from "auth.py"')
    removed, importing = Fact("removed"), look("app.py:1:import auth", "import auth")
    old_auth = open_file("def ok", "auth.py", before=True)
    cases: Sequence[tuple[str, Files, Files, Sequence[Fact]]] = (
        ("deleted module", lib, {"auth.py": None}, (Fact('"auth.py" (+0'), removed, importing, old_auth)),
        ("renamed module", lib, moved, (renamed, importing)),
        ("renamed, another caller", {**lib, "x.py": "import auth\n"}, moved, (renamed, look("x.py:1:", "auth"))),
        ("deleted template", {"a.html": "<p>\n"}, {"a.html": None}, (removed, open_file("<p>", "a.html", before=True))),
        ("deleted test", {"test_a.py": "def test(): assert ok()\n"}, {"test_a.py": None},
         (removed, open_file("ok()", "test_a.py", before=True))),
        ("lost mode", {"run.sh": "exit\n"}, {}, (Fact("mode 100755 to 100644"),)),
        ("binary data", {"d.bin": "\0\1" * 40}, {"d.bin": "\0\2" * 40}, (Fact('"d.bin"'), Fact("a binary file"))),
        ("lock file", {"go.sum": "a 1\n"}, {"go.sum": "a 2\n"}, (Fact('"go.sum" (+1 -1, not shown'),)),
        ("generated copy", {"a_pb2.py": "x = 1\n"}, {"a_pb2.py": "x = 2\n"}, (Fact('"a_pb2.py" (+1 -1, not shown'),)),
    )  # fmt: skip
    for name, before, after, facts in cases:
        more = f"{user}\n\ndef other():\n    return 3\n"
        yield SentCase(name, {"app.py": user, **before}, {"app.py": more, **after}, "app.py", facts)


def across_parts() -> Iterator[SentCase]:
    """Two parts of a change that no longer fit, each in a separate request; and code that moves."""
    for name, old, new, use in (
        ("returns None", "raise KeyError(k)", "return None", "except KeyError:"),
        ("other order", "def find(a, b):", "def find(b, a):", "find(first, second)"),
        ("other unit", "return seconds", "return seconds * 1000", "sleep(delay())"),
        ("other exception", "raise ValueError(k)", "raise TypeError(k)", "except ValueError:"),
        ("new argument", "def find(a):", "def find(a, strict):", "find(key)"),
        ("now async", "def find(a):", "async def find(a):", "value = find(key)"),
        ("another key", 'data["id"]', 'data["ident"]', 'row["id"]'),
    ):
        before: Files = {"lib/find.py": f"{FILLER}{old}\n", "web/use.py": f"{FILLER}{use}\nold()\n"}
        after: Files = {"lib/find.py": f"{FILLER}{new}\n", "web/use.py": f"{FILLER}{use}\nnew()\n"}
        sides = [open_file(new, "lib/find.py", offset=55), open_file(old, "lib/find.py", offset=55, before=True)]
        facts: tuple[Fact, ...] = (Fact('"lib/find.py" (+1 -1)'), Fact(use), *sides)
        yield SentCase(f"contract: {name}", before, after, "web/use.py", facts, small=True)
    caller = {"lib/a.py": "def old_name(): pass\n", "web/deep/b.py": "from lib.a import old_name\n"}
    before_it = look("lib/a.py:1:def old", "old_name", path="lib", before=True)
    facts = (Fact("- def old_name"), look("web/deep/b.py:1:", "old_name"), before_it)
    yield SentCase("contract: an untouched caller", caller, {"lib/a.py": "def new_name(): pass\n"}, "lib/a.py", facts)
    block = "".join(f"    keep_{n}(x / 0)\n" for n in range(6))
    for target in ("app.py", "lib.py"):
        source = f"def one():\n{block}\n\n{FILLER}"
        texts = {"app.py": source.replace(block, "    two()\n"), "lib.py": "import os\n"}
        texts[target] += f"\n\ndef two():\n{block}"
        for small in (False, True):
            facts = (Fact("+     keep_3(x / 0)"), look("app.py:", r"keep_3\(x", before=True))
            facts += () if small else (Fact("-     keep_3(x / 0)"),)
            name = f"moved to {target}{', apart' * small}"
            yield SentCase(name, {"app.py": source, "lib.py": "import os\n"}, texts, target, facts, small=small)


def missing_facts(case: SentCase, work: Path) -> list[str]:
    """The facts that a reader of the bug's file does not get."""
    folder = repo.plain(work, {path: text.encode() for path, text in case.before.items() if text is not None})
    for script in folder.glob("*.sh"):
        script.chmod(0o755)
        repo.commit(folder, {}, "Mode")
        script.chmod(0o644)
    for path, text in case.after.items():
        if text is None:
            (folder / path).unlink()
    repo.commit(folder, {path: text.encode() for path, text in case.after.items() if text is not None}, "Change")
    wanted = [fact for fact in case.facts if fact.tool]
    calls = tuple(Call(str(number), fact.tool, dict(fact.arguments)) for number, fact in enumerate(wanted))

    def model(request: Recorded) -> Reply:
        is_answered = not calls or request.messages[-1]["role"] == "tool"
        return Reply(found()) if is_answered else Reply("", calls=calls)

    with ModelServer(model) as server:
        done = review(server, folder, "HEAD", *(("--chunk-tokens", "40") if case.small else ()))
        if done.exit != 0:
            return [f"exit {done.exit}: {done.err}"]
        own = [each for each in server.requests if f'"{case.path}"' in asked(each).partition("<diff")[2]]
    lacking = []
    for request in own:
        answers = [str(message["content"]) for message in request.messages if message["role"] == "tool"]
        if answers or not calls:
            given = [asked(request) if not fact.tool else answers[wanted.index(fact)] for fact in case.facts]
            lacking.append([fact.text for fact, text in zip(case.facts, given, strict=True) if fact.text not in text])
    return min(lacking, key=len, default=["no request shows the file"])


def sent_cases() -> list[SentCase]:
    """All cases."""
    return [*on_kept_rows(), *on_other_files(), *across_parts()]


def check_sent() -> bool:
    """Check all cases and print what each lacks; whether none lacks anything."""
    short = 0
    for case in sent_cases():
        with tempfile.TemporaryDirectory() as work:
            missing = missing_facts(case, Path(work) / "case")
        short += bool(missing)
        print(f"{f'short of {missing!r}' if missing else 'suffices':<12} {case.name}")
    total = len(sent_cases())
    print(f"{total - short} of {total} cases suffice ({(total - short) / total:.0%})")
    return not short


def ways_to_point(files: list[FileDiff], path: str, line: int | None) -> Iterator[tuple[str, Claim]]:
    """The ways to point at a bug that a change permits, by name, each as a finding."""
    rows = [row for each in files if each.path == path for hunk in each.hunks for row in lines_of(hunk)]
    new = [row for row in rows if row.sign != "-"]
    at = next((row for row in new if row.number == line), new[0])

    def claim(quote: str, where: str = path, number: int = at.number) -> Claim:
        return finding(quote, number, where, severity="critical", title="The bug")

    yield "the very row", claim(at.text)
    yield "a row with its gutter", claim(f"{at.number:>5} {at.sign} {at.text}")
    yield "a row with its neighbours", claim("\n".join(row.text for row in new if abs(row.number - at.number) <= 1))
    yield "one space too many", claim(at.text.replace(" ", "  ") + " ;"[: 2 * at.text.endswith("?")])
    yield "one edit", claim(f"{at.text}~")
    if len(at.text.strip()) > 12:
        yield "cut short", claim(f"{at.text[: len(at.text) * 2 // 3]}…")
    for name, sign in (("a removed row", "-"), ("an unchanged row", " ")):
        if (row := next((each for each in rows if each.sign == sign and each.text.strip()), None)) is not None:
            yield name, claim(row.text, number=row.number)
    for one, other in pairwise(rows):
        if (one.sign, other.sign) == ("-", "+"):
            yield "removed and added rows", claim(f"{one.text}\n{other.text}")
            break
    yield "the path without its first folder", claim(at.text, path.partition("/")[2] or path)
    yield "the path with folders before it", claim(at.text, f"/work/repo/{path}")
    yield "a file that is not in the change", claim("int caller(void) {", "src/caller.c")
    for each in [each for each in files if each.path != path and each.hunks][:1]:
        own = next((row for row in lines_of(each.hunks[0]) if row.sign == "+"), lines_of(each.hunks[0])[0])
        yield "a file of another part", claim(own.text, each.path, own.number)


def state_of(folder: Path, answer: str) -> tuple[str, bool]:
    """Review the last commit with that answer: where the finding is, and whether the exit status says so."""

    def model(request: Recorded) -> Reply:
        if is_closing(request):
            return Reply('{"summary": "x"}')
        return Reply(json.dumps({"holds": True}) if is_confirmation(request) else answer)

    with ModelServer(model) as server:
        done = review(server, folder, "HEAD", "--output", "json", "--chunk-tokens", "150")
    report = json.loads(done.out)
    if any(each["severity"] == "critical" for each in report["findings"]):
        return "placed", done.exit in (1, 5)
    is_listed = any(each["kind"] in ("misplaced", "malformed", "unconfirmed") for each in report["aside"])
    return "listed" if is_listed else "lost", is_listed and done.exit == 5


def check_places(places: Sequence[Path]) -> bool:
    """Review all cases in all ways and print what was lost; whether nothing was."""
    folders = [case for given in places for case in sorted(given.iterdir()) if case.is_dir()]
    counts: Counter[str] = Counter()
    lost = []
    for case in folders:
        with tempfile.TemporaryDirectory() as work:
            folder = repo.plain(Path(work) / "case", {"README": "x\n"})
            files = [file for file in (case / "before").rglob("*") if file.is_file()]
            repo.commit(folder, {str(file.relative_to(case / "before")): file.read_bytes() for file in files}, "Before")
            diff = (case / "change.diff").read_bytes()
            subprocess.run(["git", "apply", "--index", "-"], cwd=folder, input=diff, check=True)
            repo.commit(folder, {}, "Change")
            expected = json.loads((case / "expected.json").read_text())["expected"][0]
            for name, claim in ways_to_point(list(parse_diff(BytesIO(diff))), expected["path"], expected["line"]):
                state, is_told = state_of(folder, found(claim))
                counts[state] += 1
                lost += [] if is_told else [f"{case.name}: {name}: {state}"]
    print(f"{len(folders)} cases, {counts.total()} answers: {counts['placed']} placed, {counts['listed']} listed")
    print("\n".join(lost) or "none lost, none ended with 0")
    return not lost
