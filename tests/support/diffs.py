"""Diffs of any size, made without git: the same bytes for the same numbers."""

from __future__ import annotations


def large_diff(*, files: int, hunks: int, lines: int) -> bytes:
    """So many files with so many hunks of so many changed lines each: a fifth is removed, the rest is added."""
    removed = lines // 5
    added = lines - removed
    parts: list[str] = []
    for file in range(files):
        path = f"src/part{file % 50}/module_{file}.py"
        parts.append(f"diff --git a/{path} b/{path}\nindex 1111111..2222222 100644\n--- a/{path}\n+++ b/{path}\n")
        for hunk in range(hunks):
            old, new = 1 + hunk * 200, 1 + hunk * (200 + added - removed)
            parts.append(f"@@ -{old},{removed + 6} +{new},{added + 6} @@ def work_{hunk}(items):\n")
            parts += [f"     kept_{line} = items[{line}]\n" for line in range(3)]
            parts += [f"-    total = total + rate_{line} * items[{line}]\n" for line in range(removed)]
            parts += [f"+    total += rate_{file}_{hunk}_{line} * items[{line}]\n" for line in range(added)]
            parts += [f"     after_{line} = total\n" for line in range(3)]
    return "".join(parts).encode()
