"""The words inside identifiers of source code: `parse_json_file` and `parseJsonFile` are one term each of an index.

Lucene's tokeniser keeps words together that `_`, `.` or `:` join, and the lower-case filter removes the capitals that separate
words otherwise. So a query in plain words matches few of the terms of a program. The words are found again from the
vocabulary alone, at the separators, and by segmentation into words that the vocabulary has: the one with the most probable
words, if these are more frequent than the whole (Koehn & Knight, "Empirical Methods for Compound Splitting", EACL 2003).

`python -m tools.reproduce.kinds` measures what this gives (docs/reproductions/kinds.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.forward.index import ForwardIndex

#: The analyser of an index: the terms of each text.
Analyse = Callable[[Sequence[str]], list[list[str]]]

SEPARATORS = b"_.:"
JOINED = re.compile(rf"[^\W\d_]{{2,}}[{SEPARATORS.decode()}]+[^\W\d_]{{2,}}")
WORD = re.compile(r"[^\W_]+")
#: Letters of a word that a term without separators may consist of, and the fewest documents that have it.
SHORTEST, LONGEST, FEWEST = 3, 14, 3
#: What stemming may have removed from a word within an identifier.
ENDINGS = ("", "e", "s", "ing", "ed", "er")


class Word(NamedTuple):
    """A word that terms may consist of: the number of documents that have it, and its stem."""

    documents: int
    stem: str


def joined_share(forward: ForwardIndex) -> float:
    """The share of the tokens of `forward` that are words joined by separators, 0 to 1.

    It is nearly 0 in prose, a tenth and more in programs.
    """
    tokens = np.asarray(forward.cf)[np.array(list(_joined(forward)), dtype=np.int64)].sum()
    return float(tokens / max(forward.statistics.tokens, 1))


def word_parts(forward: ForwardIndex, analyse: Analyse) -> sparse.csr_matrix:
    """Which words each term of `forward` consists of, shape (terms, terms): row t has a 1 for every term that is a word in t.

    `analyse` is the analyser of the index.
    """
    terms, df = [term.decode("utf-8", errors="replace") for term in forward.terms.all_raw()], np.asarray(forward.df)
    numbers = {term: number for number, term in enumerate(terms)}
    pieces = {number: WORD.findall(term) for number, term in _joined(forward).items()}
    words = sorted({word for term_pieces in pieces.values() for word in term_pieces})
    stems = {word: analysed[0] if analysed else word for word, analysed in zip(words, analyse(words), strict=True)}
    lexicon = _lexicon(terms, df, {word: stems[word] for term_pieces in pieces.values() for word in term_pieces[:-1]}, numbers)

    def documents(stem: str) -> int:
        return int(df[numbers[stem]]) if stem in numbers else 0

    rows, columns = [], []
    for number, term in enumerate(terms):
        term_pieces = pieces.get(number, [term])
        inside: list[str] = []
        for place, piece in enumerate(term_pieces):
            stem = stems.get(piece, piece)
            if place == len(term_pieces) - 1:  # stemmed with the whole term, which removes more than from the word alone
                stem = max((stem, piece, f"{piece}e"), key=documents)
            if documents(stem) >= FEWEST and len(term_pieces) > 1:
                inside.append(stem)
            else:
                inside += segment(piece, lexicon, documents(piece), forward.statistics.documents) or [stem]
        columns_of_term = {numbers[stem] for stem in inside if stem in numbers} - {number}
        rows += [number] * len(columns_of_term)
        columns += sorted(columns_of_term)
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(terms), len(terms)))


def segment(term: str, lexicon: dict[str, Word], documents: int, collection: int) -> list[str]:
    """The stems of the most probable words that a term consists of; [] unless they are more frequent than the term.

    `lexicon` are words by their spelling, `documents` is the number of documents that have the term, `collection` that of all.
    """
    if not term.isalpha() or len(term) < 2 * SHORTEST:
        return []
    # The log probability of the best segmentation up to each letter, with its last word and where this begins.
    best: list[tuple[float, int, Word | None]] = [(0.0, 0, None), *(len(term) * [(-math.inf, 0, None)])]
    for end in range(SHORTEST, len(term) + 1):
        for start in range(max(0, end - LONGEST), end - SHORTEST + 1):
            word = lexicon.get(term[start:end]) or (lexicon.get(f"{term[start:end]}e") if end == len(term) else None)
            if word is not None and word.stem != term and end - start < len(term):
                score = best[start][0] + math.log(word.documents / collection) - 1.0  # few words rather than many
                if score > best[end][0]:
                    best[end] = score, start, word
    words: list[Word] = []
    end = len(term)
    while end > 0:
        _, end, word = best[end]
        if word is None:
            return []
        words.append(word)
    mean = math.exp(sum(math.log(word.documents) for word in words) / len(words))
    return [word.stem for word in reversed(words)] if mean > documents else []


def _lexicon(
    terms: Sequence[str], df: NDArray[np.integer], spelled: dict[str, str], numbers: dict[str, int]
) -> dict[str, Word]:
    """Words by their spelling: stems with endings, and the words of `spelled`, {spelling: stem}."""
    out: dict[str, Word] = {}

    def add(spelling: str, stem: str, documents: int) -> None:
        out[spelling] = max(out.get(spelling, Word(0, "")), Word(documents, stem))

    for number in np.flatnonzero(df >= FEWEST).tolist():
        term = terms[number]
        if SHORTEST <= len(term) <= LONGEST and term.isalpha():
            for ending in ENDINGS:
                add(term + ending, term, int(df[number]))
            if term.endswith("i"):
                add(f"{term[:-1]}y", term, int(df[number]))
    for word, stem in spelled.items():
        if len(word) >= SHORTEST and word.isalpha() and stem in numbers:
            add(word, stem, int(df[numbers[stem]]))
    return {spelling: word for spelling, word in out.items() if word.documents >= FEWEST}


def _joined(forward: ForwardIndex) -> dict[int, str]:
    """The terms that are words joined by separators, by their numbers."""
    data, ends = (np.asarray(array) for array in forward.terms.arrays)
    places = np.flatnonzero(np.isin(data, np.frombuffer(SEPARATORS, dtype=np.uint8)))
    numbers = np.unique(np.searchsorted(ends, places, side="right")).tolist()
    numbered_terms = zip(numbers, forward.terms.take(numbers), strict=True)
    return {number: term for number, term in numbered_terms if JOINED.search(term)}
