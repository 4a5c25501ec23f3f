"""Nearest documents and queries in vector space, with FAISS."""

from kernelsearch.neighbours.index import KINDS, Neighbours

__all__ = ["KINDS", "Neighbours"]
