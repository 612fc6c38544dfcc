"""Providers: the wires to the models."""
