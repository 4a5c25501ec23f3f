"""Local context analysis: words that co-occur with all query terms in the best documents.

Xu & Croft, "Query Expansion Using Local and Global Document Analysis" (SIGIR 1996), section 3.2, with the two corrections of
their "Improving the Effectiveness of Information Retrieval with Local Context Analysis" (ACM TOIS 2000), section 4: a word that
never co-occurs has a logarithm (of 1), and idf is at most 1. Concepts are single words, and the passages are whole documents.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels.relevance import Floats, Words, usable_frequencies

#: δ of the formula: what a query term counts for a word that never co-occurs with it.
DELTA = 0.1


def idf(forward: ForwardIndex, terms: NDArray[np.integer]) -> Floats:
    """min(1, log10(N / N_t) / 5) of each of `terms`, by their document frequencies in `forward`, shape (terms,)."""
    frequencies = np.maximum(np.asarray(forward.df[terms], dtype=np.float64), 1.0)
    return np.minimum(1.0, np.log10(max(forward.statistics.documents, 1) / frequencies) / 5.0)


def beliefs(
    forward: ForwardIndex,
    docs: NDArray[np.integer],
    query_terms: NDArray[np.integer],
    usable: NDArray[np.bool_],
    delta: float = DELTA,
) -> Words:
    """The usable words of the documents with f(c, Q) = Π_i (δ + log10(co(c, w_i) + 1) · idf(c) / log10 n)^idf(w_i).

    co(c, w) = Σ_d tf(c, d) · tf(w, d) over the n documents, the rows `docs` of `forward`; `query_terms` (q,) are the numbers of
    the query's terms w_i, `usable` (terms,) says which terms of the index may be words c, `delta` is δ.
    """
    rows, terms, frequencies = usable_frequencies(forward, docs, usable)
    words, slots = np.unique(terms, return_inverse=True)
    of_query = forward.term_frequencies(docs, query_terms).astype(np.float64)[rows]
    together = np.stack([np.bincount(slots, frequencies * column, len(words)) for column in of_query.T], axis=1)
    # One document has no co-occurrence to compare with others; log10 2 replaces the logarithm of 1, which is 0.
    degree = np.log10(together + 1.0) * idf(forward, words)[:, None] / np.log10(max(len(docs), 2))
    return Words(words, np.asarray(np.exp(np.log(delta + degree) @ idf(forward, query_terms))))


def rank_weights(count: int) -> Floats:
    """The weights of the added words, best first: 1 - .9 · i / m for the i-th of m, from 0; shape (count,)."""
    return np.asarray(1.0 - 0.9 * np.arange(count) / max(count, 1))
