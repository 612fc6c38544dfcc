"""Extensions: a feature is a module here, imported by the list in `builtin` alone; anybody may import `base`.
`session_view` has the types of what an extension may use of a session.

A contract in pyproject.toml holds that for imports; tests/extensions/test_seam.py adds a feature without another line.
"""
