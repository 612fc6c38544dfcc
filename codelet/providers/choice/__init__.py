"""The choice of a model: the default, short names, known models."""
