"""Similar queries of a click log: by the clicks they share, and by their text.

Click neighbours come from the log's index by document. Text neighbours come from a FAISS index over the character n-grams and
terms of all clicked queries, and are then compared exactly. The FAISS index and the rows of the log's documents are saved
beside the index. Where vectors are used, the nearest queries by their vectors are candidates too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.clicks.importing import import_log, is_database
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core import artefacts, invariants
from kernelsearch.core.caching import once_per_object
from kernelsearch.core.errors import ArtefactError, ClickLogError, Flag, InputError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels.queries import (
    NgramCosine,
    Queries,
    TermCosine,
    TextKernel,
    click_correlation,
    compact,
    pearson_of_sums,
)
from kernelsearch.neighbours import SparseNeighbours
from kernelsearch.neighbours.sparse import LISTS
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.rbm25.query_vectors import LoggedQueryVectors
from kernelsearch.vectors.opened import Vectors

KIND, VERSION = "similar queries", 2
#: Queries per block of features while the FAISS index is built.
BLOCK = 20_000
#: Number of queries that the frequencies of n-grams and terms are estimated from.
SAMPLE = 100_000
#: Text neighbours searched per neighbour wanted, and at least: FAISS's order is approximate.
OVERSAMPLING, AT_LEAST = 5, 100
#: Documents of its list that a query without clicks uses as if they had been clicked.
BORROWED = 10


@dataclass(frozen=True)
class QueryKernel:
    """k_Q = Σ c_i k_i (Theorem 4), by the weights c_i of its kernels.

    Parameters
    ----------
    clicks : weight of the correlation of clicks
    ngrams, terms : weights of the cosines of character 3-grams and of terms
    vectors : vectors whose query vectors are compared, with the weight 1; None: none
    correlation : the correlation of two batches of clicks, shapes (queries, documents of the log)
    borrowed : number of listed documents that a query without clicks uses as if they had been clicked
    further : more kernels of texts with their weights
    """

    clicks: float = 1.0
    ngrams: float = 0.5
    terms: float = 0.5
    vectors: Vectors | None = None
    correlation: Callable[[sparse.csr_matrix, sparse.csr_matrix], NDArray[np.float64]] = click_correlation
    borrowed: int = BORROWED
    further: tuple[tuple[float, TextKernel], ...] = ()


@dataclass(frozen=True)
class Similar:
    """The similar queries of one query, most similar first.

    `ids` (n,) are the log's numbers; `kernel` (n,) is k_Q(q, q_i) and `gram` (n, n) is k_Q(q_i, q_j); `by_clicks` and `by_text`
    (n,) are its parts before weighting (text: the mean of n-grams and terms); `own` is the log's number of the query itself
    where it has clicks, else -1; `agreement` is the correlation of the nearest query's clicks with those of the next three, on
    average.
    """

    ids: NDArray[np.int64]
    queries: tuple[Query, ...]
    kernel: NDArray[np.float64]
    gram: NDArray[np.float64]
    by_clicks: NDArray[np.float64]
    by_text: NDArray[np.float64]
    own: int
    agreement: float


class CachedTerms:
    """Term statistics of the index `forward` with an LRU cache of term numbers: similar queries have the same terms."""

    def __init__(self, forward: ForwardIndex) -> None:
        self.df, self.statistics = forward.df, forward.statistics
        self._find = lru_cache(maxsize=1 << 18)(forward.terms.find_sorted)

    def term_ids(self, terms: Sequence[str]) -> NDArray[np.int32]:
        """Term numbers, -1 for terms that the index doesn't have."""
        return np.fromiter((self._find(term) for term in terms), dtype=np.int32, count=len(terms))


cached_terms = once_per_object(CachedTerms)


