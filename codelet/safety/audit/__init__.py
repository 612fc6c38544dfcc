"""The audit file: written by `log`, checked by `verify`. Empty, so that each can be imported alone."""
