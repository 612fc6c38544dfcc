"""Sessions that are mostly words: what the user says and pastes, many short messages, Chinese, a hand-over in words."""

from __future__ import annotations

from codelet.context.compaction import CompactionSettings
from codelet.context.narrative import NarrativeCheck
from codelet.messages import text_of
from tests.context.compaction.stories.story import Story, code, log

_ASKED = (
    "Which of the two parsers is faster?",
    "ok",
    "Use parser_b then, never parser_a.",
    "thanks!",
    "The limit is 250 rows.",
    "And for archives?",
    "No limit there.",
    "hm, what about src/rows/archive.py?",
    "Don't touch it before Friday.",
    "Name the flag --rows-max",
    "no, --max-rows",
    "Great, now the docs.",
    "Documentation is in docs/rows.md, and only there.",
    "yes",
    "please go on",
    "The customer is ACME-77, contract 2291.",
    "They want CSV, at most 4 columns: id, name, sum, day.",
    "Why four?",
    "sure",
    "What did we decide about nulls?",
)


def small_talk() -> Story:
    """Many short messages, hardly any work between them; most of the list is what was said."""
    story = Story("small_talk", system="You are helpful.")
    for lap in range(6):
        for number, asked in enumerate(_ASKED):
            story.user(
                asked if lap == 0 or number % 4 == 1 else f"{asked} (part {lap}, {_ASKED[(number + lap) % 20][:18]})"
            )
            story.says(
                f"Part {lap}.{number}: noted." if number % 3 else f"parser_b reads row {lap * 20 + number} first."
            )
    story.user("So what holds now?")
    story.says("parser_b, --max-rows, at most 250 rows and 4 columns.")
    return story


def pasted_texts() -> Story:
    """The user pastes logs, a specification and a list of names; the last prompt is a listing that must be cut."""
    story = Story("pasted_texts")
    story.user(
        "Here is last night's log, tell me what is slow.\n\n"
        + log(11, 120)
        + "\n\nAnything above 800 ms is too slow for us."
    )
    story.says(
        "load_batch and hold_region take more than 800 ms; both wait for 10.0.0.0/8 addresses. The "
        "cause is the pool of 4."
    )
    story.user(
        "The specification of the importer:\n1. Each file has one header line.\n2. Columns are "
        "separated by `;`, never by tabs.\n"
        "3. Dates are ISO 8601; reject anything else with E4107.\n4. At most 50,000 lines per file.\n"
        "5. A file that was seen before (same sha256, e.g. "
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08) is skipped.\n"
        '```json\n{"port": 7070, "retries": 3, "queue": "imports-v2"}\n```\n'
        "You must keep the old importer until 2026-09-30. Please always write new files to /srv/import/staging first."
    )
    story.write("src/importer/reader.py", code("py", 12, 20))
    story.run(
        "pytest tests/importer -q",
        "tests/importer/test_dates.py:20: in test_reject\nE   ValueError: E4107: 31.12.2025 is no "
        "ISO date\n1 failed, 9 passed in 0.44s",
        1,
    )
    story.says(
        "The reader stands. One test fails with E4107, because it gives 31.12.2025; I think the "
        "test is wrong, not the reader."
    )
    story.user("Correct, the test is wrong. Also the separator changes: it's a comma now, not `;`.")
    story.edit("src/importer/reader.py", "SEPARATOR = ';'", "SEPARATOR = ','")
    story.edit("tests/importer/test_dates.py", '"31.12.2025"', '"2025-12-31"')
    story.run("pytest tests/importer -q", "10 passed in 0.41s")
    story.says("Done: the separator is a comma, and the test gives an ISO date. All 10 tests pass.")
    story.user("<task-notification>\nThe background run of 03:00 ended with status 0.\n</task-notification>")
    story.says("Noted.")
    story.user(
        "Colleagues wrote this about the importer:\n> it must be restarted by hand each Monday\n> "
        "always fails with ENOSPC on host imp-3\n"
        "| host | disk | free |\n|---|---|---|\n| imp-1 | 80 GB | 41% |\n| imp-3 | 80 GB | 2% |\n"
        "What do you make of it? " + "We want to know before the audit. " * 40
    )
    story.run(
        "ssh imp-3 df -h /srv", "Filesystem  Size  Used Avail Use% Mounted on\n/dev/sdb1    80G   78G  1.6G  98% /srv"
    )
    story.says("imp-3 is full: 98% of 80 GB. The staging folder is never emptied, which is why it fails each Monday.")
    story.user(
        "These hosts need the same check, in this order:\n"
        + "\n".join(f"imp-{n}.eu-{n % 4}.example.net" for n in range(1, 150))
        + "\nstart with the ones in eu-2"
    )
    return story


