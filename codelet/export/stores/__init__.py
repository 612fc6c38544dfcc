"""Where exports are kept: files in a folder, or a Redis database, behind one protocol (`store.Store`)."""
