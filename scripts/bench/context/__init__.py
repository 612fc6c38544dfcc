"""The ruler for compaction: what survives, what is untrue, and what it costs; `python -m scripts.bench.context`."""
