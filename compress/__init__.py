"""Compression: from retrieved chunks to the few sentences that bear on the question."""
