"""Compaction: replacing old messages by less, without forgetting what matters."""
