"""The search for facts by meaning, the extra `codelet-repl[semantic]`, which
`extensions/memory/fact.py` imports when it is needed. No module imports it by name
(tests/extensions/memory/test_meaning.py).
"""
