"""Index: documents, chunks, shards and the two retrievers over them."""
