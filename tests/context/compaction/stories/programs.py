"""Sessions about programs: runs that fail and pass, edits, commits, files that are moved and deleted."""

from __future__ import annotations

from codelet.context.compaction import CompactionSettings
from tests.context.compaction.stories.story import Story, code, log


def python_service() -> Story:
    """pytest fails and passes, a value is corrected twice, an attempt is given up, three commits."""
    story = Story("python_service")
    story.remind("claudeMd", "Line length is 100. Tests live in tests/, one file for each module.")
    story.remind("gitStatus", "On branch fix/webhook-retries, clean.")
    story.user(
        "The webhook sender in src/hooks/sender.py gives up too early. Retry with backoff, at most 5 times, and the "
        "timeout of one attempt is 60 s. Never log the payload: it holds customer data."
    )
    story.read("src/hooks/sender.py", code("py", 1, 36, numbered=True), text="I look at the sender first.")
    story.call(
        "bash",
        {"command": "grep -rn 'send_hook' src tests"},
        "src/hooks/sender.py:41:def send_hook(url, payload, timeout=10):\nsrc/orders/events.py:88: "
        "   send_hook(url, body)"
        "\ntests/hooks/test_sender.py:12:from hooks.sender import send_hook\n[exit code 0]",
    )
    story.run(
        "pytest tests/hooks -q",
        "..F.\n=================================== FAILURES ===================================\n"
        "tests/hooks/test_sender.py:57: in test_retries\n    assert len(server.seen) == 5\n"
        "E   AssertionError: assert 1 == 5\nE    +  where 1 = len([('/hook', 503)])\n"
        "FAILED tests/hooks/test_sender.py::test_retries - AssertionError: assert 1 == 5\n1 failed, 3 passed in 0.84s",
        1,
        text="The tests already expect five attempts.",
    )
    story.edit(
        "src/hooks/sender.py",
        "def send_hook(url, payload, timeout=10):\n    return post(url, payload, timeout=timeout)",
        "def send_hook(url, payload, timeout=60, attempts=5):\n    for attempt in range(attempts):\n"
        "        if post(url, payload, timeout=timeout).ok:\n            return True\n        sleep(2**attempt)\n"
        "    return False",
        text="The root cause: post() is called once, because the loop was lost in the refactoring of March.",
    )
    story.run("pytest tests/hooks -q", "....\n4 passed in 31.20s")
    story.says(
        "Fixed: send_hook now tries five times with doubling pauses. The suite takes 31.20 s, as the pauses are real."
    )
    story.user("No, 30 s, not 60: the gateway in front of us cuts connections at 45 s. And the tests must not sleep.")
    story.edit("src/hooks/sender.py", "timeout=60, attempts=5", "timeout=30, attempts=5", text="30 s then.")
    story.edit(
        "src/hooks/sender.py",
        "        sleep(2**attempt)",
        "        clock.sleep(2**attempt)",
        text="The clock is handed in, so that tests bring one that does not wait.",
    )
    story.run(
        "pytest tests/hooks -q",
        "E   TypeError: send_hook() missing 1 required positional argument: 'clock'\n2 failed, 2 passed in 0.31s",
        1,
    )
    story.edit("src/hooks/sender.py", "def send_hook(url, payload, ", "def send_hook(url, payload, clock=REAL, ")
    story.run("pytest tests/hooks -q", "....\n4 passed in 0.29s")
    story.run(
        "git add -A && git commit -qm 'Send a hook five times, 30 s each'",
        "[fix/webhook-retries 4be1c07] Send a hook five times, 30 s each\n 2 files changed, 14 "
        "insertions(+), 3 deletions(-)",
    )
    story.says("The timeout is 30 s, and no test sleeps. Committed as 4be1c07.")
    story.user("Great. Now what happens with a hook that fails all 5 times? We need a dead letter table.")
    story.read("src/orders/events.py", code("py", 2, 32, numbered=True))
    story.read("src/db/missing.py", "Error: src/db/missing.py does not exist")
    story.write(
        "src/hooks/dead_letters.py",
        'import sqlite3\n\nTABLE = \'dead_letters\'\n\n\nclass DeadLetters:\n    """Hooks that '
        'nobody took, kept 14 days."""'
        "\n\n    def put(self, url: str, reason: str) -> str:\n        return self._store(url, reason, days=14)\n",
        text="Decided: a table of its own rather than a column in orders, because hooks outlive their order.",
    )
    story.run(
        "pytest -q",
        "tests/hooks/test_dead_letters.py:9: in <module>\nE   sqlite3.OperationalError: no such table: dead_letters\n"
        "FAILED tests/hooks/test_dead_letters.py::test_put - sqlite3.OperationalError: no such table: dead_letters\n"
        "1 failed, 118 passed in 6.02s",
        1,
    )
    story.says(
        "The class stands, but one test fails: sqlite3.OperationalError: no such table: dead_letters. The migration is "
        "missing; I tried to create the table at import, which did not work with two workers, and reverted that."
    )
    story.user("Keep them 30 days, not 14. Write the migration as number 0042.")
    story.write(
        "migrations/0042_dead_letters.sql", "create table dead_letters (id text primary key, url text, at int);\n"
    )
    story.edit("src/hooks/dead_letters.py", "kept 14 days", "kept 30 days")
    story.edit("src/hooks/dead_letters.py", "days=14", "days=30", answer="Error: days=14 not found in the file")
    story.edit("src/hooks/dead_letters.py", "reason, days=14)", "reason, days=30)")
    story.run("pytest -q", "119 passed in 6.10s")
    story.run(
        "git commit -qam 'Dead letters, kept 30 days'", "[fix/webhook-retries 90aa3de] Dead letters, kept 30 days"
    )
    story.says("Dead letters are kept 30 days; all 119 tests pass. Migration 0042 is committed as 90aa3de.")
    story.user("Why did the worker on stage use 100% CPU last night? Log is in /var/log/hooks/worker.log")
    story.run("tail -n 30 /var/log/hooks/worker.log", log(3, 60))
    story.run("python -m cProfile -s cumtime scripts/replay.py | head", "Killed", 137)
    story.says(
        "I could not reproduce it: the replay was killed (exit code 137). The log shows a pause of "
        "0 ms between attempts, "
        "which means that clock.sleep was given 0; an open question."
    )
    story.user("ok, leave that. Rename the module sender to delivery, everywhere.")
    story.run(
        "git mv src/hooks/sender.py src/hooks/delivery.py && sed -i "
        "'s/hooks.sender/hooks.delivery/' tests/hooks/test_sender.py",
        "",
    )
    story.run(
        "mypy src",
        "src/orders/events.py:3: error: Cannot find module 'hooks.sender'  [import]\nFound 1 error in 1 file",
        1,
    )
    story.edit("src/orders/events.py", "from hooks.sender import send_hook", "from hooks.delivery import send_hook")
    story.run("mypy src && pytest -q", "Success: no issues found in 61 source files\n119 passed in 6.33s")
    story.says("Renamed; mypy and all tests pass.")
    story.user("Now commit, and tell me which version of requests we need for the new retry option.")
    return story


