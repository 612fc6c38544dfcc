"""Which files of a session bear on what is done now: a graph in memory, made of the list and of nothing else.

It orders `@` completion; `scripts/bench/relations.py` measures that. Compaction and the ranking of facts do not use it:
on real sessions both got worse somewhere. Nor does it hold symbols: a graph of the names that files define and use,
read by tree-sitter, found no more files than their imports do. Short because its parts are imported where they
are asked for.
"""
