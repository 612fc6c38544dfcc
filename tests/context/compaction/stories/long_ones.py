"""Sessions of unusual length and past: one turn of many steps, and lists that were compacted before."""

from __future__ import annotations

from codelet.context.compaction import CompactionSettings, compact
from codelet.context.tokens import estimate_message
from tests.context.compaction.lists import Message
from tests.context.compaction.stories.story import Story, code, log

_PARTS = (
    "auth billing cart delivery exports feeds gateway hooks imports jobs keys ledger mail notes orders prices".split()
)


def one_long_turn() -> Story:
    """One request and 66 steps: reads, edits and runs, texts between them, a failure that is settled much later."""
    story = Story("one_long_turn")
    story.settings = CompactionSettings(ledger_percent=12)
    story.user(
        "Replace the setting DEBUG_LEVEL by log_level everywhere, part by part; run the tests of each part after it."
    )
    for number, part in enumerate(_PARTS):
        path = f"src/{part}/settings.py"
        said = (
            f"Next is {part}.",
            f"{part} reads DEBUG_LEVEL in two places, which means that both must change at once.",
            None,
            f"I decided to keep the old name in {part} for one release, because clients read it.",
        )[number % 4]
        story.read(path, code("py", 40 + number, 2, numbered=True), text=said)
        story.edit(path, f'DEBUG_LEVEL = "{part}"', f'log_level = "{part}"\nSEEN_{part.upper()} = {number}')
        if number % 5 == 2:
            story.run(
                f"pytest tests/{part} -q",
                f"E   ImportError: cannot import name 'DEBUG_LEVEL' from '{part}.settings'\n{number} failed",
                1,
            )
            story.edit(
                f"src/{part}/__init__.py", "from .settings import DEBUG_LEVEL", "from .settings import log_level"
            )
        if number != 7:
            story.run(f"pytest tests/{part} -q", f"{number + 3} passed in 0.{number + 10}s", text=None)
        if number == 9:
            story.run("rm src/hooks/old_settings.py", "")
    story.run("pytest -q", "E   AssertionError: log_level 'jobs' is no level\n1 failed, 180 passed in 9.31s", 1)
    story.edit("src/jobs/settings.py", 'log_level = "jobs"', 'log_level = "info"')
    story.run("pytest -q", "181 passed in 9.02s", text="The culprit was jobs: its value is no level.")
    story.run("git commit -qam 'log_level instead of DEBUG_LEVEL'", "[main 0badf00] log_level instead of DEBUG_LEVEL")
    story.says("All 16 parts use log_level; 181 tests pass. Committed as 0badf00.")
    story.user("Is DEBUG_LEVEL mentioned in the docs?")
    return story


def steered_turn() -> Story:
    """A run that is still going on: its calls are open, and the user's one request is all there is of words."""
    story = Story("steered_turn")
    story.settings = CompactionSettings(fill=True)
    story.in_flight = True
    story.user(
        "Find out why the nightly import takes 6 hours. " + "It used to take 40 minutes, until about 2026-01-15. " * 6
    )
    for number in range(1, 31):
        if number % 3:
            story.run(
                f"grep -n 'slow query' /var/log/pg/{number}.log",
                log(50 + number, 9),
                text=f"Hour {number}: nothing yet." if number % 2 else None,
            )
        else:
            story.read(
                f"import/stage_{number}.sql",
                "\n".join(f"insert into stage_{number} select * from raw where day = {d};" for d in range(12)),
            )
    story.run("psql -c 'select count(*) from raw'", "count\n-----\n81,240,113")
    story.read("import/run.log", log(90, 220), text="It turns out that raw was never emptied: 81,240,113 rows.")
    story.calls(
        [("bash", {"command": "psql -c 'vacuum analyze raw'"}, ""), ("read", {"path": "import/plan.txt"}, "")],
        text="Now two looks at once.",
    )
    del story.messages[-2:]
    return story


def _work(story: Story, lap: int) -> None:
    """Three turns of work of the session that is compacted again and again."""
    part = _PARTS[lap]
    story.user(f"Lap {lap}: give {part} a cache of {100 * lap} entries. Always keep the key {part}_key_{lap}.")
    story.read(f"src/{part}/cache.py", code("rs", 60 + lap, 20, numbered=True))
    story.edit(
        f"src/{part}/cache.py",
        "size: 10",
        f"size: {100 * lap}",
        text=f"The cache of {part} must be bounded, because it grew to {lap} GB.",
    )
    story.run(
        "cargo test",
        f"thread '{part}' panicked at src/{part}/cache.rs:{lap}:5\nerror: test failed, to rerun "
        f"pass `--lib`\ntest result: FAILED. {lap} passed; 1 failed",
        101,
    )
    story.says(f"The cache of {part} holds {100 * lap} entries; one test panicked and is not mended.")
    story.user(f"No, {150 * lap} entries, not {100 * lap}." if lap % 2 else "go on")
    if lap % 2:
        story.edit(f"src/{part}/cache.py", f"size: {100 * lap}", f"size: {150 * lap}")
    if lap != 3:
        story.run("cargo test", f"test result: ok. {lap + 9} passed; 0 failed; finished in 0.{lap}s")
    else:
        story.run(
            "rm src/auth/cache.py && cargo check",
            "error: couldn't read src/auth/cache.rs: No such file or directory",
            101,
        )
    story.says(
        f"Lap {lap} is done: {part} has its cache." if lap != 3 else "cargo check fails: src/auth/cache.rs is missing."
    )
    story.user(f"What is the hit rate of {part} at {lap * 11}%?")
    story.run(f"./bench {part}", log(lap, 14))
    story.says(f"The hit rate of {part} is {90 - lap}%, measured over {lap * 1_000} requests.")


def _made(story: Story, target: int) -> list[Message]:
    return compact(story.messages, target, settings=story.settings).messages


def compacted_again() -> Story:
    """The third compaction of a list: two segments with ledgers stand in it, and later turns bear on them."""
    story = Story("compacted_again")
    story.settings = CompactionSettings(ledger_percent=15)
    story.remind("claudeMd", "Caches live in src/*/cache.py.")
    for lap in range(8):
        _work(story, lap)
        if lap in (3, 5):
            size = sum(map(estimate_message, story.messages))
            story.messages = _made(story, size * 45 // 100)
    story.user("Which caches exist now, and how large is each?")
    return story


def many_segments() -> Story:
    """Small segments in a row that stay as they are, one of them quoting what an edit took out since."""
    story = Story("many_segments")
    story.settings = CompactionSettings(ledger_percent=8, keep_last=2)
    for lap in range(6):
        _work(story, lap)
        if lap in (1, 2, 3):
            story.messages = _made(story, 900 + 250 * lap)
    story.edit("src/delivery/cache.py", "size: 450", "size: 451\n// " + code("rs", 63, 1))
    story.says("One more entry for delivery.")
    story.user("Ok, next: the same for exports, in src/exports/cache.py, with 700 entries.")
    return story