def rust_crate() -> Story:
    """cargo builds, tests and clippy; files deleted and moved; error codes; a log that the user pasted."""
    story = Story("rust_crate")
    story.settings = CompactionSettings(ledger_percent=20)
    story.user("Port the tokenizer to zero-copy. Make sure clippy stays clean, and don't touch src/legacy.")
    story.calls(
        [
            ("read", {"path": "src/token.rs"}, code("rs", 3, 32, numbered=True)),
            ("read", {"path": "src/lib.rs"}, "pub mod token;\npub mod span;\npub mod legacy;\n"),
            ("bash", {"command": "cargo tree -d"}, "memchr v2.5.0\nmemchr v2.7.1\n[exit code 0]"),
        ],
        text="Three looks at once: the tokenizer, what the crate exports, and doubled dependencies.",
    )
    story.run(
        "cargo build",
        "   Compiling lexer v0.3.1 (/work/lexer)\nerror[E0499]: cannot borrow `*self` as mutable "
        "more than once at a time\n"
        "  --> src/token.rs:88:21\n   |\n88 |         let next = self.advance();\n"
        "error[E0597]: `buffer` does not live long enough\n  --> src/token.rs:102:9\n"
        "error: could not compile `lexer` (lib) due to 2 previous errors",
        101,
    )
    story.edit(
        "src/token.rs",
        "pub struct Token { text: String, line: u32 }",
        "pub struct Token<'a> { text: &'a str, line: u32 }",
        text="The problem is that Token owns its text. It must borrow from the source instead.",
    )
    story.run(
        "cargo build", "   Compiling lexer v0.3.1 (/work/lexer)\n    Finished dev [unoptimized] target(s) in 2.41s"
    )
    story.run(
        "cargo test",
        "running 44 tests\ntest result: FAILED. 43 passed; 1 failed; 0 ignored; finished in 0.12s\n"
        "thread 'span::joins' panicked at src/span.rs:31:5",
        101,
    )
    story.says("It builds. One of 44 tests fails: span::joins, which still compares owned strings.")
    story.user("Spans are half open, [start, end). Fix the test, the code is right.")
    story.edit("src/span.rs", "assert_eq!(join(a, b).end, 7);", "assert_eq!(join(a, b).end, 8);")
    story.run("cargo test", "running 44 tests\ntest result: ok. 44 passed; 0 failed; 0 ignored; finished in 0.11s")
    story.run(
        "cargo clippy -- -D warnings",
        "error: this lifetime isn't used in the impl\n  --> src/token.rs:12:6\nerror: could not "
        "compile `lexer` (lib) due to 1 previous error",
        101,
    )
    story.edit("src/token.rs", "impl<'a, 'b> Token<'a> {", "impl<'a> Token<'a> {")
    story.run("cargo clippy -- -D warnings", "    Finished dev [unoptimized] target(s) in 1.90s")
    story.run("git commit -qam 'Tokens borrow their text'", "[main 1f2e3d4] Tokens borrow their text", 0)
    story.says("Tokens borrow their text now; 44 tests pass and clippy is clean. It's committed as 1f2e3d4.")
    story.user(
        "Our nightly shows this, is it ours?\n```\n" + log(5, 24) + "\nthread 'main' panicked at src/cache.rs:19:10:\n"
        "called `Option::unwrap()` on a `None` value\nnote: run with `RUST_BACKTRACE=1`\n```\nIt began on 2026-02-11."
    )
    story.read("src/cache.rs", code("rs", 4, 24, numbered=True))
    story.run(
        "RUST_BACKTRACE=1 cargo run --example nightly",
        "thread 'main' panicked at src/cache.rs:19:10:\ncalled `Option::unwrap()` on a `None` value",
        101,
    )
    story.edit("src/cache.rs", "self.slots.get(&key).unwrap()", "self.slots.get(&key).ok_or(CacheError::Evicted)?")
    story.run("RUST_BACKTRACE=1 cargo run --example nightly", "done: 1,204 tokens in 3 ms")
    story.says(
        "Yes, it is ours: the cause was an entry evicted between two looks. get() returns CacheError::Evicted now."
    )
    story.user("Good. Remove the old benches and the module legacy_spans, nobody uses them.")
    story.run("rm -r benches/old src/legacy_spans.rs", "")
    story.run("mv docs/NOTES.md docs/design/zero_copy.md", "")
    story.run("cargo build --release", "    Finished release [optimized] target(s) in 14.02s")
    story.run("cat benches/old/span.rs", "cat: benches/old/span.rs: No such file or directory", 1)
    story.says("Removed both; the release build takes 14.02 s.")
    story.user("And now measure: tokens per second before and after, with 200 KB and 20 MB of source.")
    story.run(
        "cargo bench",
        "| source | before | after |\n|---|---|---|\n| 200 KB | 41 MB/s | 118 MB/s |\n| 20 MB | 38 MB/s | 121 MB/s |",
    )
    story.run("git checkout -- src/cache.rs", "")
    story.says(
        "After is about three times as fast: 118 MB/s instead of 41 MB/s at 200 KB. I reverted src/cache.rs by mistake."
    )
    story.user("Then put the cache fix back in.")
    return story


