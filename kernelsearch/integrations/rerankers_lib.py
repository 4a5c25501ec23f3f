"""A ranker for the `rerankers` library (AnswerDotAI), so that kernel methods can be used like its cross-encoders.

    from kernelsearch.integrations.rerankers_lib import KernelRanker
    ranker = KernelRanker("indexes/cacm", rerank="klsa")
    ranker.rank("time sharing", docs=["..."], doc_ids=["CACM-1938"])

The methods rank documents of an index by its statistics: documents are identified by their ids, and texts that are passed are
not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from rerankers.documents import Document
from rerankers.models.ranker import BaseRanker
from rerankers.results import RankedResults, Result

from kernelsearch.api.keywords import Rerank
from kernelsearch.core.errors import InputError
from kernelsearch.integrations.hits import IndexSource, KernelReranker
from kernelsearch.kernels.ranking_models import first_stage_scores

Documents: TypeAlias = "str | Document | Sequence[str | Document]"


class KernelRanker(BaseRanker):
    """Ranks documents of an index.

    Parameters
    ----------
    index : a folder, an opened index or a Lucene searcher
    rerank : one method or several, as in `kernelsearch.Index.search`
    verbose : accepted as by the library's other rankers, and not used
    options : options of the first stage and of the methods, as in `kernelsearch.Index.search`
    """

    ranking_type = "pointwise"

    def __init__(self, index: IndexSource, rerank: Rerank = "klsa", verbose: int = 0, **options: Any) -> None:
        self._reranker = KernelReranker(index, rerank, **options)
        self.verbose = verbose

    def rank(
        self,
        query: str,
        docs: Documents,
        doc_ids: str | Sequence[str] | None = None,
        metadata: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """The documents `docs`, best first for `query`.

        `doc_ids`, or the ids of Document objects, are docids of the index, one alone for a single document. `metadata` is kept
        with the documents, in place of that of Document objects.
        """
        documents = _read_documents(docs, doc_ids, metadata)
        scores = self._first_stage_scores(query, documents)
        hits = [_Hit(document, str(document.doc_id), score) for document, score in zip(documents, scores, strict=True)]
        ranked = self._reranker.rerank(query, hits)
        results = [Result(document=hit.document, score=hit.score, rank=rank) for rank, hit in enumerate(ranked, 1)]
        return RankedResults(results=results, query=query, has_scores=True)

    async def rank_async(
        self,
        query: str,
        docs: Documents,
        doc_ids: str | Sequence[str] | None = None,
        metadata: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """As `rank`, in a thread."""
        return await asyncio.to_thread(self.rank, query, docs, doc_ids, metadata)

    def score(self, query: str, doc: str | Document, doc_id: str | None = None) -> float:
        """The score for `query` of one document, `doc`, a text with `doc_id`, its docid, or a Document with its id."""
        return float(self.rank(query, doc, doc_id)[0].score)

    def _first_stage_scores(self, query: str, documents: list[Document]) -> list[float]:
        """The scores of the documents under the first stage's model; 0 for documents that are not in the index."""
        index = self._reranker.index
        rows = index.forward.rows_of([str(document.doc_id) for document in documents])
        analysed = index.query(query)
        model = self._reranker.pipeline.first.model
        exact = first_stage_scores(index.forward, model, analysed, np.maximum(rows, 0))
        scores: list[float] = np.where(rows >= 0, exact, 0.0).tolist()
        return scores


@dataclass
class _Hit:
    """A document of the library as a hit."""

    document: Document
    docid: str
    score: float


def _read_documents(
    docs: Documents, doc_ids: str | Sequence[str] | None, metadata: dict[str, Any] | Sequence[dict[str, Any]] | None
) -> list[Document]:
    """The library's documents with their ids, from any of the forms that its rankers accept."""
    items = [docs] if isinstance(docs, str | Document) else list(docs)
    doc_ids = [doc_ids] if isinstance(doc_ids, str | int) else doc_ids
    metadata = [metadata] if isinstance(metadata, dict) else metadata
    if doc_ids is not None and len(doc_ids) != len(items):
        raise InputError(f"rank: {len(items)} documents but {len(doc_ids)} doc_ids")
    if metadata is not None and len(metadata) != len(items):
        raise InputError(f"rank: {len(items)} documents but {len(metadata)} metadata")
    documents = []
    for place, item in enumerate(items):
        if isinstance(item, Document):
            docid = item.doc_id if doc_ids is None else doc_ids[place]
            document = Document(text=item.text, doc_id=docid, metadata=item.metadata if metadata is None else metadata[place])
        elif doc_ids is not None:
            document = Document(text=item, doc_id=doc_ids[place], metadata=metadata[place] if metadata is not None else None)
        else:
            raise InputError("rank: doc_ids are needed: the index identifies documents by their ids")
        if document.doc_id is None:
            raise InputError(f"rank: document {place} has no doc_id: the index identifies documents by their ids")
        documents.append(document)
    return documents
