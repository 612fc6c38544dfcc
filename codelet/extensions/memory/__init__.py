"""What a session remembers: facts, a file of facts that sessions share, a search in earlier sessions: all of it data.

tests/extensions/memory/test_stranger.py holds that someone else's file changes nothing but what is shown as facts.
Short because its parts are imported where they are asked for.
"""
