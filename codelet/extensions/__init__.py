"""Extensions: a feature is a module here, and nothing outside imports it but the list in `builtin`; `base` is for all.

A contract in pyproject.toml holds that for imports; tests/extensions/test_seam.py adds a feature without another line.
"""