def chinese_pipeline() -> Story:
    """Prompts and prose in Chinese, tables of measurements, numbered lists, fences, a value taken back."""
    story = Story("chinese_pipeline")
    story.settings = CompactionSettings(ledger_percent=15, history=900)
    story.user("请把夜间的数据管道改成增量同步，每批最多 5000 行，不要动 legacy_sync.py。")
    story.read("pipeline/sync.py", code("py", 13, 28, numbered=True), text="先看同步模块。")
    story.edit("pipeline/sync.py", "BATCH = 20000", "BATCH = 5000", text="根本原因：每次都全量读取，因为没有保存游标。")
    story.run(
        "pytest pipeline -q",
        "E   KeyError: 'cursor_id'\nFAILED pipeline/test_sync.py::test_resume - KeyError: "
        "'cursor_id'\n1 failed, 7 passed in 1.02s",
        1,
    )
    story.says("批量大小已改为 5000。有一个测试失败：KeyError: 'cursor_id'，游标还没有保存。")
    story.user("不对，是 3000 行，不是 5000。游标存到 sync_state 表。")
    story.edit("pipeline/sync.py", "BATCH = 5000", "BATCH = 3000")
    story.edit(
        "pipeline/state.py",
        "def save(self): ...",
        "def save(self, cursor_id):\n    self.db.put('sync_state', cursor_id)",
    )
    story.run("pytest pipeline -q", "8 passed in 0.98s")
    story.says(
        "完成：\n1. 每批 3000 行。\n2. 游标保存在 sync_state 表。\n3. 测试全部通过 (8 passed)。\n\n"
        "```python\nstate.save(cursor_id)\n```\n"
        "I fixed it: the cursor is saved after each batch, therefore a restart goes on where it stopped."
    )
    story.user("测一下速度，做个表格。")
    story.run(
        "python bench/sync.py",
        "| 批量 | 行/秒 | 内存 |\n|------|-------|------|\n"
        + "\n".join(f"| {n * 500} | {9000 + n * 731 % 4000} | {40 + n * 7} MB |" for n in range(1, 24)),
    )
    story.says("3000 行时每秒约 11,000 行，内存 82 MB；更大的批量不会更快。")
    story.user("İstanbul 机房的延迟是多少？最多允许 40 ms。")
    story.run(
        "ping -c 3 ist-1.example.net",
        "64 bytes from 10.9.0.4: time=38.2 ms\n64 bytes from 10.9.0.4: time=39.9 ms\n3 packets transmitted, 3 received",
    )
    story.read("pipeline/legacy_sync.py", code("py", 14, 24, numbered=True))
    story.says("38.2 到 39.9 ms，刚好低于 40 ms 的上限。")
    for number in range(1, 7):
        story.user(f"第 {number} 张表 orders_{number} 也要同步，端口 {15430 + number}。")
        story.read(f"pipeline/tables/orders_{number}.py", code("py", 20 + number, 3, numbered=True))
        story.edit(f"pipeline/tables/orders_{number}.py", "FULL = True", f"FULL = False\nPORT = {15430 + number}")
        story.says(f"orders_{number} 改为增量同步，端口 {15430 + number}。")
    story.user("总结一下现在的状态。")
    return story


