"""The export: a session as one JSON document, kept in a file or in Redis because the user asked for it.

It is written whole or not at all (tests/export/test_files.py), and exported, resumed and exported again it is the same
bytes (tests/export/test_document.py).
"""