def german_frontend() -> Story:
    """npm, tsc and jest; the user writes German; tables, parallel calls, a build that stays broken."""
    story = Story("german_frontend")
    story.settings = CompactionSettings(keep_last=1, newest_percent=25)
    story.remind("environment", "node v20.11.1, npm 10.2.4, Linux")
    story.user(
        "Die Rechnungsseite zeigt Beträge falsch an: 1.234,50 € erscheint als 1,234.5. Bitte "
        "überall das deutsche Format, "
        "und der Port vom Dev-Server muss 5174 bleiben."
    )
    story.calls(
        [
            ("read", {"path": "web/src/format.ts"}, code("ts", 5, 28, numbered=True)),
            ("read", {"path": "web/vite.config.ts"}, "export default { server: { port: 5174, strictPort: true } }\n"),
            ("read", {"path": "web/src/Invoice.tsx"}, code("ts", 6, 28, numbered=True)),
        ],
        text="Ich lese Formatierung, Konfiguration und die Seite zugleich.",
    )
    story.run(
        "npm test",
        'FAIL src/format.test.ts\n  ● formats euros\n    Expected: "1.234,50 €"\n    Received: '
        '"1,234.5"\nTests:       1 failed, 22 passed, 23 total',
        1,
    )
    story.edit(
        "web/src/format.ts",
        "value.toLocaleString()",
        "value.toLocaleString('de-DE', { style: 'currency', currency: 'EUR' })",
    )
    story.run("npm test", "PASS src/format.test.ts\nTests:       23 passed, 23 total")
    story.says(
        "Behoben: toLocaleString ohne Gebietsschema nahm das des Servers. Alle 23 Tests laufen "
        "durch (Tests: 23 passed)."
    )
    story.user("Nein, nicht überall: im CSV-Export brauchen wir Punkt statt Komma, sonst bricht der Import bei DATEV.")
    story.call(
        "edit",
        {"path": "web/src/export/csv.ts", "old": "formatEuro(row.amount)", "new": "row.amount.toFixed(2)"},
        "Edited web/src/export/csv.ts: 3 places.",
        text="Im Export bleibt der Punkt: toFixed(2).",
    )
    story.run(
        "npx tsc --noEmit",
        "src/export/csv.ts(31,9): error TS2339: Property 'toFixed' does not exist on type "
        "'string'.\nsrc/Invoice.tsx(12,3): error TS2322: Type 'string' is not assignable to "
        "type 'number'.",
        2,
    )
    story.says("tsc meldet zwei Fehler: row.amount ist dort ein string. Das ist noch offen.")
    story.user("Dann mach daraus vorher eine Zahl, aber nie parseFloat: Number() wirft wenigstens NaN.")
    story.edit("web/src/export/csv.ts", "row.amount.toFixed(2)", "Number(row.amount).toFixed(2)")
    story.run(
        "npx tsc --noEmit", "src/Invoice.tsx(12,3): error TS2322: Type 'string' is not assignable to type 'number'.", 2
    )
    story.run(
        "npm run build",
        "vite v5.1.4 building for production...\n✓ 812 modules transformed.\n"
        "dist/assets/index-8f3e2a91.js  412.77 kB │ gzip: 131.09 kB\n✓ built in 6.31s",
    )
    story.says(
        "csv.ts ist in Ordnung, ein Fehler bleibt in src/Invoice.tsx(12,3). Der Build (6.31s, "
        "412.77 kB) prüft keine Typen."
    )
    story.user("Was kosten die Bibliotheken? Mach eine Tabelle.")
    story.run(
        "npx vite-bundle-visualizer --json",
        "\n".join(
            [
                "| Paket | kB | gzip |",
                "|---|---|---|",
                *(f"| @app/teil-{n} | {n * 13 % 97}.{n} | {n * 5 % 31}.{n} |" for n in range(1, 22)),
            ]
        ),
    )
    story.says(
        "| Paket | Anteil |\n|---|---|\n| moment | 71 kB |\n| lodash | 24 kB |\n\nmoment kann weg: "
        "date-fns kostet nur 9 kB."
    )
    story.user("Ja, moment raus. Übrigens: die Größe muss unter 350 kB bleiben.")
    story.run(
        "npm uninstall moment && npm install date-fns@3.3.1",
        "removed 1 package, added 1 package, and audited 812 packages in 4s",
    )
    story.run("grep -rln moment web/src", "web/src/Invoice.tsx\nweb/src/export/csv.ts")
    story.calls(
        [
            (
                "edit",
                {
                    "path": "web/src/Invoice.tsx",
                    "old": "moment(date).format('DD.MM.YYYY')",
                    "new": "format(date, 'dd.MM.yyyy')",
                },
                "Edited web/src/Invoice.tsx: 1 place.",
            ),
            (
                "edit",
                {"path": "web/src/export/csv.ts", "old": "moment().toISOString()", "new": "new Date().toISOString()"},
                "Edited web/src/export/csv.ts: 1 place.",
            ),
        ]
    )
    story.run(
        "npm run build",
        "✓ 797 modules transformed.\ndist/assets/index-11c9be02.js  340.12 kB │ gzip: 109.80 kB\n✓ built in 5.87s",
    )
    story.says("moment ist entfernt, date-fns 3.3.1 tut dasselbe. index ist nun 340.12 kB groß statt 412.77 kB.")
    story.user("Super. Bleibt noch der Typfehler in der Rechnung, bitte beheben.")
    return story


