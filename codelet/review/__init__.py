"""Reviews of a change: a diff in chunks, findings from a model, each on the line that it quotes, one report of all.

Every changed hunk ends in the report as reviewed, truncated, skipped or failed, and no finding is on a line that
its quote does not name (tests/review/test_findings.py).
"""
