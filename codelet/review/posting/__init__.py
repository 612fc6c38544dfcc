"""The findings of a report as comments on a pull or merge request. Proven by tests/review/posting/test_post.py."""
