"""Compaction: old messages replaced by a text that keeps what matters and says nothing untrue.

`engine` has the entry point. This file is short so that readers of segments load no more.
"""
