"""Which model answers: the one to take when none is named, short names, what there is to choose from."""
