"""Seeded synthetic collections of any size: Zipfian words with latent topics, as JSONL or as a CSR matrix in memory.

    python tools/synthetic.py --documents 500000 --out FILE.jsonl

A document draws its length from a log-normal law, mixes one to three topics with a common background, and draws its words
from that mixture. Topics share the background's Zipfian shape, each over its own order of the words, so that neighbouring
topics overlap in frequent words and differ in rare ones. The same seed gives the same collection on every machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

import numpy as np
from scipy import sparse

BLOCK = 20_000


class Generator:
    """Documents in blocks of token numbers; block i depends on the seed and i alone."""

    def __init__(
        self,
        documents: int,
        *,
        vocabulary: int = 100_000,
        topics: int = 400,
        mean_length: float = 80.0,
        background: float = 0.4,
        seed: int = 0,
    ) -> None:
        self.documents, self.vocabulary, self.topics = documents, vocabulary, topics
        self.mean_length, self.background, self.seed = mean_length, background, seed
        weights = 1.0 / (np.arange(vocabulary) + 2.7) ** 1.05
        self._cumulative = np.cumsum(weights / weights.sum())
        # A topic is a stride and a shift through the words: its own order without a table of topics × words.
        rng = np.random.default_rng(seed)
        self._shift = rng.integers(vocabulary, size=topics)

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(document lengths, word numbers of all their tokens) for each run of documents."""
        for number, start in enumerate(range(0, self.documents, BLOCK)):
            rng = np.random.default_rng([self.seed, number])
            size = min(BLOCK, self.documents - start)
            lengths = np.maximum(5, rng.lognormal(np.log(self.mean_length) - 0.18, 0.6, size)).astype(np.int64)
            tokens = int(lengths.sum())
            owner = np.repeat(np.arange(size), lengths)
            # Popular topics are more common; a document holds up to three of them.
            held = (self.topics * rng.random((size, 3)) ** 1.5).astype(np.int64)
            slot = rng.choice(3, size=tokens, p=[0.6, 0.3, 0.1])
            rank = np.searchsorted(self._cumulative, rng.random(tokens)).clip(max=self.vocabulary - 1)
            topic = held[owner, slot]
            topical = rng.random(tokens) >= self.background
            # Within a topic the frequent ranks are scattered over the vocabulary by the topic's shift.
            words = np.where(topical, (rank * 7919 + self._shift[topic]) % self.vocabulary, rank)
            yield lengths, words

    def matrix(self, dtype: type = np.float32) -> sparse.csr_matrix:
        """Term counts of all documents, shape (documents, vocabulary), with sorted rows."""
        parts = []
        for lengths, words in self.blocks():
            indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            ones = np.ones(len(words), dtype=dtype)
            block = sparse.csr_matrix((ones, words.astype(np.int32), indptr), shape=(len(lengths), self.vocabulary))
            block.sum_duplicates()
            parts.append(block)
        return sparse.vstack(parts, format="csr")

    def records(self) -> Iterator[dict[str, str]]:
        """Documents as index records, words spelt in letters so that no analyser changes them."""
        spelling = np.array([_spelt(number) for number in range(self.vocabulary)], dtype=object)
        place = 0
        for lengths, words in self.blocks():
            ends = np.cumsum(lengths)
            for start, end in zip(ends - lengths, ends, strict=True):
                yield {"id": f"s{place:08d}", "contents": " ".join(spelling[words[start:end]])}
                place += 1


def _spelt(number: int) -> str:
    """A pronounceable word for a number: consonant-vowel pairs, ending in a way that a stemmer leaves alone."""
    consonants, vowels = "bdfgklmnprtvz", "aou"
    word = ""
    while number or not word:
        number, place = divmod(number, len(consonants) * len(vowels))
        word += consonants[place // len(vowels)] + vowels[place % len(vowels)]
    return word + "x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=500_000)
    parser.add_argument("--vocabulary", type=int, default=100_000)
    parser.add_argument("--topics", type=int, default=400)
    parser.add_argument("--mean-length", type=float, default=80.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="the JSONL file to write")
    given = parser.parse_args()
    generator = Generator(
        given.documents, vocabulary=given.vocabulary, topics=given.topics, mean_length=given.mean_length, seed=given.seed
    )
    with open(given.out, "w", encoding="utf-8") as stream:
        for record in generator.records():
            stream.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
