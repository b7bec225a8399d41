"""Caches: answers to repeated questions, and KV states of stable prompt prefixes."""
