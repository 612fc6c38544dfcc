"""`grep` and `find`: one contract, kept by ripgrep and by the built-in search alike."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelet.review.commit_files import ChangeSide
from codelet.review.commit_tools import tools_for
from codelet.safety.paths import why_unread
from codelet.system.process import find_program
from codelet.tools import file_search as searching
from codelet.tools.confirm import FoundLine, confirmed
from codelet.tools.file_search import Query, SearchResult
from codelet.tools.results import files_found, lines_found
from codelet.tools.tool import ToolContext
from tests.support import repo as repositories
from tests.support.amount import amount
from tests.support.program import descendants, processor_seconds
from tests.support.waiting import Neighbour, Work, happens
from tests.tools.conftest import Call

Refused = Callable[..., Awaitable[str]]
Engine = Callable[[Query], Awaitable[SearchResult]]
RG = find_program("rg", Path("/nowhere"))


def write(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def test_a_pipe_that_took_a_files_place_is_no_hit(tmp_path: Path) -> None:
    """It is not waited for: nobody may ever write to it."""
    os.mkfifo(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_bytes(b"x\n")
    found = [FoundLine(str(tmp_path / name), 1, text=b"x") for name in ("a.txt", "b.txt")]
    assert [Path(hit.path).name for hit in confirmed(found, 10)] == ["b.txt"]


@pytest.fixture(params=["ripgrep", "builtin"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "builtin":
        return searching.search_builtin
    if RG is None:
        pytest.skip("needs the program rg")
    return lambda query: searching.search_with_ripgrep(query, str(RG))


@pytest.fixture
def tree(workspace: Path) -> Path:
    write(
        workspace,
        {
            ".git/config": "needle\n",
            ".git/info/exclude": "excluded.txt\n",
            ".gitignore": "*.log\n!keep.log\n/build/\nsecret-*\n# note\n\n**/cache/*.tmp\n",
            ".github/workflow.yml": "needle: 1\n",
            "a.txt": "one\nneedle two\nthree\nfour\nNeedle five\n",
            "a/b.txt": "x needle\n",
            "a-b/c.txt": "y needle\n",
            "a.log": "needle\n",
            "keep.log": "needle\n",
            "excluded.txt": "needle\n",
            "build/out.txt": "needle\n",
            "sub/build/in.txt": "needle\n",
            "sub/.gitignore": "!a.log\nlocal.txt\n",
            "sub/a.log": "needle\n",
            "sub/local.txt": "needle\n",
            "sub/secret-x/y.txt": "needle\n",
            "deep/cache/a.tmp": "needle\n",
            "deep/cache/a.txt": "needle\n",
            "nested/.git/HEAD": "ref: x\n",
            "nested/a.log": "needle\n",
            ".ignore": "a.txt\n",
            "binary.bin": b"needle\0needle\n",
            "crlf.txt": b"one needle\r\ntwo\r\n",
            "latin.txt": "needle grün\n".encode("latin-1"),
            "utf16.txt": "needle ✓\nzwei\n".encode("utf-16"),
            "bom.txt": "needle first\n".encode("utf-8-sig"),
            "long.txt": "x" * 5000 + " needle\n" + "needle " + "é" * 5000 + "\n",
            "no-newline.txt": "needle at the end",
            "-rf": "needle dash\n",
            "with space é.txt": "needle\n",
            "empty.txt": "",
        },
    )
    (workspace / "link.txt").symlink_to("a.txt")
    (workspace / "linked").symlink_to("a")
    (workspace / "broken").symlink_to("nowhere")
    os.mkfifo(workspace / "pipe")
    return workspace


async def grep(engine: Engine, context: ToolContext, pattern: str, **more: object) -> str:
    most = int(str(more.pop("most", 1000)))
    root = context.workspace / str(more.pop("path", ""))
    query = Query(root, pattern=pattern, most=most, **more)
    return lines_found(context, await engine(query), most, query.around)


async def test_files_that_count(tree: Path, context: ToolContext, engine: Engine) -> None:
    text = await grep(engine, context, "needle")
    paths = [re.split(r":\d+:", line)[0] for line in text.splitlines()]
    assert [path for path in paths if path] == [
        "-rf",
        ".github/workflow.yml",
        "a/b.txt",
        "a-b/c.txt",
        "a.txt",
        "bom.txt",
        "crlf.txt",
        "deep/cache/a.txt",
        "keep.log",
        "latin.txt",
        "long.txt",
        "nested/a.log",
        "no-newline.txt",
        "sub/a.log",
        "sub/build/in.txt",
        "utf16.txt",
        "with space é.txt",
    ]
    assert "latin.txt:1:needle grün" in text
    assert "utf16.txt:1:needle ✓" in text
    assert "crlf.txt:1:one needle\n" in text


async def test_find(tree: Path, context: ToolContext, engine: Engine) -> None:
    found = await engine(Query(context.workspace, glob="*.{txt,log}"))
    text = files_found(context, found)
    assert text.split("\n") == [
        "a/b.txt",
        "a-b/c.txt",
        "a.txt",
        "bom.txt",
        "crlf.txt",
        "deep/cache/a.txt",
        "empty.txt",
        "keep.log",
        "latin.txt",
        "long.txt",
        "nested/a.log",
        "no-newline.txt",
        "sub/a.log",
        "sub/build/in.txt",
        "utf16.txt",
        "with space é.txt",
    ]


GREPS: dict[str, dict[str, object]] = {
    "case": {"pattern": "NEEDLE", "ignore_case": True},
    "anchors": {"pattern": "^needle.*(two|first|end)$"},
    "end of a crlf line": {"pattern": "needle$"},
    "word": {"pattern": r"\bneedle\b\s\w+"},
    "context": {"pattern": "needle", "around": 1},
    "much context": {"pattern": "two|five", "around": 3},
    "name": {"pattern": "needle", "glob": "*.txt"},
    "path": {"pattern": "needle", "glob": "sub/**/*.txt"},
    "braces": {"pattern": "needle", "glob": "{a,sub/build}/*"},
    "ignored by name": {"pattern": "needle", "glob": "a.log"},
    "folder": {"pattern": "needle", "path": "sub"},
    "ignored folder named": {"pattern": "needle", "path": "build"},
    "file": {"pattern": "needle", "path": "a.txt"},
    "binary file": {"pattern": "needle", "path": "binary.bin"},
    "ignored file named": {"pattern": "needle", "path": "a.log"},
    "no expression": {"pattern": "needle("},
    "nothing": {"pattern": "no such thing"},
    "limit": {"pattern": "needle", "most": 3},
    "dash": {"pattern": "-e"},
    "look-behind": {"pattern": "(?<=one )needle"},
    "unicode": {"pattern": "two|✓"},
    "dot": {"pattern": "^.$"},
    "repository above": {"pattern": "needle", "path": "nested"},
}


@pytest.mark.skipif(RG is None, reason="needs the program rg")
@pytest.mark.parametrize("how", GREPS.values(), ids=GREPS)
async def test_both_answer_the_same(how: dict[str, object], tree: Path, context: ToolContext) -> None:
    options = {**how}
    pattern = str(options.pop("pattern"))
    with_rg = await grep(lambda query: searching.search_with_ripgrep(query, str(RG)), context, pattern, **options)
    built_in = await grep(searching.search_builtin, context, pattern, **options)
    assert built_in == with_rg


@pytest.mark.skipif(RG is None, reason="needs the program rg")
@given(
    names=st.lists(st.sampled_from(["a", "b", "ab", "a/b", "b/a", "b/b/a", "a.x", "b.x/c", "c/a.x"]), unique=True),
    rules=st.lists(
        st.sampled_from(
            ["a", "/a", "a/", "!a", "*.x", "!b/a", "b/*", "**/a", "b/**", "/b/a", "a/b", "?", "[ab].x", "\\!a"]
        ),
        max_size=3,
    ),
    below=st.lists(st.sampled_from(["a", "!a", "/a", "*", "!*.x", "b/"]), max_size=2),
    glob=st.sampled_from([None, "*", "a", "b/*", "**/a", "*.x", "{a,b}"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=amount(15, 40))
def test_both_ignore_the_same(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], rules: list[str], below: list[str], glob: str | None
) -> None:
    root = tmp_path_factory.mktemp("tree")
    (root / ".git").mkdir()
    for name in names:
        path = root / name
        if any(parent.is_file() for parent in path.parents) or path.is_dir():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    write(root, {".gitignore": "\n".join(rules)})
    if (root / "b").is_dir():
        write(root, {"b/.gitignore": "\n".join(below)})

    async def both() -> tuple[SearchResult, SearchResult]:
        query = Query(root, glob=glob)
        return await searching.search_with_ripgrep(query, str(RG)), await searching.search_builtin(query)

    with_rg, built_in = asyncio.run(both())
    assert [hit.path for hit in built_in.hits] == [hit.path for hit in with_rg.hits]


async def engine_search(engine: Engine, query: Query) -> SearchResult:
    return await engine(query)


def test_the_same_as_git(tree: Path, context: ToolContext, engine: Engine) -> None:
    if find_program("git", Path("/nowhere")) is None:
        pytest.skip("needs the program git")
    (tree / ".git/config").unlink()
    (tree / "nested/.git/HEAD").unlink()
    (tree / "nested/.git").rmdir()
    subprocess.run(["git", "init", "-q", "."], cwd=tree, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"], cwd=tree, check=True, capture_output=True
    )
    of_git = {name for name in os.fsdecode(listed.stdout).split("\0") if name and not (tree / name).is_symlink()}
    found = asyncio.run(engine_search(engine, Query(tree)))
    assert {os.path.relpath(hit.path, tree) for hit in found.hits} == of_git - {"pipe"}


async def test_a_hostile_configuration_runs_nothing(
    tree: Path, context: ToolContext, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tree / "PWNED"
    script = tree / "pre.sh"
    script.write_text(f"#!/bin/sh\ntouch {canary}\n")
    script.chmod(0o755)
    (tree / "rc").write_text(f"--pre={script}\n--hidden\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tree / "rc"))
    for pattern in (f"--pre={script}", "-f/etc/passwd", "needle"):
        await grep(engine, context, pattern)
    await engine(Query(tree, glob=f"--pre={script}"))
    assert not canary.exists()


async def test_names_that_are_no_utf_8(workspace: Path, context: ToolContext, engine: Engine) -> None:
    Path(os.fsdecode(os.fsencode(workspace) + b"/caf\xe9")).write_text("needle\n")
    (workspace / "line\nbreak").write_text("other\n")
    assert await grep(engine, context, "needle") == "caf\N{REPLACEMENT CHARACTER}:1:needle"
    found = await engine(Query(workspace))
    assert files_found(context, found) == "caf\N{REPLACEMENT CHARACTER}\nline\\x0abreak"


async def test_a_catastrophic_expression_is_stopped(workspace: Path, context: ToolContext) -> None:
    (workspace / "a.txt").write_text("before aab\n" + "a" * 40 + "!\n")
    with Neighbour() as clock:
        text = await grep(searching.search_builtin, context, "(a+)+b", seconds=1.0)
    assert clock.passed < 4
    assert "stopped" in text and "took 1 s" in text


async def test_a_search_can_be_cancelled(workspace: Path, context: ToolContext) -> None:
    (workspace / "a.txt").write_text("a" * 40 + "!\n")
    before = set(descendants(os.getpid()))
    task = asyncio.create_task(grep(searching.search_builtin, context, "(a+)+b"))
    (child,) = await happens(lambda: set(descendants(os.getpid())) - before, "the start of the search")
    await happens(lambda: processor_seconds(child) > 0.3, "the search")
    with Neighbour() as clock, pytest.raises(asyncio.CancelledError):
        task.cancel()
        await task
    assert clock.passed < 0.75
    assert set(descendants(os.getpid())) <= before


async def test_folders_that_are_closed(unprivileged: ToolContext, engine: Engine) -> None:
    if os.getuid() == 0 and engine is searching.search_builtin:
        pytest.skip("the interpreter itself may be closed to nobody")
    write(unprivileged.workspace, {"open/a.txt": "needle\n", "closed/a.txt": "needle\n"})
    (unprivileged.workspace / "closed").chmod(0)
    assert await grep(engine, unprivileged, "needle") == "open/a.txt:1:needle"
    (unprivileged.workspace / "closed").chmod(0o700)


@pytest.fixture
def deep(workspace: Path) -> Iterator[Path]:
    """A file below more folders than a process may usually have open."""
    folder = os.open(workspace, os.O_RDONLY)
    for _ in range(1_400):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("deep.txt", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
    os.close(folder)
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, usual[1]))
    yield workspace
    resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    subprocess.run(["rm", "-rf", workspace / "d"], check=True)  # Python's own way recurses too deep


async def test_a_very_deep_folder(deep: Path, engine: Engine) -> None:
    found = await engine(Query(deep, glob="*.txt"))
    assert [hit.path for hit in found.hits] == [f"{deep}{'/d' * 1_400}/deep.txt"]


async def test_results_are_bounded(workspace: Path, context: ToolContext, engine: Engine) -> None:
    write(workspace, {f"{n:04}.txt": f"needle {'x' * 1000}\n" * 10 for n in range(300)})
    text = await grep(engine, context, "needle", most=100)
    lines = text.splitlines()
    assert len(lines) <= 101
    assert lines[-1].startswith("[more matches")
    assert max(map(len, lines)) < 340
    assert len(text) < 31_000
    found = files_found(context, await engine(Query(workspace)))
    assert found.partition("0199.txt\n")[2].startswith("[100 more files")


async def test_very_many_results_end_the_search(workspace: Path, context: ToolContext, engine: Engine) -> None:
    (workspace / "big.txt").write_text("needle and some more text to fill the line\n" * 400_000)
    with Work() as work:
        text = await grep(engine, context, "needle", most=5)
    assert (text.count("big.txt"), text.count("needle")) == (1, 5), "a path is named once"
    assert text.splitlines()[-1].startswith("[more matches")
    assert work.seconds < 10


async def test_the_tools(tree: Path, call: Call, refused: Refused) -> None:
    assert (await call("grep", pattern="needle two")).text == "a.txt:2:needle two"
    assert (await call("grep", pattern="two", path="a.txt", around=1)).text == ("a.txt-1-one\n:2:needle two\n-3-three")
    assert (await call("grep", pattern="needle(")).text.startswith("no matches\n[the pattern")
    assert "\n[more matches" in (await call("grep", pattern="needle", limit=1)).text
    assert (await call("find", pattern="*.yml")).text == ".github/workflow.yml"
    assert (await call("find", pattern="*.txt", path="sub")).text == "sub/build/in.txt"
    assert (await call("find", pattern="*.nothing")).text == "no files"
    assert "does not exist" in await refused("grep", pattern="x", path="nowhere")
    assert "a named pipe" in await refused("grep", pattern="x", path="pipe")
    assert "nothing under /proc" in await refused("find", pattern="*", path="/proc")
    assert "line break" in await refused("grep", pattern="a\nb")
    assert "empty" in await refused("grep", pattern="")
    assert "surrogate" in await refused("grep", pattern="\ud800")
    assert "ud800" in await refused("find", pattern="\ud800") or "surrogate" in await refused("find", pattern="\ud800")
    assert "too many alternatives" in await refused("find", pattern="{a,b}" * 9)


SECRET_NAMES = (
    *(".env", "a[1].pem", "b{c}.key", "d!.key", "e\\.key", ".env.blank ", ".env.\t", ".env.\n", "sub/.env"),
    *("sub/é.pem", "*.key", "?.pem", "\udcff.pem", ".ssh/anything.txt", "-rf.key"),
)


async def test_the_answer_does_not_depend_on_what_secrets_hold(
    workspace: Path, context: ToolContext, engine: Engine
) -> None:
    """Files with the names of secrets are left out before the search: else a pattern could ask for them bit by bit."""
    write(workspace, {"plain.txt": "KEY=public\n", "d1.key.txt": "KEY=x\n", "sub/b.txt": "KEY=y\n"})
    write(workspace, dict.fromkeys(SECRET_NAMES, "KEY=canary\n" * 30_000))

    async def answer(pattern: str, **more: object) -> SearchResult:
        return await engine(Query(workspace, pattern=pattern, left_out=why_unread, **more))

    for more in ({"glob": "**/*.{pem,key}"}, {"glob": ".env"}, {"literal": True}, {"around": 2}, {}):
        hit, miss = await answer("KEY=canary", **more), await answer("KEY=other", **more)
        assert hit == miss, more
        assert hit.hits == [] and hit.left_out > 0 and not hit.stopped
    assert hit.left_out == len(SECRET_NAMES)
    found = await answer("KEY=")
    assert [Path(each.path).name for each in found.hits] == ["d1.key.txt", "plain.txt", "b.txt"]
    text = lines_found(context, await answer("nothing"), 10, 0)
    assert str(len(SECRET_NAMES)) in text, text


@pytest.fixture(params=["ripgrep", "built-in"])
def routes(request: pytest.FixtureRequest, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with folders whose names have brackets, and one that git ignores; with ripgrep and without."""
    if request.param == "built-in":
        monkeypatch.setenv("PATH", str(workspace / "none"))
    for name in ("app/[id]/page.tsx", "app/i/page.tsx", "docs/[...slug]/x/a.md", "a/1.js", "a/b.ts", "build/out/c.js"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("foo1\n")
    (workspace / ".git").mkdir()
    (workspace / ".gitignore").write_text("build/\n*.log\n")
    (workspace / "a" / "x.log").write_text("foo1\n")
    return workspace


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("app/[id]/*.tsx", ["app/[id]/page.tsx"]),
        ("**/[...slug]/**", ["docs/[...slug]/x/a.md"]),
        ("[ab]/[[:alpha:]].[jt]s", ["a/b.ts"]),
        ("[ab]/[[:digit:]].[jt]s", ["a/1.js"]),
        ("{ROOT}/a/*", ["a/1.js", "a/b.ts"]),
        ("!{ROOT}/a/*", [".gitignore", "app/[id]/page.tsx", "app/i/page.tsx", "docs/[...slug]/x/a.md"]),
        ("!*.{tsx,md}", [".gitignore", "a/1.js", "a/b.ts"]),
    ],
)
async def test_globs_of_both_tools(glob: str, found: list[str], routes: Path, call: Call) -> None:
    glob = glob.replace("{ROOT}", str(routes))
    assert (await call("find", pattern=glob)).text.split("\n") == found
    lines = (await call("grep", pattern="^[[:alpha:]]+[[:digit:]]$", glob=glob)).text.split("\n")
    assert [line.partition(":")[0] for line in lines] == [name for name in found if name != ".gitignore"]


