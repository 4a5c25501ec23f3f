"""Whether a query is ranked by words alone although it has a vector.

A query for a known document consists of words that this document contains, and an encoder of meanings does not find it. Such a
query is recognised by the documents themselves: the first document by words contains nearly all of the query's words, and the
nearest ones by vectors contain few of them. Judged by one or two words this would be chance.

`python -m tools.reproduce.vectors_weights` measures known items with and without this decision (docs/reproductions/vectors.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels.tfidf import vocabulary_idf

#: How much more of the query the first document by words must contain than the NEAREST ones by vectors do on average, and the
#: fewest terms of such a query.
LEAD, NEAREST, FEWEST_TERMS = 0.6, 5, 3
#: More than the rounding errors of a share.
ROUNDING = 1e-9


def coverage(forward: ForwardIndex, query: Query, docs: NDArray[np.integer]) -> NDArray[np.float64]:
    """The share of the query's terms, weighted by idf, that each document contains, shape (docs,).

    `docs` are rows of `forward`. A term that no document contains weighs as much as the rarest one.
    """
    if not query.terms:
        return np.zeros(len(docs))
    terms, idf = forward.term_ids(query.terms), vocabulary_idf(forward)
    weights = np.asarray(query.weights, dtype=np.float64) * np.where(terms >= 0, idf[terms], idf.max())
    return np.asarray((forward.term_frequencies(docs, terms) > 0) @ weights / weights.sum())


def may_lead(forward: ForwardIndex, query: Query, listed: NDArray[np.integer]) -> bool:
    """Whether `words_lead` can be decisive, whatever the nearest documents are: the first one of `listed` contains enough.

    The other parameters are those of `words_lead`. Where it can't, nobody needs to look for the nearest documents.
    """
    if len(query.terms) < FEWEST_TERMS or not len(listed):
        return False
    return bool(coverage(forward, query, listed[:1])[0] > LEAD - ROUNDING)


def words_lead(forward: ForwardIndex, query: Query, listed: NDArray[np.integer], near: NDArray[np.integer]) -> float | None:
    """How much more of the query the first document of `listed` contains than the nearest ones `near`, where that is decisive.

    `listed` are rows of `forward` in the first stage's order, `near` rows in the order of vectors; None where it is not
    decisive.
    """
    if len(query.terms) < FEWEST_TERMS or not len(listed) or not len(near):
        return None
    shares = coverage(forward, query, np.concatenate([listed[:1], near[:NEAREST]]))
    lead = float(shares[0] - shares[1:].mean())
    return lead if lead > LEAD else None
