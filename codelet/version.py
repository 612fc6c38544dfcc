"""codelet's version. A file of its own: every module may import it, while `codelet` itself leads to all of them."""

__version__ = "0.1.0"
