"""Vectors of documents and queries from other models: import, storage, encoding, inner products, nearest documents."""
