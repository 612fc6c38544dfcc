"""The version of codelet, in a file of its own: every module may import it, and `codelet` itself leads to them all."""

__version__ = "0.1.0"