def go_gateway() -> Story:
    """go test of one package and of all; Russian prompts; ports, UUIDs, addresses; a run that never began."""
    story = Story("go_gateway")
    story.settings = CompactionSettings(ledger_percent=12, minimum_score=8)
    story.user("Шлюз теряет соединения после 90 секунд. Разберись почему; порт 8443 менять нельзя.")
    story.read("internal/proxy/pool.go", code("go", 7, 28, numbered=True), text="Начну с пула соединений.")
    story.run(
        "go test ./internal/proxy",
        "--- FAIL: TestIdle (1.20s)\n    pool_test.go:61: got 3 open connections, want 4\n"
        "FAIL\tgateway/internal/proxy\t1.233s",
        1,
    )
    story.edit("internal/proxy/pool.go", "IdleConnTimeout: 90 * time.Second", "IdleConnTimeout: 240 * time.Second")
    story.run("go test ./internal/proxy", "ok  \tgateway/internal/proxy\t1.219s")
    story.says(
        "Причина найдена: IdleConnTimeout был 90 с, а балансировщик держит 180 с. Теперь 240 с. "
        "The root cause is the idle timeout."
    )
    story.user("Нет, не 240, а 200: у балансировщика теперь 210.")
    story.edit("internal/proxy/pool.go", "240 * time.Second", "200 * time.Second")
    story.run(
        "go test ./...",
        "ok  \tgateway/internal/proxy\t1.220s\nok  \tgateway/internal/auth\t0.340s\n?   \tgateway/cmd\t[no test files]",
    )
    story.run(
        "go vet ./...", "# gateway/internal/auth\ninternal/auth/key.go:17:2: result of fmt.Sprintf call not used", 1
    )
    story.edit("internal/auth/key.go", '\tfmt.Sprintf("%s", id)', '\tlog.Printf("key %s", id)')
    story.run("go vet ./...", "")
    story.says("Готово: 200 с, go vet чист. Fixed: the idle timeout is 200 s now.")
    story.user("Клиент 7d9f2c1e-5b60-4a0e-9a53-0c1b2f7e8d14 всё ещё видит 502. Вот запросы.")
    story.run(
        "curl -sk https://localhost:8443/health",
        "curl: (7) Failed to connect to localhost port 8443: Connection refused",
        7,
    )
    story.run("./gateway --config conf/dev.yaml &", "listening on :8443\nupstreams: 10.1.4.17:9000, 10.1.4.18:9000")
    story.run("curl -sk https://localhost:8443/health", '{"ok": true, "build": "v1.18.2-rc1", "commit": "c0ffee42"}')
    story.run("journalctl -u gateway -n 25", log(8, 50))
    story.says("The 502 comes from 10.1.4.18:9000: it answers nothing since 14:02. Upstream 10.1.4.17 works fine.")
    story.user("Сделай проверку здоровья каждые 5 секунд, не чаще. И не забудь про отключение после 3 ошибок.")
    story.write("internal/proxy/health.go", code("go", 9, 4), text="Проверка живёт отдельно от пула.")
    story.run(
        "go build ./...",
        "internal/proxy/health.go:14:9: undefined: fmt\ninternal/proxy/health.go:22:3: error: too many errors",
        1,
    )
    story.edit("internal/proxy/health.go", "package proxy", 'package proxy\n\nimport "fmt"')
    story.run("go build ./...", "")
    story.run(
        "go test -run TestHealth ./internal/proxy",
        "testing: warning: no tests to run\nok  \tgateway/internal/proxy\t0.004s",
    )
    story.run("timeout 60 go test -race ./...", "[stopped after 60 s: the time limit]", None)
    story.says("Собирается. Для проверки здоровья ещё нет теста, а с -race прогон не закончился за 60 с.")
    story.user("Напиши тест и закоммить.")
    story.write("internal/proxy/health_test.go", code("go", 10, 3))
    story.run("go test ./internal/proxy", "ok  \tgateway/internal/proxy\t2.002s")
    story.run(
        "git add -A; git commit -m 'Health checks every 5 s'",
        "[dev 77ab01c] Health checks every 5 s\n 3 files changed",
        None,
    )
    story.says("Тест есть, закоммичено: 77ab01c.")
    story.user("Теперь проверь, сколько памяти занимает пул при 5000 соединений.")
    return story
