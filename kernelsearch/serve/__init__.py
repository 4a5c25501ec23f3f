"""The service: search, rerank, compare, explain and find similar documents over HTTP, with a page for people."""
