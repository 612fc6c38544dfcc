"""codelet's version. In a file of its own, as every module may import it, while `codelet` itself leads to all of them."""

__version__ = "0.1.0"
