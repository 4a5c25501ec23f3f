"""How much of the documents' texts their vectors have seen: encoders cut texts, and documents may lack a vector."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelsearch.vectors.store import DocumentVectors

#: Word pieces of an encoder per term of an index, which has no stop words: 1.8 to 2.05 on six English collections, whose texts
#: have 1.15 to 1.57 pieces per word (all-MiniLM-L6-v2's tokenizer; docs/reproductions/vectors.md, "Long documents").
PIECES_PER_TERM = 1.9


def read_shares(documents: DocumentVectors, lengths: NDArray[np.integer]) -> NDArray[np.float64]:
    """The share of each document's text that its encoder has read, for documents with a vector, shape (such documents,).

    `lengths` are the documents' lengths in terms, shape (rows,).
    """
    pieces = PIECES_PER_TERM * np.asarray(lengths)[documents.present]
    limit = documents.max_tokens
    return np.minimum(1.0, limit / np.maximum(pieces, 1.0)) if limit else np.ones(len(pieces))


def reliability(documents: DocumentVectors, lengths: NDArray[np.integer], live: NDArray[np.bool_]) -> float:
    """What the z-scores of vectors that have seen a part of the texts say about all texts: a factor of at most 1.

    If a text consists of n equal parts with independent scores, the correlation between the score of a part and the mean of all
    is sqrt(1/n). The expected z-score of the whole text is then the part's, times the square root of the share that was read;
    the factor is the mean of these square roots, 1 without documents. Nothing was read of a document without a vector, unless
    it is deleted. `documents` and `lengths` are those of `read_shares`, `live` (rows,) is false for deleted documents.
    """
    shares = read_shares(documents, lengths)
    return float(np.sqrt(shares).sum() / (documents.present | live).sum()) if len(shares) else 1.0