@pytest.mark.parametrize(
    ("glob", "whys"),
    [
        ("build/**", ["ignores 1 file", "build/out/c.js"]),
        ("a/*.log", ["ignores 1 file", "a/x.log"]),
        ("src/lib/*.ts", ["no src in ."]),
        ("a/lib/*.ts", ["no a/lib in ."]),
        ("/etc/*.conf", ["relative to ."]),
    ],
)
async def test_an_empty_answer_says_why(glob: str, whys: list[str], routes: Path, call: Call) -> None:
    for output in (await call("find", pattern=glob), await call("grep", pattern="foo", glob=glob)):
        first, second = output.text.split("\n")
        assert first.startswith("no ")
        assert [why for why in whys if why not in second] == []
    assert "build/out/c.js" in (await call("find", pattern="**", path="build")).text
    assert (await call("find", pattern="*.zzz")).text == "no files"
    assert "no file matches" in (await call("grep", pattern="foo", glob="*.zzz")).text
    assert (await call("grep", pattern="nothing", glob="*.ts")).text == "no matches"


async def test_brackets_in_the_search_of_a_review(workspace: Path, context: ToolContext) -> None:
    files = ("app/[id]/page.tsx", "app/i/page.tsx", "lib/a.ts", "lib/[...all]/x.ts")
    repositories.git(workspace, "init", "-q")
    repositories.commit(workspace, dict.fromkeys(files, "foo\n"))
    _, tool = tools_for(ChangeSide(workspace, "HEAD", is_new=True), None)
    for path, found in {
        "app/[id]/*.tsx": ["app/[id]/page.tsx"],
        "app/[id]": ["app/[id]/page.tsx"],
        "**/[...all]/**": ["lib/[...all]/x.ts"],
        "lib/[ab].ts": ["lib/a.ts"],
    }.items():
        lines = (await tool.run(context, lambda _: None, pattern="foo", path=path)).text.split("\n")
        assert [line.partition(":")[0] for line in lines] == found, path
