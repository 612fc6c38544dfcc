"""The files of a session that bear on the current work: a graph in memory, made of the list alone.

It orders `@` completion. Compaction and the ranking of facts do not use it,
as both got worse on real sessions. It has no symbols: a graph of the names that files define and use, by tree-sitter,
found no more files than their imports. This file is short because its modules are imported when needed.
"""
