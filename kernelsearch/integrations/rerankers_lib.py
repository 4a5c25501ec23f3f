"""A ranker for the `rerankers` library (AnswerDotAI), so that kernel methods stand beside its cross-encoders.

    from kernelsearch.integrations.rerankers_lib import KernelRanker
    ranker = KernelRanker("indexes/cacm", rerank="klsa")
    ranker.rank("time sharing", docs=["..."], doc_ids=["CACM-1938"])

The methods rank documents of an index, by its statistics: documents are known by their ids, not by the text that is passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from rerankers.documents import Document
from rerankers.models.ranker import BaseRanker
from rerankers.results import RankedResults, Result

from kernelsearch.api.keywords import Rerank
from kernelsearch.core.errors import InputError
from kernelsearch.integrations.hits import KernelReranker
from kernelsearch.rerankers.pert.expansion import term_scores


class KernelRanker(BaseRanker):
    """Ranks documents of an index. `rerank` and options are those of `kernelsearch.Index.search`."""

    ranking_type = "pointwise"

    def __init__(self, index: Any, rerank: Rerank = "klsa", verbose: int = 0, **options: Any) -> None:
        self._reranker = KernelReranker(index, rerank, **options)
        self.verbose = verbose

    def rank(
        self,
        query: str,
        docs: str | Document | Sequence[str] | Sequence[Document],
        doc_ids: Sequence[str] | None = None,
        metadata: Sequence[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """The documents, best first. `doc_ids` (or the ids of Document objects) are docids of the index."""
        documents = _documents(docs, doc_ids, metadata)
        given = [_Scored(document, score) for document, score in zip(documents, self._first(query, documents), strict=True)]
        ranked = self._reranker.rerank(query, given)
        results = [Result(document=one.document, score=one.score, rank=rank) for rank, one in enumerate(ranked, 1)]
        return RankedResults(results=results, query=query, has_scores=True)

    async def rank_async(self, query: str, docs: Any, doc_ids: Any = None, metadata: Any = None) -> RankedResults:
        return await asyncio.to_thread(self.rank, query, docs, doc_ids, metadata)

    def score(self, query: str, doc: str) -> float:
        """The score of one document, named by its docid."""
        return float(self.rank(query, [Document(text="", doc_id=doc)])[0].score)

    def _first(self, query: str, documents: list[Document]) -> list[float]:
        """The first stage's scores of the documents, which the methods start from."""
        index = self._reranker.index
        rows = index.forward.rows_of([str(document.doc_id) for document in documents])
        analysed = index.query(query)
        terms = index.forward.term_ids(analysed.terms)
        model = self._reranker.pipeline.first.model
        scores = term_scores(index.forward, model, terms, analysed.weights, np.maximum(rows, 0)).sum(axis=1)
        return np.where(rows >= 0, scores, 0.0).tolist()


class _Scored:
    """A document of the library as a hit."""

    def __init__(self, document: Document, score: float) -> None:
        self.document, self.docid, self.score = document, str(document.doc_id), score


def _documents(docs: Any, doc_ids: Sequence[str] | None, metadata: Sequence[dict[str, Any]] | None) -> list[Document]:
    """The library's documents with their ids, from any of the forms that its rankers take."""
    several = [docs] if isinstance(docs, (str, Document)) else list(docs)
    if doc_ids is not None and len(doc_ids) != len(several):
        raise InputError(f"rank: {len(several)} documents but {len(doc_ids)} doc_ids")
    if metadata is not None and len(metadata) != len(several):
        raise InputError(f"rank: {len(several)} documents but {len(metadata)} metadata")
    made = []
    for place, one in enumerate(several):
        if isinstance(one, Document):
            docid = one.doc_id if doc_ids is None else doc_ids[place]
            one = Document(text=one.text, doc_id=docid, metadata=one.metadata)
        elif doc_ids is not None:
            one = Document(text=one, doc_id=doc_ids[place], metadata=metadata[place] if metadata is not None else None)
        else:
            raise InputError("rank: doc_ids are needed: documents are known to the index by their ids")
        if one.doc_id is None:
            raise InputError(f"rank: document {place} has no doc_id; documents are known to the index by their ids")
        made.append(one)
    return made
