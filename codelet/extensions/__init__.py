"""Extensions: a feature is a module here, and a row in `manifest`; anyone may import `base`.

`session_view` has the types of what an extension may use of a session, `services` what other parts use of single
extensions. A contract in pyproject.toml holds that for imports; tests/extensions/test_seam.py adds a feature without
another line.
"""
