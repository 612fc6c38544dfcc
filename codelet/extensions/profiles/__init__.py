"""Profiles: instructions, tools and limits of a session, from a file. A profile only takes rights away.

tests/extensions/profiles/test_narrowing.py holds that for every profile, however it is written, and
tests/extensions/profiles/test_malformed.py that a bad file is an error with its place. Short because its parts are
imported when a profile is used.
"""
