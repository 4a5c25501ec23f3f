"""Nearest documents and queries in vector space, with FAISS."""

from kernelsearch.neighbours.index import CLUSTERED, KINDS, Neighbours
from kernelsearch.neighbours.sparse import SparseNeighbours

__all__ = ["CLUSTERED", "KINDS", "Neighbours", "SparseNeighbours"]