def validate(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError or KeyError for an index of queries whose `arrays` have numbers out of range; `meta` isn't used."""
    invariants.require_range("rows", arrays["rows"], -1, 2**31 - 1)
    invariants.require_range("queries", arrays["queries"], 0, 2**63)
    invariants.require_range("frequencies", arrays["frequencies"], 0, 2**31)
    invariants.require_length("frequencies", arrays["frequencies"], LISTS)


class SavedQueries:
    """What is saved of a log's clicked queries, memory-mapped from the folder `path`; another `fingerprint` is refused.

    - `ids` (queries,): their numbers in the log, in the order of `near`, the FAISS index over their features
    - `rows` (documents of the log + 1,): row of each of its documents in the index, -1 if it has none; number 0 is none
    - `stamp`: the state of the log that they were made from
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        meta, arrays = artefacts.load(path, KIND, VERSION, fingerprint=fingerprint, validate=validate)
        self.stamp: dict[str, Any] = meta["parameters"]
        self.rows: NDArray[np.int32] = arrays["rows"]
        self.ids: NDArray[np.int64] = arrays["queries"]
        self.near = SparseNeighbours.load(path / "queries.faiss", arrays["frequencies"], len(self.ids))


class SimilarQueries:
    """Finds similar queries in a click log.

    Parameters
    ----------
    index, log : the index that analyses queries, and the click log
    kernel : k_Q
    least : queries whose kernel value is not above this are left out
    """

    def __init__(self, index: OpenedIndex, log: ClickLog, kernel: QueryKernel | None = None, *, least: float = 0.0) -> None:
        self.index, self.log, self.kernel, self.least = index, log, kernel or QueryKernel(), least
        self.vocabulary = cached_terms(index.forward)
        self._ngrams, self._terms = NgramCosine(), TermCosine()
        # The first two are always computed, whatever their weight: `Similar.by_text` is their mean.
        self._text: list[tuple[float, TextKernel]] = [
            (self.kernel.ngrams, self._ngrams),
            (self.kernel.terms, self._terms),
            *self.kernel.further,
        ]
        folder = index.artefacts / f"similar-queries-{_key(log.path)}"
        try:
            self._saved = index.opened(SavedQueries, folder, index.fingerprint)
            if self._saved.stamp != self._stamp():
                raise ArtefactError("built for an earlier state of the log", path=folder)
        except ArtefactError:
            self._build(folder)
            self._saved = index.opened(SavedQueries, folder, index.fingerprint)
        self.rows = self._saved.rows
        self._vectors: LoggedQueryVectors | None = None
        if vectors := self.kernel.vectors:
            self._vectors = LoggedQueryVectors(
                index, log, vectors, self._stamp(), folder.with_name(f"{folder.name}-{vectors.name}")
            )
        # The inverse: the number in the log of each row of the index, 0 if it isn't in the log.
        self._numbers = np.zeros(len(index.forward), dtype=np.int64)
        present = np.flatnonzero(self.rows >= 0)
        self._numbers[self.rows[present]] = present

    def _stamp(self) -> dict[str, object]:
        file = self.log.path.stat()
        return {"generation": self.log.generation, "size": file.st_size, "modified": file.st_mtime_ns}

    def _build(self, folder: Path) -> None:
        ids: list[NDArray[np.int64]] = []

        def blocks() -> Iterator[sparse.csr_matrix]:
            stream = iter(self.log.all_queries())
            while block := list(islice(stream, BLOCK)):
                numbers, texts = zip(*block, strict=True)
                ids.append(np.array(numbers, dtype=np.int64))
                yield self._features(texts)

        # Number 0 is no document of the log.
        rows = np.concatenate([[-1], check_log(self.index, self.log, str(self.log.path))]).astype(np.int32)
        count = self.log.clicked_queries()
        sample = [text for _, text in self.log.all_queries(every=count // SAMPLE + 1)]
        near = SparseNeighbours.build(self._features(sample), blocks(), count)
        artefacts.save(
            folder,
            KIND,
            VERSION,
            arrays={"queries": np.concatenate(ids), "rows": rows, "frequencies": near.frequencies},
            parameters=self._stamp(),
            fingerprint=self.index.fingerprint,
            fill=lambda where: near.save(where / "queries.faiss"),
        )

    def _features(self, texts: Sequence[str]) -> sparse.csr_matrix:
        return self._text_features(Queries.make(self.index.lucene.queries(texts), self.vocabulary))

    def _text_features(self, queries: Queries) -> sparse.csr_matrix:
        """Features of both text kernels side by side: their inner product is the sum of the kernels."""
        return sparse.hstack([self._ngrams.features(queries), self._terms.features(queries)], format="csr")

    def find(self, queries: Sequence[Query], count: int, lists: Sequence[Candidates] | None = None) -> list[Similar]:
        """At most `count` similar queries per query; a query that is in the log with clicks is one of its own.

        A query without clicks uses the best documents of its list in `lists` as if they had been clicked: so queries are found
        that share no term with it, but whose users clicked what it retrieves.
        """
        if not queries:
            return []
        own_ids = self.log.query_ids([query.text for query in queries])
        own = self._clicks(own_ids)
        incoming = Queries.make(queries, self.vocabulary, own if lists is None else self._with_borrowed(own, lists))
        neighbours = self._saved.near.search(self._text_features(incoming), max(OVERSAMPLING * count, AT_LEAST))
        candidates = [
            np.union1d(self._saved.ids[near], self._by_clicks(incoming.clicks[place], OVERSAMPLING * count))
            for place, near in enumerate(neighbours)
        ]
        if self._vectors is not None:
            directions = self._vectors.unit(queries)
            near_vectors = self._vectors.saved.nearest(directions, max(OVERSAMPLING * count, AT_LEAST))
            candidates = [np.union1d(ids, near) for ids, near in zip(candidates, near_vectors, strict=True)]
        candidate_ids = np.unique(np.concatenate(candidates))
        analysed = self.index.lucene.queries(self.log.query_texts(candidate_ids))
        logged = Queries.make(analysed, self.vocabulary, self._clicks(candidate_ids))
        # All features once for the batch; a query then only takes its rows.
        text = [compact(kernel.features(incoming), kernel.features(logged)) for _, kernel in self._text]
        out = []
        for place, ids in enumerate(candidates):
            others = np.searchsorted(candidate_ids, ids)
            clicks = self.kernel.correlation(incoming.clicks[place], logged.clicks[others])[0]
            cosines = [(b[others] @ a[place].T).toarray().ravel() for a, b in text]
            values = self.kernel.clicks * clicks
            for (weight, _), cosine in zip(self._text, cosines, strict=True):
                values += weight * cosine
            if self._vectors is not None:
                values += self._vectors.saved.take(ids) @ directions[place]
            order = np.lexsort((ids, -values))[:count]
            order = order[values[order] > max(self.least, 0.0)]
            nearest = others[order]
            correlations = self.kernel.correlation(logged.clicks[nearest], logged.clicks[nearest])
            out.append(
                Similar(
                    ids[order],
                    tuple(analysed[number] for number in nearest.tolist()),
                    values[order],
                    self._gram(correlations, [b[nearest] for _, b in text], ids[order]),
                    clicks[order],
                    (cosines[0] + cosines[1])[order] / 2,
                    int(own_ids[place]) if own[place].nnz else -1,
                    float(correlations[0, 1:4].mean()) if len(nearest) > 1 else 0.0,
                )
            )
        return out

    def _gram(
        self, correlations: NDArray[np.float64], text: list[sparse.csr_matrix], ids: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """k_Q between similar queries."""
        gram = self.kernel.clicks * correlations
        for (weight, _), features in zip(self._text, text, strict=True):
            gram += weight * (features @ features.T).toarray()
        if self._vectors is not None:
            rows = self._vectors.saved.take(ids).astype(np.float64)
            gram += rows @ rows.T
        return gram

    def _by_clicks(self, own: sparse.csr_matrix, count: int) -> NDArray[np.int64]:
        """Queries whose clicks correlate most with these clicks, shape (1, documents of the log)."""
        if not own.nnz:
            return np.empty(0, dtype=np.int64)
        numbers = own.indices + 1  # the log numbers documents from 1
        queries, docs, clicks = self.log.clicking(numbers)
        others, place = np.unique(queries, return_inverse=True)
        order = np.argsort(numbers)
        shared = clicks * own.data[order][np.searchsorted(numbers[order], docs)]
        products = np.bincount(place, weights=shared, minlength=len(others)).astype(np.float64)
        sums, squares = self.log.moments(others)
        mine = np.array([own.data.sum()]), np.array([(own.data**2).sum()])
        values = pearson_of_sums(products, (mine[0], sums), (mine[1], squares), self.log.documents)
        return others[np.lexsort((others, -values))[:count]]

    def _with_borrowed(self, own: sparse.csr_matrix, lists: Sequence[Candidates]) -> sparse.csr_matrix:
        """Clicks by document, with the best documents of a list and their scores where a query has none."""
        rows, docs, values = [], [], []
        for place in np.flatnonzero(own.getnnz(axis=1) == 0).tolist():
            best = slice(self.kernel.borrowed)
            borrowed = Candidates(lists[place].docs[best], lists[place].scores[best])
            numbers = self._numbers[borrowed.docs]
            known = (numbers > 0) & (borrowed.scores > 0)
            rows.append(np.full(int(known.sum()), place))
            docs.append(numbers[known] - 1)
            values.append(borrowed.scores[known].astype(np.float64))
        if not rows:
            return own
        entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(docs)))
        return own + sparse.csr_matrix(entries, shape=own.shape)

    def _clicks(self, ids: NDArray[np.int64]) -> sparse.csr_matrix:
        """Clicks of queries by document, shape (queries, documents of the log); nothing for number -1.

        The column of a document is its number in the log minus 1: a further column would be a document that nobody clicked, and
        change every correlation.
        """
        known, places = np.unique(ids, return_inverse=True)
        shown = self.log.shown(known[known >= 0], clicked_only=True)
        indptr = np.searchsorted(shown.queries, np.append(known, known[-1] + 1 if len(known) else 0))
        table = sparse.csr_matrix((shown.clicks, shown.docs - 1, indptr), shape=(len(known), self.log.documents))
        return table[places]


def _key(path: Path) -> str:
    return hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]


def check_log(index: OpenedIndex, log: ClickLog, source: str) -> NDArray[np.integer]:
    """The row in the index of each document of a log, -1 where it has none; shape (documents of the log,).

    Raises InputError, which names `source`, for a log without clicks and for one without a document of this index.
    """
    if not log.clicked_queries():
        raise InputError("no query of this log was ever clicked", path=source)
    rows = index.forward.rows_of(log.docids())
    if not (rows >= 0).any():
        raise InputError(
            f"none of its {len(rows)} documents is in {index.name} (docids such as {log.docids()[0]!r})", path=source
        )
    return rows


def open_log(index: OpenedIndex, log: str | None, owner: str = "rbm25", option: str = "clicks") -> ClickLog:
    """Opens a click log: a database, a log file (imported beside the index at first use), or for None the index's own.

    Raises InputError, which names the `option` of the method `owner`, where there is none; ClickLogError for a damaged one.
    """
    if log is None:
        path = index.artefacts / "clicks.db"
        if not path.exists():
            raise InputError(
                f"{index.name}: no click log belongs to this index; name one with ",
                Flag("clicks", owner),
                f", or import one with python -m kernelsearch.train {index.shards.flags} --rerank {owner} --clicks LOG",
            )
        return _shared(index, path)
    path = Path(log)
    if not path.is_file():
        raise InputError("no such file", option=Flag(option, owner), path=path)
    if is_database(path):
        return _shared(index, path)
    file = path.stat()
    state = f"{path.absolute()} {file.st_size} {file.st_mtime_ns}"
    stored = index.artefacts / f"clicks-{hashlib.sha256(state.encode()).hexdigest()[:12]}.db"
    if not stored.exists():
        try:
            import_log([path], stored)
        except InputError as problem:
            raise ClickLogError(problem) from None
    return _shared(index, stored)


def _shared(index: OpenedIndex, database: Path) -> ClickLog:
    """The opened database that other methods use, too, unless records have been added since."""
    log = index.opened(ClickLog, database)
    return ClickLog(database) if log.changed() else log
