"""Anserini's pseudo-relevance feedback on the forward index: RM3, Rocchio and BM25PRF, equal to its weights bit for bit.

Anserini computes in single precision, document by document in the order of the list, and normalises in double precision in
the order of a Java HashMap; so does this module, for many queries at once. Nothing here needs stored document vectors.

- RM3: Abdul-Jaleel et al., "UMass at TREC 2004" (TREC 2004), io.anserini.rerank.lib.Rm3Reranker
- Rocchio, "Relevance feedback in information retrieval" (1971), io.anserini.rerank.lib.RocchioReranker
- BM25PRF: Robertson's offer weights with Sakai & Robertson's logarithm (SIGIR 2002), io.anserini.rerank.lib.BM25PrfReranker
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.sequences import chunks
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels import java_maps
from kernelsearch.lucene.models import BM25PRF, RM3, Feedback, Rocchio

Singles = NDArray[np.float32]
Numbers = NDArray[np.int64]

#: A word in more than this share of the documents is not used for feedback.
MAX_SHARE = np.float32(0.1)
SHORTEST, LONGEST = 2, 20
#: The smallest weight of a word in BM25PRF.
FLOOR = 1e-6
#: Queries that are expanded in one step, which bounds the memory.
BATCH = 64


@dataclass(frozen=True, eq=False)
class FeedbackQuery:
    """A query as feedback weights it.

    `terms` are term numbers, ascending; `weights` (terms,) is parallel to them. `unknown` are the weights of the query's words
    that the index doesn't have: they score nothing, but Anserini's query has them.
    """

    terms: Numbers
    weights: Singles
    unknown: dict[str, float]

    def to_query(self, index: ForwardIndex, query: Query) -> Query:
        """The weighted query in words of `index`, in their alphabetical order; `query` itself where feedback left no term."""
        weights = dict(zip(index.terms.take(self.terms), self.weights.tolist(), strict=True))
        if self.unknown:
            weights = dict(sorted((weights | self.unknown).items()))
        return Query(query.text, tuple(weights), tuple(weights.values()), query.qid) if weights else query


class FeedbackExpander:
    """Expands queries by the best documents of their lists, on one index."""

    def __init__(self, index: ForwardIndex) -> None:
        self.index = index

    def __call__(self, queries: Sequence[Query], lists: Sequence[Candidates], feedback: Feedback) -> list[Query]:
        """The weighted queries in words. `lists` hold Lucene's scores of the best `feedback.depth` documents."""
        made = self.expand(queries, lists, feedback)
        return [expansion.to_query(self.index, query) for query, expansion in zip(queries, made, strict=True)]

    def expand(self, queries: Sequence[Query], lists: Sequence[Candidates], feedback: Feedback) -> list[FeedbackQuery]:
        """The weighted queries in term numbers, one per query.

        `lists` hold Lucene's scores of each query's best documents, `feedback` are the model and its parameters.
        """
        out: list[FeedbackQuery] = []
        for part in chunks(list(zip(queries, lists, strict=True)), BATCH):
            words = _QueryWords.of(self.index, [query for query, _ in part])
            part_lists = [candidates for _, candidates in part]
            if isinstance(feedback, RM3):
                out += self._rm3(words, part_lists, feedback)
            elif isinstance(feedback, Rocchio):
                out += self._rocchio(words, part_lists, feedback)
            else:
                out += self._bm25prf(words, part_lists, feedback)
        return out

    @cached_property
    def _documents(self) -> int:
        """Documents that aren't deleted, which Anserini relates document frequencies to."""
        return len(self.index.live_docs)

    @cached_property
    def _rare(self) -> NDArray[np.bool_]:
        """Terms that may be used for feedback by their length and document frequency, shape (terms,)."""
        lengths = java_maps.utf16_lengths(self.index.terms)
        share = np.asarray(self.index.df).astype(np.float32) / np.float32(max(self._documents, 1))
        return (lengths >= SHORTEST) & (lengths <= LONGEST) & (share <= MAX_SHARE)

    @cached_property
    def _english(self) -> NDArray[np.bool_]:
        """Terms of 2 to 20 of the characters a to z and 0 to 9, shape (terms,)."""
        return self.index.terms.made_of(_bytes(b"abcdefghijklmnopqrstuvwxyz0123456789"), SHORTEST, LONGEST)

    @cached_property
    def _rare_english(self) -> NDArray[np.bool_]:
        return self._rare & self._english

    @cached_property
    def _english_words(self) -> NDArray[np.bool_]:
        """English terms that aren't numbers."""
        return self._english & ~self.index.terms.made_of(_bytes(b"0123456789"))

    @cached_property
    def _ranks(self) -> Numbers | None:
        """The alphabetical places of the terms in Java where they aren't the term numbers."""
        return java_maps.utf16_ranks(self.index.terms)

    def _rm3(self, words: _QueryWords, lists: Sequence[Candidates], rm3: RM3) -> list[FeedbackQuery]:
        counts = self._counts(lists, rm3.docs, self._rare_english if rm3.english else self._rare)
        counts = self._strongest_of_documents(counts, rm3.terms)
        norms = np.bincount(counts.rows, weights=counts.frequencies, minlength=len(counts.scores)).astype(np.float32)
        shares = counts.frequencies / norms[counts.rows] * counts.scores[counts.rows]
        model = self._cut(self._sums(counts, shares), rm3.terms)
        feedback = self._scaled(model, power=1)
        own = words.over_norm(power=1)
        weight = np.float32(rm3.original_weight)

        def mixed(query: Singles, expansion: Singles) -> Singles:
            rest = (1.0 - np.float64(weight)) * expansion.astype(np.float64)
            return ((weight * query).astype(np.float64) + rest).astype(np.float32)

        terms, (query, expansion) = _together(len(self.index.terms), [(words.keys, own.known), feedback])
        zeros = np.zeros(len(own.unknown), dtype=np.float32)
        return words.split(terms, mixed(query, expansion), mixed(own.unknown, zeros))

    def _rocchio(self, words: _QueryWords, lists: Sequence[Candidates], rocchio: Rocchio) -> list[FeedbackQuery]:
        parts = [self._mean_document(lists, rocchio.top_docs, rocchio.top_terms)]
        if rocchio.negative:
            bottom = [Candidates(ranked.docs[::-1], ranked.scores[::-1]) for ranked in lists]
            parts.append(self._mean_document(bottom, rocchio.bottom_docs, rocchio.bottom_terms))
        own = words.over_norm(power=2)
        alpha, beta, gamma = (np.float32(value) for value in (rocchio.alpha, rocchio.beta, rocchio.gamma))
        terms, vectors = _together(len(self.index.terms), [(words.keys, own.known), *parts])
        weights = alpha * vectors[0] + beta * vectors[1]
        if rocchio.negative:
            weights = weights - gamma * vectors[2]
        positive = weights > 0
        return words.split(terms[positive], weights[positive], alpha * own.unknown, positive=True)

    def _mean_document(self, lists: Sequence[Candidates], docs: int, terms: int) -> tuple[Numbers, Singles]:
        """The strongest terms of the mean of unit document vectors, itself of unit length: (keys, weights)."""
        counts = self._counts(lists, docs, self._rare)
        squares = np.bincount(counts.rows, weights=counts.frequencies.astype(np.float64) ** 2, minlength=len(counts.scores))
        norms = np.sqrt(squares).astype(np.float32)
        sums = self._sums(counts, counts.frequencies / norms[counts.rows])
        held = np.bincount(counts.owners, minlength=len(lists)).astype(np.float32)
        values = sums.values / held[sums.queries]
        return self._scaled(self._cut(sums._replace(values=values), terms), power=2)

    def _bm25prf(self, words: _QueryWords, lists: Sequence[Candidates], prf: BM25PRF) -> list[FeedbackQuery]:
        counts = self._counts(lists, prf.docs, None)
        held = np.bincount(counts.owners, minlength=len(lists))
        size = len(self.index.terms)
        keys, first, occurrences = np.unique(counts.keys(size), return_index=True, return_counts=True)
        queries, terms = keys // size, keys % size
        fresh = self._english_words[terms] & (occurrences >= 2) & ~np.isin(keys, words.keys)
        places = np.flatnonzero(fresh)
        # The order of Anserini's three maps: words of a document, words of all documents, features.
        hashed = java_maps.hashes(self.index.terms, terms[places])
        rows = counts.rows[first[places]]
        sizes = np.bincount(counts.rows, minlength=len(counts.scores))
        vocabulary, features = (np.bincount(numbers, minlength=len(lists)) for numbers in (queries, queries[places]))
        order = np.lexsort(
            (
                java_maps.buckets(hashed, sizes[rows]),
                rows,
                java_maps.buckets(hashed, vocabulary[queries[places]]),
                java_maps.buckets(hashed, features[queries[places]]),
                queries[places],
            )
        )
        places = places[order]
        weights = self._relevance_weights(terms[places], occurrences[places], held[queries[places]], prf.new_term_weight)
        offers = (weights * np.log(occurrences[places].astype(np.float64))).astype(np.float32)
        best = _best(queries[places], offers, prf.terms)
        chosen = keys[places[best]]
        where = np.searchsorted(keys, words.keys)
        query_term_occurrences = np.zeros(len(where), dtype=np.int64)
        inside = where < len(keys)
        inside[inside] = keys[where[inside]] == words.keys[inside]
        query_term_occurrences[inside] = occurrences[where[inside]]
        own = self._relevance_weights(words.keys % size, query_term_occurrences, held[words.keys // size], 1.0)
        nowhere = np.zeros(len(words.unknown_owners), dtype=np.int64)
        unknown = self._relevance_weights(None, nowhere, held[words.unknown_owners], 1.0)
        all_keys = np.concatenate([words.keys, chosen])
        all_weights = np.concatenate([own, weights[best]]).astype(np.float32)
        order = np.argsort(all_keys)
        return words.split(all_keys[order], all_weights[order], unknown.astype(np.float32))

    def _relevance_weights(
        self, terms: Numbers | None, occurrences: Numbers, held: Numbers, weight: float
    ) -> NDArray[np.float64]:
        """Robertson & Sparck Jones' weights of terms (None: unknown ones) by `occurrences` in the `held` feedback documents."""
        df = np.zeros(len(occurrences)) if terms is None else np.asarray(self.index.df[terms], dtype=np.float64)
        inside = (occurrences + 0.5) * (self._documents - df - held + occurrences + 0.5)
        odds = inside / ((df - occurrences + 0.5) * (held - occurrences + 0.5))
        # Deleted documents count in df, so the odds may be negative; such a word gets the smallest weight.
        return np.maximum(np.log(np.where(odds > 0, odds, 1.0)) * float(np.float32(weight)), FLOOR)

    def _counts(self, lists: Sequence[Candidates], docs: int, usable: NDArray[np.bool_] | None) -> _Counts:
        """Term frequencies of the first `docs` documents of each list, usable terms only."""
        sizes = np.array([min(ranked.depth, docs) for ranked in lists], dtype=np.int64)
        chosen = np.concatenate([ranked.docs[:docs] for ranked in lists])
        scores = np.concatenate([np.asarray(ranked.scores[:docs], dtype=np.float32) for ranked in lists])
        owners = np.repeat(np.arange(len(lists)), sizes)
        ranks = np.arange(len(chosen)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        indptr, places = self.index.gather(chosen)
        rows = np.repeat(np.arange(len(chosen)), np.diff(indptr))
        terms = self.index.indices[places]
        if usable is not None:
            selected = np.flatnonzero(usable[terms])
            rows, terms, places = rows[selected], terms[selected], places[selected]
        frequencies = self.index.frequencies[places].astype(np.float32)
        return _Counts(rows, terms, frequencies, scores, owners, ranks)

    def _strongest_of_documents(self, counts: _Counts, keep: int) -> _Counts:
        """The `keep` most frequent terms of each document, ties in alphabetical order."""
        if not len(counts.rows) or np.bincount(counts.rows).max() <= keep:
            return counts
        order = _ordered(counts.rows, counts.frequencies, None if self._ranks is None else self._ranks[counts.terms])
        rows = counts.rows[order]
        selected = order[_places(rows) < keep]
        return counts._replace(
            rows=counts.rows[selected], terms=counts.terms[selected], frequencies=counts.frequencies[selected]
        )

    def _sums(self, counts: _Counts, values: Singles) -> _Model:
        """The sum of each query's values by term, added in the order of the list in single precision."""
        size = len(self.index.terms)
        keys, slots = np.unique(counts.keys(size), return_inverse=True)
        table = np.zeros((int(counts.ranks.max(initial=-1)) + 1, len(keys)), dtype=np.float32)
        table[counts.ranks[counts.rows], slots] = values
        total = np.zeros(len(keys), dtype=np.float32)
        for row in table:
            total += row
        return _Model(keys // size, keys % size, total)

    def _cut(self, model: _Model, keep: int) -> _Model:
        """The `keep` heaviest terms of each query, best first, ties in alphabetical order."""
        best = _best(model.queries, model.values, keep, None if self._ranks is None else self._ranks[model.terms])
        return _Model(model.queries[best], model.terms[best], model.values[best])

    def _scaled(self, model: _Model, power: int) -> tuple[Numbers, Singles]:
        """The model with its values divided by their norm, added up in a HashMap's order: (keys, weights)."""
        size, queries = len(self.index.terms), int(model.queries.max(initial=-1)) + 1
        held = np.bincount(model.queries, minlength=queries)
        bucket = java_maps.buckets(java_maps.hashes(self.index.terms, model.terms), held[model.queries])
        order = np.lexsort((bucket, model.queries))
        table = np.zeros((queries, int(held.max(initial=0))))
        table[model.queries[order], _places(model.queries)] = model.values[order].astype(np.float64) ** power
        norms = np.cumsum(table, axis=1)[:, -1] if table.size else np.zeros(queries)
        if power == 2:
            norms = np.sqrt(norms)
        # A model whose documents all score 0 has nothing to say; Anserini would ask Lucene for weights that aren't numbers.
        selected = norms[model.queries] > 0
        values = (model.values[selected] / norms[model.queries[selected]]).astype(np.float32)
        return model.queries[selected] * size + model.terms[selected], values


class _Counts(NamedTuple):
    """Postings of feedback documents: `rows` number the documents; `scores`, `owners` (query) and `ranks` are by document."""

    rows: Numbers
    terms: NDArray[np.int32]
    frequencies: Singles
    scores: Singles
    owners: Numbers
    ranks: Numbers

    def keys(self, size: int) -> Numbers:
        """One number for each posting's query and term."""
        return self.owners[self.rows] * size + self.terms


class _Model(NamedTuple):
    """Values of terms of queries, queries ascending."""

    queries: Numbers
    terms: Numbers
    values: Singles


class _OwnWeights(NamedTuple):
    known: Singles
    unknown: Singles


@dataclass(frozen=True, eq=False)
class _QueryWords:
    """The words of queries: keys (query, term) and weights of known ones, ascending; strings and weights of unknown ones."""

    size: int
    queries: int
    keys: Numbers
    weights: NDArray[np.float64]
    unknown_words: list[str]
    unknown_owners: Numbers
    unknown_weights: NDArray[np.float64]

    @classmethod
    def of(cls, index: ForwardIndex, queries: Sequence[Query]) -> _QueryWords:
        words = [word for query in queries for word in query.terms]
        weights = np.array([weight for query in queries for weight in query.weights], dtype=np.float64)
        owners = np.repeat(np.arange(len(queries)), [len(query.terms) for query in queries])
        terms = index.term_ids(words).astype(np.int64)
        known, unknown = np.flatnonzero(terms >= 0), np.flatnonzero(terms < 0)
        keys = owners[known] * len(index.terms) + terms[known]
        order = np.argsort(keys, kind="stable")
        strings = [words[place] for place in unknown.tolist()]
        return cls(
            len(index.terms), len(queries), keys[order], weights[known[order]], strings, owners[unknown], weights[unknown]
        )

    def over_norm(self, power: int) -> _OwnWeights:
        """The weights divided by each query's L1 or L2 norm."""
        norms = np.zeros(self.queries)
        np.add.at(norms, self.keys // self.size, self.weights**power)
        np.add.at(norms, self.unknown_owners, self.unknown_weights**power)
        norms = np.maximum(norms ** (1.0 / power) if power > 1 else norms, np.finfo(np.float64).tiny)
        return _OwnWeights(
            (self.weights / norms[self.keys // self.size]).astype(np.float32),
            (self.unknown_weights / norms[self.unknown_owners]).astype(np.float32),
        )

    def split(self, keys: Numbers, weights: Singles, unknown: Singles, *, positive: bool = False) -> list[FeedbackQuery]:
        """The expansions of all queries from ascending keys and their weights."""
        bounds = np.searchsorted(keys, np.arange(self.queries + 1) * self.size)
        terms = keys % self.size if self.size else keys
        others: list[dict[str, float]] = [{} for _ in range(self.queries)]
        for word, owner, weight in zip(self.unknown_words, self.unknown_owners.tolist(), unknown.tolist(), strict=True):
            if weight > 0 or not positive:
                others[owner][word] = weight
        return [
            FeedbackQuery(terms[start:end], weights[start:end], rest)
            for start, end, rest in zip(bounds[:-1].tolist(), bounds[1:].tolist(), others, strict=True)
        ]


def _together(size: int, vectors: Sequence[tuple[Numbers, Singles]]) -> tuple[Numbers, list[Singles]]:
    """The union of the keys of sparse vectors, ascending, and each vector over it."""
    keys, slots = np.unique(np.concatenate([keys for keys, _ in vectors]), return_inverse=True)
    out, start = [], 0
    for own, values in vectors:
        dense = np.zeros(len(keys), dtype=np.float32)
        dense[slots[start : start + len(own)]] = values
        out.append(dense)
        start += len(own)
    return keys, out


def _places(groups: Numbers) -> Numbers:
    """Each entry's place within its group; groups are ascending."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups)


def _ordered(groups: Numbers, values: Singles, ranks: Numbers | None = None) -> Numbers:
    """The order of group, then value descending, then `ranks`, by default the present order."""
    return np.lexsort((-values, groups)) if ranks is None else np.lexsort((ranks, -values, groups))


def _best(groups: Numbers, values: Singles, keep: int, ranks: Numbers | None = None) -> Numbers:
    """The `keep` highest of each group in their order."""
    order = _ordered(groups, values, ranks)
    return order[_places(groups[order]) < keep]


def _bytes(allowed: bytes) -> NDArray[np.bool_]:
    mask = np.zeros(256, dtype=bool)
    mask[list(allowed)] = True
    return mask
