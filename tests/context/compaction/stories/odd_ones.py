"""Sessions whose messages look unlike codelet's own: other tools, broken lists, pictures, commands no runner knows."""

from __future__ import annotations

import base64

from codelet.context.compaction import CompactionSettings
from tests.context.compaction.lists import says, user
from tests.context.compaction.stories.story import Story, code, log

_PATCH = """*** Begin Patch
*** Update File: app/models.py
@@ class Order:
-    total = Column(Float)
+    total = Column(Numeric(12, 2))
*** Add File: app/money.py
+CENTS = 100
+def to_cents(amount): return int(amount * CENTS)
*** Delete File: app/old_money.py
*** End Patch"""
_DIFF = """--- a/app/views.py
+++ b/app/views.py
@@ -3,4 +3,4 @@
 def show(order):
-    return f"{order.total}"
+    return f"{order.total:.2f} EUR"
"""


def shell_work() -> Story:
    """Files moved, deleted, restored and edited by the shell; reads that fail; an attempt that is rolled back."""
    story = Story("shell_work")
    story.settings = CompactionSettings(ledger_percent=20)
    story.user("Tidy up the scripts folder: one script per job, no bash older than 2023. Prefer sed over perl.")
    story.run(
        "ls scripts && wc -l scripts/*",
        "backup.sh\ndeploy.sh\nold_deploy.sh\nrotate.pl\n  41 scripts/backup.sh\n 118 "
        "scripts/deploy.sh\n 240 scripts/old_deploy.sh\n  12 scripts/rotate.pl\n 411 total",
    )
    story.read(
        "scripts/deploy.sh",
        "#!/bin/sh\nset -eu\nHOST=${1:-stage-2}\nrsync -a build/ deploy@$HOST:/srv/app\nssh "
        "deploy@$HOST systemctl restart app\n" + "\n".join(f"step_{n} --wait {n}" for n in range(1, 60)),
    )
    story.read("scripts/rotate.sh", "Error: scripts/rotate.sh does not exist")
    story.run("rm scripts/old_deploy.sh && mv scripts/rotate.pl scripts/attic/", "")
    story.run("sed -i 's/stage-2/stage-3/' scripts/deploy.sh", "")
    story.run(
        "sed -i -E 's/step_[0-9]+ --wait/step --wait/' scripts/deploy.sh",
        "sed: can't read scripts/deploy.sh: Permission denied",
        4,
    )
    story.says(
        "old_deploy.sh is deleted, rotate.pl moved to scripts/attic. sed could not write deploy.sh "
        "the second time: Permission denied."
    )
    story.user("Use sudo only if you must. And stage-3 is wrong: stage-4.")
    story.run("cd scripts && sed -i 's/stage-3/stage-4/' deploy.sh; echo done", "done")
    story.run(
        "sh -n scripts/deploy.sh | tee /tmp/syntax.log", 'scripts/deploy.sh: 61: Syntax error: "fi" unexpected', 0
    )
    story.run(
        "git checkout -- scripts/deploy.sh && git status --short",
        " M scripts/backup.sh\n D scripts/old_deploy.sh\n?? scripts/attic/",
    )
    story.says(
        "That broke the file, so I reverted deploy.sh to what was committed; the change to stage-4 is gone again."
    )
    story.user("Do it by hand then.")
    story.edit("scripts/deploy.sh", "HOST=${1:-stage-2}", "HOST=${1:-stage-4}")
    story.run(
        "cat > scripts/cleanup.sh <<'END'\n#!/bin/sh\nfind /srv/import -mtime +14 -delete\nEND\n"
        "chmod +x scripts/cleanup.sh",
        "",
    )
    story.run(
        "echo 'MAILTO=ops@example.net' >> crontab.txt && git add . && git commit -m 'Scripts tidied'",
        "[main 5ca1ab1e] Scripts tidied\n 5 files changed, 40 insertions(+), 255 deletions(-)",
    )
    story.says("deploy.sh deploys to stage-4; cleanup.sh deletes what is older than 14 days. Committed as 5ca1ab1e.")
    story.user("The disk is full on stage-4, find out what takes the room")
    story.run("ssh stage-4 'du -xh / | sort -h | tail'", "9.1G\t/var/lib/docker/overlay2\n11G\t/srv/app/logs\n31G\t/")
    story.run(
        "ssh stage-4 'rm -rf /srv/app/logs/*.gz'", "rm: cannot remove '/srv/app/logs/a.gz': Operation not permitted", 1
    )
    story.run("docker system prune -af", "Error response from daemon: a prune operation is already running", 1)
    story.run(
        "ssh stage-4 df -h /", "Filesystem  Size  Used Avail Use% Mounted on\n/dev/vda1    32G   31G  0.4G  99% /"
    )
    story.says(
        "/srv/app/logs takes 11 GB; I may not remove anything there, and docker's prune was busy. Nothing was freed."
    )
    story.user("Here is what ops wrote:\n" + log(70, 40))
    story.run("rm crontab.txt; touch notes/ops.md; tail -5 scripts/attic/rotate.pl", "")
    story.says("Understood. crontab.txt is removed again; notes/ops.md is empty as yet.")
    story.user("Run make deploy and tell me what happens.")
    story.run("make deploy", "make: *** No rule to make target 'deploy'.  Stop.", 2)
    story.run("make test lint", "lint: ok\n12 tests passed", 0)
    story.says("There is no target deploy; test and lint pass.")
    story.user("Add the target deploy.")
    return story


