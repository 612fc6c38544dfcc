"""What requests carry beside plain texts: the schema of the final answer. Each wire has its own form for it."""
