"""Exports in Redis, the extra `codelet-repl[redis]`: a store that the table in `export/store_target.py` names.

No module imports it by name, and it uses what any other store can use: the protocol in `export/stores/store.py`
(tests/export/test_redis.py).
"""
