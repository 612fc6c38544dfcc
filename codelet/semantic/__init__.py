"""The search for facts by meaning, the extra `codelet-repl[semantic]`: the setting `facts_model` has a row for it in
`extensions/memory/fact_search.py`. No module imports it by name (tests/extensions/memory/test_meaning.py).
"""
