"""Stores of exports, with one protocol (`store.Store`): files in a folder here, `redis_store` by its address."""
