"""Mutation testing: small bugs put into a copy of the product, one at a time; do the tests that run them notice?

Use: python -m scripts.mutants [--count N] [--seed S] [--list] FOLDER-OR-FILE…
"""
