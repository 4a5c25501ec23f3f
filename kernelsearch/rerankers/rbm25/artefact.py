"""Files that rbm25 derives from a click log, as artefacts of an index: they are made again if they are missing."""

from __future__ import annotations

from kernelsearch.rerankers.artefact_kinds import ArtefactKind
from kernelsearch.rerankers.rbm25 import query_vectors, similar_queries

COMMAND = "search {flags} --rerank rbm25"

SIMILAR_QUERIES = ArtefactKind(
    similar_queries.KIND,
    similar_queries.VERSION,
    COMMAND,
    place="similar-queries-*",
    validate=similar_queries.validate,
    derived=True,
)
QUERY_VECTORS = ArtefactKind(query_vectors.KIND, query_vectors.VERSION, COMMAND, place="similar-queries-*-*", derived=True)