def other_tools() -> Story:
    """Patches, editors with commands, commands given as lists, answers that name the file, no JSON."""
    story = Story("other_tools")
    story.settings = CompactionSettings(ledger_percent=20)
    story.user("Money is a float in app/models.py. Make it a Numeric(12, 2), and show two digits.")
    story.call("read_file", {"path": "app/models.py"}, code("py", 80, 24))
    story.call(
        "view", {"file_path": "app/old_money.py", "range": [1, 20]}, "def cents(amount):\n    return amount * 100\n"
    )
    story.call(
        "shell",
        {"command": ["apply_patch", _PATCH]},
        "Success. Updated the following files:\nM app/models.py\nA app/money.py\nD app/old_money.py",
        text="One patch for the model and the helper.",
    )
    story.call("patch", {"path": "app/views.py", "diff": _DIFF}, "ok")
    story.call(
        "shell",
        {"command": ["bash", "-lc", "python -m pytest -q tests/app"]},
        "Exit code: 1\nWall time: 2.1 seconds\nOutput:\nE   AssertionError: '12.5' != '12.50 EUR'\n"
        "1 failed, 30 passed in 1.88s",
    )
    story.says("The patch is in; one test fails: AssertionError: '12.5' != '12.50 EUR'.")
    story.user("Wait, no currency in the view, just two digits.")
    story.call(
        "str_replace_editor",
        {"command": "str_replace", "path": "app/views.py", "old_str": ":.2f} EUR", "new_str": ":.2f}"},
        "The file app/views.py has been edited.",
    )
    story.call(
        "str_replace_editor",
        {"command": "view", "path": "app/views.py"},
        'def show(order):\n    return f"{order.total:.2f}"\n',
    )
    story.call(
        "shell",
        {"command": ["bash", "-lc", "python -m pytest -q tests/app"]},
        "Exit code: 0\nWall time: 2.0 seconds\nOutput:\n31 passed in 1.80s",
    )
    story.says("Two digits, no currency. All 31 tests pass.")
    story.user("Now the same in the three reports.")
    story.calls(
        [
            (
                "MultiEdit",
                {
                    "file_path": "reports/daily.py",
                    "edits": [
                        {"old_string": "str(total)", "new_string": 'f"{total:.2f}"'},
                        {"old_string": "sum_f", "new_string": "sum_d"},
                    ],
                },
                "Applied 2 edits to reports/daily.py",
            ),
            (
                "Edit",
                {"file_path": "reports/weekly.py", "old_string": "str(total)", "new_string": 'f"{total:.2f}"'},
                "String to replace not found in file: str(total)",
            ),
            ("Edit", {}, "The file /srv/reports/monthly.py has been updated successfully."),
        ]
    )
    story.call(
        "create",
        {"path": "reports/README.md", "content": "# Reports\n\n## Format\nTwo digits, no currency.\n"},
        "File created successfully at: reports/README.md",
    )
    story.call(
        "grep_search", {"query": "total:.2f"}, "reports/daily.py:14: error: the line is too long\napp/views.py:4"
    )
    story.call("fetch", {"url": "https://wiki.example.net/money"}, "Error: 502 Bad Gateway from wiki.example.net")
    story.call("deploy", {"name": "reports", "attempt": 2}, "Error: quota of 3 deployments is used up")
    story.says("daily.py and monthly.py show two digits; weekly.py could not be edited: String to replace not found.")
    story.user("ok. what does the search index say about currency_code?")
    story.call(
        "search_index",
        {"query": "currency_code", "limit": 5},
        "\n".join(f"doc_{n}: currency_code of order_{n * 37} is {('EUR', 'USD', 'SEK')[n % 3]}" for n in range(30)),
    )
    story.messages += [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "odd_1",
                    "type": "function",
                    "function": {"name": "write", "arguments": '{"path": "a.py", "content": "cut o'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "odd_1", "content": "Error: the arguments are no JSON"},
        {"role": "tool", "tool_call_id": "nobody", "content": "a result without a call"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "odd_2",
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{"command": "sleep 600"}'},
                }
            ],
        },
        says("The index knows currency_code in 30 documents; the write was cut off and changed nothing."),
        {"role": "robot", "content": "no role"},
        user("Once more, please: weekly.py has `str(total_sum)`, not `str(total)`."),
    ]
    return story


