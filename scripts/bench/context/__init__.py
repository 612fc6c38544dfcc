"""The ruler for compaction: what survives, measured on real sessions and on planted facts."""
