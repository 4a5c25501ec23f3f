"""Nearest-neighbour search over vectors of documents and queries, with FAISS."""

from kernelsearch.neighbours.faiss_index import CLUSTERED, KINDS, Neighbours
from kernelsearch.neighbours.sparse import SparseNeighbours

__all__ = ["CLUSTERED", "KINDS", "Neighbours", "SparseNeighbours"]
