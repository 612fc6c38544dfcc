"""Profiles: what a session is told, may use and may do, from a file. A profile only takes rights away, never gives any.

tests/extensions/profiles/test_narrowing.py holds that for every profile, however it is written, and
tests/extensions/profiles/test_malformed.py that a bad file is an error with its place. Short because its parts are
imported where a profile is asked for.
"""
