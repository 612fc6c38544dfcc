"""The audit file: written by `log`, checked by `verify`. It holds nothing, so that each can be imported alone."""
