"""Processes, git and text. No child outlives its caller; no untrusted character reaches a terminal.

tests/system/process/test_child.py ends callers in every way, tests/system/text/test_text.py sends every kind of
character.
"""
