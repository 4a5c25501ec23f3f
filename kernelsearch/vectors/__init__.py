"""Vectors of documents and queries from other models: import, storage, encoding, inner products, nearest documents."""

from kernelsearch.vectors.opened import Vectors
from kernelsearch.vectors.settings import VectorSettings
from kernelsearch.vectors.store import DocumentVectors

__all__ = ["DocumentVectors", "VectorSettings", "Vectors"]
