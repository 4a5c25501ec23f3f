"""Similar documents: kernels of mixed kinds between documents, and how much each should count."""

from kernelsearch.similarity.engine import SimilarDocuments

__all__ = ["SimilarDocuments"]
