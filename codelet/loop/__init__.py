"""A session and its turns. At every await the list is valid, and each call in it has exactly one result.

tests/e2e/test_cancel.py stops turns at every point, tests/loop/test_conversation.py does everything else in any order.
"""
