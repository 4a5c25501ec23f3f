"""The folds of every cross-validation in the package: seeded, by query, sizes equal up to one.

scikit-learn's KFold and GroupKFold cut a shuffled list into consecutive pieces, which gives other folds than those behind the
published figures; a shuffled list whose items go to the folds in turn is three lines.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelsearch.core.errors import Flag, OptionError


def assign_folds(queries: int, folds: int, seed: int = 0) -> NDArray[np.int64]:
    """A random fold (from 0), drawn with `seed`, for each query, shape (queries,), where `queries` is their number.

    Raises OptionError for more folds than queries.
    """
    if folds > queries:
        raise OptionError(f"{folds}, but there are only {queries} judged topics", option=Flag("folds"))
    assigned = np.empty(queries, dtype=np.int64)
    assigned[np.random.default_rng(seed).permutation(queries)] = np.arange(queries) % folds
    return assigned


def topic_folds(qids: ArrayLike, folds: int, seed: int = 0) -> NDArray[np.int64]:
    """The fold (from 0) of each row, shape (rows,), by its query's id in `qids` (rows,); an id may occur many times.

    Queries are numbered in the sorted order of their ids, so that a topic is in the same fold in every part of the package,
    whatever the order of the file; numbers are compared as numbers, other ids as strings. `folds` is their number, `seed` draws
    them; raises OptionError for more folds than queries.
    """
    names, numbers = np.unique(np.asarray(qids), return_inverse=True)
    return assign_folds(len(names), folds, seed)[numbers]


def query_folds(qid: ArrayLike, folds: int, seed: int = 0) -> list[NDArray[np.bool_]]:
    """Masks of the rows that each fold holds out, each of shape (rows,); `qid` (rows,) names each row's query.

    All rows of a query are in one fold, that of `topic_folds`, whose `folds`, `seed` and errors these are.
    """
    assigned = topic_folds(qid, folds, seed)
    return [assigned == fold for fold in range(folds)]


def related_groups(relevant: Sequence[Collection[str]], largest: int) -> NDArray[np.int64]:
    """A group (from 0) per query, shape (queries,): queries with common relevant documents are in one group where it fits.

    `relevant` are the relevant documents of each query. Pairs of queries are joined in the order of their overlap (Jaccard),
    the largest first, unless a group would have more than `largest` queries: chains of pairs often connect nearly all topics
    of a collection, and a fold that holds all of them leaves none to learn from.
    """
    from scipy import sparse

    numbers: dict[str, int] = {}
    columns = [numbers.setdefault(docid, len(numbers)) for docids in relevant for docid in set(docids)]
    sizes = np.array([len(set(docids)) for docids in relevant], dtype=np.int64)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    incidence = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(sizes), max(len(numbers), 1)))
    common = sparse.triu(incidence @ incidence.T, k=1).tocoo()
    overlap = common.data / (sizes[common.row] + sizes[common.col] - common.data)
    group, members = list(range(len(sizes))), [[number] for number in range(len(sizes))]
    order = np.lexsort((common.col, common.row, -overlap))
    for first, second in zip(common.row[order].tolist(), common.col[order].tolist(), strict=True):
        into, out = group[first], group[second]
        if into != out and len(members[into]) + len(members[out]) <= largest:
            for number in members[out]:
                group[number] = into
            members[into] += members[out]
            members[out] = []
    return np.unique(group, return_inverse=True)[1].astype(np.int64)
