"""Whether a query is ranked by words alone although it has a vector.

A query for a known document consists of words that this document contains, and an encoder of meanings does not find it. Such a
query is recognised by the documents themselves, in two ways:

- The nearest documents by vectors are much less near to the query than documents are to each other
  (`kernelsearch.vectors.nearness`), so the encoder doesn't represent the query well, and the first document by words contains
  nearly all of it.
- The nearest documents by vectors are a little less near than usual, and the first document by words contains far more of the
  query's words than they do. Judged by one or two words this would be chance.

`python -m tools.reproduce.vectors_weights` measures known items with and without this decision (docs/reproductions/vectors.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels.tfidf import vocabulary_idf

#: A nearness of the nearest documents by vectors below which the encoder doesn't represent the query, and the share of the
#: query that the first document by words must then contain.
FAR, CONTAINED = 0.75, 0.9

#: The usual nearness. Below it, how much more of the query the first document by words must contain than the NEAREST ones by
#: vectors do on average, and the fewest terms of such a query.
USUAL, LEAD, NEAREST, FEWEST_TERMS = 1.0, 0.6, 5, 3

#: More than the rounding errors of a share.
ROUNDING = 1e-9


def coverage(forward: ForwardIndex, query: Query, docs: NDArray[np.integer]) -> NDArray[np.float64]:
    """The share of the query's terms, weighted by idf, that each document contains, shape (docs,).

    `docs` are rows of `forward`. A term that no document contains weighs as much as the rarest one.
    """
    if not query.terms:
        return np.zeros(len(docs))
    terms, idf = forward.term_ids(query.terms), vocabulary_idf(forward)
    known = terms >= 0
    weights = np.asarray(query.weights, dtype=np.float64) * np.where(known, idf[terms], 0.0 if known.all() else idf.max())
    # Of a few documents, for which a table of the vocabulary, as the features of many documents share one, would take longer.
    contained = np.array([_contains(forward, int(doc), terms) for doc in docs]).reshape(len(docs), len(terms))
    return np.asarray(contained @ weights / weights.sum())


def _contains(forward: ForwardIndex, doc: int, terms: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which of `terms` the document in row `doc` has, shape (terms,)."""
    row = forward.indices[int(forward.indptr[doc]) : int(forward.indptr[doc + 1])]  # ascending
    if not len(row):
        return np.zeros(len(terms), dtype=bool)
    return np.asarray(row.take(row.searchsorted(terms), mode="clip") == terms)


def may_decide(forward: ForwardIndex, query: Query, listed: NDArray[np.integer]) -> bool:
    """Whether `words_decide` can be decisive, whatever the nearest documents are: the first one of `listed` contains enough.

    The other parameters are those of `words_decide`. Where it can't, nobody needs to look for the nearest documents.
    """
    return bool(len(listed) and coverage(forward, query, listed[:1])[0] > min(LEAD, CONTAINED) - ROUNDING)


def words_decide(
    forward: ForwardIndex,
    query: Query,
    listed: NDArray[np.integer],
    near: NDArray[np.integer],
    nearness: float | None,
) -> str | None:
    """Why words alone should rank `query`, for a person to read; None if vectors should be used, too.

    `listed` are rows of `forward` in the first stage's order, `near` rows in the order of vectors; `nearness` is that of the
    latter, None where it is not known.
    """
    if not len(listed) or not len(near):
        return None
    shares = coverage(forward, query, np.concatenate([listed[:1], near[:NEAREST]]))
    first, lead = float(shares[0]), float(shares[0] - shares[1:].mean())
    if nearness is not None and nearness < FAR and first > CONTAINED - ROUNDING:
        return (
            f"the first document by words contains {100 * first:.0f} % of the query, and its nearest documents by vectors are "
            f"not near: {nearness:.2f} times what is usual between documents"
        )
    if lead > LEAD and len(query.terms) >= FEWEST_TERMS and (nearness is None or nearness < USUAL):
        return (
            f"the first document by words contains {100 * lead:.0f} percentage points more of the query than "
            "the nearest ones by vectors"
        )
    return None