def pictures_and_recall() -> Story:
    """Pictures from the user and from tools, results cut on their way in with a handle, reminders that come twice."""
    story = Story("pictures_and_recall")
    story.settings = CompactionSettings(context=1_200)

    def shown(name: str, side: int) -> dict[str, object]:
        data = base64.b64encode(name.encode() * 20).decode()
        return {"name": name, "media_type": "image/png", "width": side, "height": side // 2, "data": data}

    story.remind("environment", "Linux, 2 cores")
    story.remind("tokenStatus", "12,000 of 200,000 tokens")
    story.user(
        "The button overlaps the price, see the picture. It must be at least 12 px away.", [shown("checkout.png", 800)]
    )
    story.read("web/checkout.css", "\n".join(f".row-{n} {{ margin: {n}px; padding: {n % 5}px }}" for n in range(70)))
    story.edit("web/checkout.css", ".buy { margin-left: 2px }", ".buy { margin-left: 16px }")
    story.call("screenshot", {"url": "http://localhost:3000/checkout"}, "web/shot_1.png, 800 x 400")
    story.messages[-1]["images"] = [shown("web/shot_1.png", 800)]
    story.says("The margin is 16 px now; in web/shot_1.png nothing overlaps.")
    story.user("On a phone it still does.", [shown("phone.png", 390), shown("tablet.png", 820)])
    story.remind("tokenStatus", "31,000 of 200,000 tokens")
    story.run(
        "npx playwright test",
        "\n".join(f"  ✓ {n} [mobile] › checkout.spec.ts:{n}:1 step {n} ({n * 13} ms)" for n in range(1, 40))
        + "\n[… 388 lines left out of 40112 characters; recall id=r7 …]\n  1 failed\n    [mobile] "
        "› price.spec.ts:9:1 overlaps\n  57 passed (41.2s)",
        1,
    )
    story.edit(
        "web/checkout.css",
        "@media (max-width: 400px) {}",
        "@media (max-width: 400px) { .buy { margin-left: 12px; display: block } }",
    )
    story.run("npx playwright test", "  58 passed (40.8s)")
    story.says("Below 400 px the button stands on a line of its own. All 58 tests passed (40.8s).")
    story.user("[Image #1] and in dark mode? Remember: contrast at least 4.5:1.", [shown("dark.png", 400)])
    story.read("web/dark.css", "\n".join(f"--shade-{n}: #{n * 99991 % 0xFFFFFF:06x};" for n in range(60)))
    story.call(
        "recall", {"id": "r7"}, "\n".join(f"line {n}: [mobile] › cart.spec.ts:{n} took {n * 7} ms" for n in range(50))
    )
    story.says(
        "The contrast is 3.9:1 in dark mode: --shade-12 is too light. Not changed yet, as the palette is shared."
    )
    story.user("Change it for the button only. And which browsers did you test?")
    return story


def broken_build() -> Story:
    """Hundreds of errors of a few kinds, tables of sizes, statuses that nobody can tell, praise and blame."""
    story = Story("broken_build")
    story.settings = CompactionSettings(ledger_percent=10, newest_percent=10, tail_percent=8)
    story.user("make all is broken since the compiler update to gcc 14. No warnings may be switched off.")
    errors = "\n".join(
        f"src/mod_{n}.c:{n * 7}:{n % 40}: error: implicit declaration of function 'fn_{n}'" for n in range(1, 70)
    )
    story.run("make all", f"{errors}\nmake: *** [Makefile:12: all] Error 1", 2)
    story.run("make all 2>&1 | tail -3", "make: *** [Makefile:12: all] Error 1", 0)
    story.run("gcc --version", "gcc (GCC) 14.1.0", 0)
    story.says(
        "69 errors of one kind: implicit declarations, which gcc 14 no longer takes. The headers must be included."
    )
    story.user("That's it. Include compat.h in each, don't add prototypes by hand.")
    story.run("sed -i '1i #include \"compat.h\"' src/mod_*.c", "")
    story.run(
        "make all",
        "src/mod_9.c:70:4: warning: unused variable 'k'\nsrc/mod_13.c:91:2: fatal error: compat.h: "
        "No such file or directory\nmake: *** [Makefile:12: all] Error 1",
        2,
    )
    story.says("compat.h was not found from src/; the include path is missing.")
    story.user("That did not help, did it? Put it into CFLAGS.")
    story.edit("Makefile", "CFLAGS = -O2 -Wall", "CFLAGS = -O2 -Wall -Iinclude")
    story.run("make all", "cc -O2 -Wall -Iinclude -o app src/*.c", 0)
    story.run("make test", "ctest: 211 tests passed, 2 skipped", None)
    story.run("ctest -N", "Total Tests: 213", 0)
    story.run("./app --selftest", "FATAL: device /dev/ttyUSB0: Permission denied", 1)
    story.says(
        "The build succeeded. Of the tests I cannot tell the exit status; ./app --selftest fails: Permission denied."
    )
    story.user("Perfect. What did it do to the size?")
    story.run(
        "size build/*.o",
        "\n".join(
            [
                "   text    data     bss     dec",
                *(
                    f"  {n * 1231 % 9000}   {n * 11}   {n % 7}   {n * 1300 % 9999} build/mod_{n}.o"
                    for n in range(1, 50)
                ),
            ]
        ),
    )
    story.says("mod_7.o is largest with 8,617 bytes; on the whole nothing changed by more than 1%.")
    for number in range(3):
        story.user(
            f"point {number + 1} of the list: option --level-{number} is undocumented, please "
            f"document it in docs/options_{number}.md"
        )
        story.write(
            f"docs/options_{number}.md",
            f"# Option --level-{number}\n\nSets the level to {number * 3}.\n" + "More on it below. " * 20,
        )
        story.says(f"docs/options_{number}.md describes --level-{number}.")
    story.user("In the first error, was mod_13 among them? And commit, if the earlier failure is gone.")
    return story
