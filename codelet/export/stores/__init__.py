"""Stores of exports, behind one protocol (`store.Store`): files in a folder here, `redis_store` by its address."""
