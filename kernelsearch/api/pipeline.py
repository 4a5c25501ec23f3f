"""A pipeline: a first stage that retrieves candidates, and rerankers that are applied one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernelsearch.api.results import Results
from kernelsearch.core.errors import InputError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.index import FirstStage
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Context, Reranker

if TYPE_CHECKING:
    from kernelsearch.api.index_files import IndexFiles

#: Methods with their options by name, in the order in which they rerank.
Methods = Sequence[tuple[str, Mapping[str, Any]]]


class Pipeline:
    """A first stage and rerankers over one index. It can be pickled; another process opens the index again.

    Parameters
    ----------
    index : the opened index
    first : the first stage
    methods : names and options of the rerankers, in the order in which they are applied

    Attributes: `index`, `first`, and `rerankers`.
    """

    def __init__(self, index: IndexFiles, first: FirstStage, methods: Methods = ()) -> None:
        self.index = index
        self.first = first
        self.rerankers: list[Reranker[Any]] = [registry.method(name).make(index, **options) for name, options in methods]

    def __reduce__(self) -> tuple[Any, ...]:
        return Pipeline, (self.index, self.first, self.methods)

    @property
    def parts_in_use(self) -> list[str]:
        """One line per method with parts that an index may lack: which of them are in use, and why others are not."""
        return [line for reranker in self.rerankers if (line := reranker.parts_in_use) is not None]

    @property
    def methods(self) -> list[tuple[str, dict[str, Any]]]:
        """The name of each reranker with all its options."""
        return [(reranker.name, reranker.settings.to_dict()) for reranker in self.rerankers]

    def context(self, threads: int = 1) -> Context:
        """The context that is passed to the rerankers, which may use `threads` threads."""
        return Context(self.first.model, self.first.hits, threads)

    def retrieve(self, queries: Sequence[Query], *, threads: int = 1) -> list[Candidates]:
        """The first stage's list of each of the `queries`, retrieved with `threads` threads."""
        expander = self.index.expander if self.first.feedback is not None else None
        return self.first.search(self.index.lucene, queries, threads=threads, expander=expander)

    def answer(self, text: str, k: int, *, threads: int = 1) -> Results:
        """The best `k` documents for the query `text`, found with `threads` threads; raises InputError for an empty text."""
        query, before, after = self.run(text, threads=threads)
        return Results(self.index, query, [reranker.name for reranker in self.rerankers], before, after.top(k))

    def run(self, text: str, qid: str = "", *, threads: int = 1) -> tuple[Query, Candidates, Candidates]:
        """The query `text`, analysed, with its list before and after the rerankers, which may use `threads` threads.

        `qid` is the topic id of the query, by which files of query vectors and runs know it. Raises InputError for an empty
        text.
        """
        if not text.strip():
            raise InputError("the query has no text")
        query = self.index.query(text, qid)
        before = self.retrieve([query], threads=threads)
        return query, before[0], self.rerank([query], before, threads=threads)[0]

    def search(self, queries: Sequence[Query], *, threads: int = 1) -> list[Candidates]:
        """The list of each of the `queries` after all rerankers, with `threads` threads."""
        return self.rerank(queries, self.retrieve(queries, threads=threads), threads=threads)

    def rerank(self, queries: Sequence[Query], lists: Sequence[Candidates], *, threads: int = 1) -> list[Candidates]:
        """The lists of queries after all rerankers, with `threads` threads; `lists` are their candidates."""
        context, current = self.context(threads), list(lists)
        for reranker in self.rerankers:
            # Without the fallbacks of earlier methods, which a method that cannot act would return as its own.
            ranked = reranker.apply_batch(queries, [Candidates(last.docs, last.scores) for last in current], context)
            current = [
                replace(after, fallbacks=before.fallbacks + after.fallbacks)
                for before, after in zip(current, ranked, strict=True)
            ]
        return current


def fallback_messages(fallbacks: Counter[tuple[str, str]]) -> list[str]:
    """One line per (method, reason) of `fallbacks` with the number of queries whose list the method left unchanged."""
    return [
        f"{method}: {count} {'query keeps' if count == 1 else 'queries keep'} the first stage's list: {reason}"
        for (method, reason), count in fallbacks.most_common()
    ]


def count_fallbacks(lists: Iterable[Candidates]) -> Counter[tuple[str, str]]:
    """How many lists each method left unchanged: {(method, reason): count}."""
    return Counter(fallback for ranked in lists for fallback in ranked.fallbacks)
