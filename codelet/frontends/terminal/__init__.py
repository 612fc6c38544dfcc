"""The REPL: prompt-toolkit reads, the renderer in `show` prints; commands, keys, status row, approvals."""