def handed_over() -> Story:
    """A hand-over by a model, some of whose lines do not hold; turns that the user praised, blamed and pinned."""
    story = Story("handed_over")
    story.settings = CompactionSettings(ledger_percent=10, feedback={2: 5, 3: -5, 4: 3})
    story.user("We move the job queue from Redis to Postgres. Jobs must never run twice. Step by step, please.")
    story.read("queue/redis_queue.py", code("py", 30, 32, numbered=True))
    story.says("The queue uses BRPOPLPUSH with a lease of 90 seconds. I suggest SKIP LOCKED in Postgres 15.")
    story.user("Let's go with SKIP LOCKED. The lease stays at 90 seconds.")
    story.pin()
    story.write("queue/pg_queue.py", code("py", 31, 28))
    story.run(
        "pytest tests/queue -q",
        "E   psycopg.errors.LockNotAvailable: could not obtain lock on row\n2 failed, 14 passed in 3.31s",
        1,
    )
    story.says("Two tests fail with LockNotAvailable: NOWAIT was used rather than SKIP LOCKED.")
    story.user("That's not what I meant. SKIP LOCKED, as I said.")
    story.edit("queue/pg_queue.py", "for update nowait", "for update skip locked")
    story.run("pytest tests/queue -q", "16 passed in 3.02s")
    story.says("Fixed: all 16 tests of the queue pass with SKIP LOCKED.")
    story.user("Exactly! Now advisory locks for the scheduler, as in the earlier plan.")
    story.write("queue/scheduler.py", code("py", 32, 28))
    story.run(
        "python -m queue.scheduler --once",
        'Traceback (most recent call last):\n  File "queue/scheduler.py", line 44, in tick\n'
        "ValueError: advisory key 9223372036854775808 is out of range",
        1,
    )
    story.says(
        "It gave up: the key 9223372036854775808 does not fit into a bigint. I tried a hash of 64 "
        "bits; it needs to be signed."
    )
    story.user("Then take hashtext(name), 32 bits are enough.")
    story.edit("queue/scheduler.py", "key = int(sha(name), 16)", "key = conn.scalar('select hashtext(%s)', name)")
    story.run("python -m queue.scheduler --once", "tick: 3 jobs, 12 ms")
    story.run("ruff check queue", "Found 1 error.\nqueue/scheduler.py:3:8: F401 `hashlib` imported but unused", 1)
    story.says("The scheduler ticks (3 jobs, 12 ms). ruff still finds one unused import.")
    story.user("How long does the migration take? step 2 was the one with the lease, right?")
    story.run("psql -c 'explain analyze select 1 from jobs for update skip locked'", "Execution Time: 0.412 ms")
    story.says("About 4 minutes for 1.2 million jobs; and yes, the lease was decided in step 2.")
    story.user("Write the migration 0107, then mend the unused import in queue/scheduler.py.")
    answer = "\n".join(
        [
            "Goal (and standing orders): move the job queue from Redis to Postgres; jobs must never run twice.",
            "State: `queue/pg_queue.py` and `queue/scheduler.py` stand, and the tests of the queue pass.",
            "Done (with files): `queue/mailer.py` sends a mail for each job that failed.",
            "Tried and given up (and why): a 64 bit key, as 9223372036854775808 is out of range.",
            "Cause found: NOWAIT was used rather than SKIP LOCKED.",
            "Value that holds now: the lease is 7,200 seconds.",
            "The lease is 90 seconds.",
            "The build passes.",
            'The user said "retry every job twice".',
            "Open question: how long migration 0107 takes with 1.2 million jobs.",
            "Next step: write migration 0107.",
        ]
    )
    check = NarrativeCheck([text_of(message) for message in story.messages], runs={"tests": True, "build": False})
    story.narrative = check.accepted(answer)
    story.struck = tuple(check.struck)
    return story
