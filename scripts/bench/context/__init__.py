"""The ruler for compaction: what survives, and what it costs; `python -m scripts.bench.context`."""
