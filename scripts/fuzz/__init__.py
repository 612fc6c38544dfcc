"""Differential tests: what the policy says that a text means, against what the real programs make of it."""
