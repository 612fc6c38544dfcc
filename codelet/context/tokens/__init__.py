"""Tokens: usage, estimate, budget, windows and prices."""
