"""A session's memory: facts, a file of facts that sessions share, a search in earlier sessions. All of it is data.

tests/extensions/memory/test_stranger.py shows that a stranger's file changes nothing but the listed facts. Short
because the parts are imported at their first use.
"""
