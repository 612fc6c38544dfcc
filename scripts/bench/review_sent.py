"""Check without a model that a review sends the facts that a bug needs.

Use: python -m scripts.bench.review_sent

Each case is a change with a bug that is not on an added row alone: a removal, an unchanged row that becomes wrong, a
file that is deleted or renamed, a contract between two parts of the change, moved code, a mode, a submodule. It names
the facts that a reader needs. Each fact must be in the request that shows the file of the bug, or in the answer of a
tool that the request offers. The real program is run; a scripted model calls the tools. Exit status 1: one is missing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tests.support import repo
from tests.support.reviews import asked, found, review
from tests.support.script import Call, Reply
from tests.support.server import ModelServer, Recorded

Files = Mapping[str, str | None]


class Fact(NamedTuple):
    """A text that a reader needs: in the request itself, or in what a tool answers to a call."""

    text: str
    tool: str = ""
    arguments: Mapping[str, object] = {}


@dataclass(frozen=True)
class Case:
    """A change to files (None removes one), the file of the bug, and the facts. `small` splits the change."""

    name: str
    before: Files
    after: Files
    path: str
    facts: tuple[Fact, ...]
    small: bool = False
    act: Callable[[Path], object] | None = None


def look(text: str, pattern: str, **more: object) -> Fact:
    """A fact that `grep` gives."""
    return Fact(text, "grep", {"pattern": pattern, **more})


def open_file(text: str, path: str, **more: object) -> Fact:
    """A fact that `read` gives."""
    return Fact(text, "read", {"path": path, **more})


BODY = "".join(f"    step_{n}()\n" for n in range(30))
FILLER = "".join(f"value_{n} = {n}\n" for n in range(60))


def removals() -> list[Case]:
    """Removed code that is still needed."""
    rows = {
        "a lock": ("lock.acquire()", "work()"), "a check": ("if not user.may(): raise Denied", "delete(user)"),
        "a decrement": ("idle -= 1", "notify()"), "a close": ("handle.close()", "return"),
        "an await": ("await flush()", "done()"), "a bound": ("n = min(n, LIMIT)", "read(n)"),
    }  # fmt: skip
    return [
        Case(
            f"removed: {name}",
            {"app.py": f"def run():\n{BODY}    {gone}\n    {kept}\n{BODY}"},
            {"app.py": f"def run():\n{BODY}    {kept}\n{BODY}"},
            "app.py",
            (Fact(f"-     {gone}"), Fact(kept), Fact("(+0 -1)")),
        )
        for name, (gone, kept) in rows.items()
    ]


def unchanged_rows() -> list[Case]:
    """A row that stays is wrong now: next to the change, between two hunks, far from it."""
    cases = []
    for name, gap in (("next to it", 1), ("between two hunks", 8), ("far below", 60)):
        middle = "".join(f"    keep_{n}()\n" for n in range(gap))
        before = f"def run(e):\n    e = find()\n{middle}    unlock(e)\n{middle}    return None\n"
        after = before.replace("find()", "find() if on else None").replace("return None", "unlock(e)")
        fact = Fact("unlock(e)") if gap < 20 else open_file("unlock(e)", "app.py")
        cases.append(Case(f"unchanged row, {name}", {"app.py": before}, {"app.py": after}, "app.py", (fact,)))
    default = {"conf.py": "TIMEOUT = 30\n\n\n\n\ndef wait(seconds=TIMEOUT):\n    sleep(seconds * 1000)\n"}
    after = {"conf.py": default["conf.py"].replace("= 30\n", "= 30_000  # ms\n", 1)}
    cases.append(
        Case("unchanged row, a unit", default, after, "conf.py", (Fact("TIMEOUT = 30"), open_file("* 1000", "conf.py")))
    )
    return cases


def _lose_mode(folder: Path) -> None:
    (folder / "run.sh").chmod(0o644)


def other_files() -> list[Case]:
    """Files that are deleted, renamed or of another mode, and what still needs them."""
    user = {"app.py": "import auth\n\n\ndef view():\n    return auth.ok()\n"}
    more = {"app.py": f"{user['app.py']}\n\ndef other():\n    return 3\n"}
    lib = {"auth.py": f"def ok():\n    return True\n{FILLER}"}
    moved = {"auth.py": None, "login.py": lib["auth.py"]}
    renamed = Fact('renamed from "auth.py"')

    def case(name: str, before: Files, after: Files, *facts: Fact) -> Case:
        return Case(name, {**user, **before}, {**more, **after}, "app.py", facts)

    old_auth = open_file("def ok", "auth.py", before=True)
    importing = look("app.py:1:import auth", "import auth")
    page, test = {"a.html": "<p>\n"}, {"test_a.py": "def test(): assert ok()\n"}
    run = {"run.sh": "exit\n"}
    return [
        case("deleted module", lib, {"auth.py": None}, Fact('"auth.py" (+0'), Fact("removed"), importing, old_auth),
        case("renamed module", lib, moved, renamed, importing),
        case(
            "renamed, another caller", {**lib, "x.py": "from auth import ok\n"}, moved, renamed, look("x.py:1:", "auth")
        ),
        case("deleted template", page, {"a.html": None}, Fact("removed"), open_file("<p>", "a.html", before=True)),
        case("deleted test", test, {"test_a.py": None}, Fact("removed"), open_file("ok()", "test_a.py", before=True)),
        replace(case("lost mode", run, {}, Fact("mode 100755 to 100644")), act=_lose_mode),
        case("binary data", {"d.bin": "\0\1" * 40}, {"d.bin": "\0\2" * 40}, Fact('"d.bin"'), Fact("a binary file")),
        case("lock file", {"go.sum": "a 1\n"}, {"go.sum": "a 2\n"}, Fact('"go.sum" (+1 -1, not shown')),
        case("generated copy", {"a_pb2.py": "x = 1\n"}, {"a_pb2.py": "x = 2\n"}, Fact('"a_pb2.py" (+1 -1, not shown')),
    ]


def contracts() -> list[Case]:
    """Two parts of a change that no longer fit: each is in a separate request."""
    cases = []
    for name, old, new, use in (
        ("returns None", "raise KeyError(k)", "return None", "except KeyError:"),
        ("other order", "def find(a, b):", "def find(b, a):", "find(first, second)"),
        ("other unit", "return seconds", "return seconds * 1000", "sleep(delay())"),
        ("other exception", "raise ValueError(k)", "raise TypeError(k)", "except ValueError:"),
        ("new argument", "def find(a):", "def find(a, strict):", "find(key)"),
        ("now async", "def find(a):", "async def find(a):", "value = find(key)"),
        ("another key", 'data["id"]', 'data["ident"]', 'row["id"]'),
    ):
        before = {"lib/find.py": f"{FILLER}{old}\n", "web/use.py": f"{FILLER}{use}\nold()\n"}
        after = {"lib/find.py": f"{FILLER}{new}\n", "web/use.py": f"{FILLER}{use}\nnew()\n"}
        other_side = open_file(old, "lib/find.py", offset=55, before=True)
        facts = (Fact('"lib/find.py" (+1 -1)'), Fact(use), open_file(new, "lib/find.py", offset=55), other_side)
        cases.append(Case(f"contract: {name}", before, after, "web/use.py", facts, small=True))
    caller = {"lib/a.py": "def old_name(): pass\n", "web/deep/b.py": "from lib.a import old_name\n"}
    renamed = {"lib/a.py": "def new_name(): pass\n"}
    before_it = look("lib/a.py:1:def old", "old_name", path="lib", before=True)
    facts = (Fact("- def old_name"), look("web/deep/b.py:1:", "old_name"), before_it)
    cases.append(Case("contract: an untouched caller", caller, renamed, "lib/a.py", facts))
    return cases


def moves() -> list[Case]:
    """Code that moves: the reader sees both places, and that it was there before."""
    block = "".join(f"    keep_{n}(x / 0)\n" for n in range(6))
    cases = []
    for name, target in (("within a file", "app.py"), ("to another file", "lib.py")):
        before = {"app.py": f"def one():\n{block}\n\n{FILLER}", "lib.py": "import os\n"}
        rest = before["app.py"].replace(block, "    two()\n")
        moved = f"def two():\n{block}"
        after = {"app.py": rest, "lib.py": before["lib.py"]}
        after[target] = f"{after[target]}\n\n{moved}"
        for small in (False, True):
            facts: tuple[Fact, ...] = (Fact("+     keep_3(x / 0)"), look("app.py:", r"keep_3\(x", before=True))
            if not small:
                facts += (Fact("-     keep_3(x / 0)"),)
            cases.append(Case(f"moved {name}{', apart' * small}", before, after, target, facts, small=small))
    return cases


def missing_facts(case: Case, work: Path) -> list[str]:
    """The facts that a reader of the bug's file does not get."""
    folder = repo.plain(work, {path: text.encode() for path, text in case.before.items() if text is not None})
    if case.act is not None:
        (folder / "run.sh").chmod(0o755)
        repo.commit(folder, {}, "Mode")
        case.act(folder)
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
        words = ("--chunk-tokens", "40") if case.small else ()
        done = review(server, folder, "HEAD", *words)
        if done.exit != 0:
            return [f"exit {done.exit}: {done.err}"]
        own = [each for each in server.requests if f'"{case.path}"' in asked(each).partition("<diff")[2]]
    best: list[str] | None = None
    for request in own:
        answers = [str(message["content"]) for message in request.messages if message["role"] == "tool"]
        if calls and not answers:
            continue
        shown = asked(request)
        missing = [fact.text for fact in case.facts if not fact.tool and fact.text not in shown]
        missing += [fact.text for fact, answer in zip(wanted, answers, strict=True) if fact.text not in answer]
        best = missing if best is None or len(missing) < len(best) else best
    return ["no request shows the file"] if best is None else best


def main() -> int:
    """Check all cases; the exit status."""
    cases = [*removals(), *unchanged_rows(), *other_files(), *contracts(), *moves()]
    short = 0
    for number, case in enumerate(cases):
        with tempfile.TemporaryDirectory() as work:
            missing = missing_facts(case, Path(work) / f"case{number}")
        short += bool(missing)
        print(f"{'short of ' + repr(missing) if missing else 'suffices':<12} {case.name}")
    print(f"{len(cases) - short} of {len(cases)} cases suffice ({(len(cases) - short) / len(cases):.0%})")
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main())
