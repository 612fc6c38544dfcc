"""The heart of a session: at every await its list is valid, and each call in it has exactly one result."""
