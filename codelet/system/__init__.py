"""What codelet needs of the machine. No child outlives its caller; no untrusted character reaches a terminal."""
