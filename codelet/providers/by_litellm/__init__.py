"""litellm, for every model that the native wires do not reach.

It takes seconds and 250 MB to import, so it has its own process: `child` runs there and alone imports it,
`provider` is codelet's end of the pipe.
"""

MALICIOUS = ("1.82.7", "1.82.8", "1.107.0")
"""Releases with a stealer in them: these are never imported."""

LONGEST_LINE = 64_000_000
"""Bytes of one line between the processes."""
