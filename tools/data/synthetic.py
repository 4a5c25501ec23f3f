"""Seeded synthetic collections of any size: Zipfian words with latent topics, as JSONL or as a CSR matrix in memory.

    python -m tools.data.synthetic --documents 500000 --out FILE.jsonl
    python -m tools.data.synthetic --documents 2000000 --growing --out FILE.jsonl --queries 1000 --topics-out FILE.tsv

A document draws its length from a log-normal law, mixes one to three topics with a common background, and draws its words
from that mixture. Topics share the background's Zipfian shape, each over its own order of the words, so that neighbouring
topics overlap in frequent words and differ in rare ones. The same seed gives the same collection on every machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

BLOCK = 20_000


class Generator:
    """Documents in blocks of token numbers; block i depends on the seed and i alone.

    `vocabulary` and `topics` are numbers of words and of latent topics, `mean_length` is in tokens per document, `background`
    is the share of the tokens that belong to no topic.
    """

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
            yield lengths, np.where(topical, self._in_topic(rank, topic), rank)

    def _in_topic(self, rank: np.ndarray, topic: np.ndarray) -> np.ndarray:
        """A topic's word of each rank: the frequent ranks are scattered over the vocabulary by the topic's shift."""
        return (rank * 7919 + self._shift[topic]) % self.vocabulary

    def matrix(self, dtype: type = np.float32) -> sparse.csr_matrix:
        """Term counts of all documents as numbers of type `dtype`, shape (documents, vocabulary), with sorted rows."""
        parts = []
        for lengths, words in self.blocks():
            indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            ones: np.ndarray = np.ones(len(words), dtype=dtype)
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

    def queries(self, count: int) -> Iterator[tuple[str, str]]:
        """(qid, text) of `count` queries: three to six words of one latent topic.

        They are drawn as a document's words are, without the commonest.
        """
        rng = np.random.default_rng([self.seed, 1 << 20])
        for number in range(count):
            topic = np.full(200, rng.integers(self.topics))
            rank = np.searchsorted(self._cumulative, rng.random(200)).clip(max=self.vocabulary - 1)
            words = self._in_topic(rank[rank >= 50], topic[rank >= 50])[: rng.integers(3, 7)]
            yield f"q{number:05d}", " ".join(map(_spelt, words.tolist()))


class GrowingGenerator(Generator):
    """A vocabulary that grows with the collection, as that of text does.

    Words follow the double power law of Gerlach & Altmann, "Stochastic Model for the Vocabulary Growth in Natural Languages"
    (Phys. Rev. X 3, 2013): frequency falls with rank^-1 over some 7,873 core words and with rank^-1.77 beyond, which makes the
    vocabulary of n tokens grow with n^(1/1.77) (Heaps). A topic uses one part in `WINDOWS` of the words of each octave of
    ranks (2^k..2^(k+1)), so that all topics together keep the law, and each has words that are common in it alone.
    """

    CORE, TAIL, WINDOWS = 7_873, 1.77, 32

    def __init__(self, documents: int, *, vocabulary: int = 4_000_000, mean_length: float = 100.0, **options: Any) -> None:
        super().__init__(documents, vocabulary=vocabulary, mean_length=mean_length, **options)
        rank = np.arange(vocabulary) + 10.0  # the commonest words of a text are stop words, which an index leaves out
        weights = np.where(rank < self.CORE, 1 / rank, (rank / self.CORE) ** -self.TAIL / self.CORE)
        self._cumulative = np.cumsum(weights / weights.sum())
        octaves = int(vocabulary).bit_length()
        self._window = np.random.default_rng([self.seed, 1]).random((self.topics, octaves))

    def _in_topic(self, rank: np.ndarray, topic: np.ndarray) -> np.ndarray:
        octave = np.frexp((rank + 1).astype(np.float64))[1] - 1  # floor(log2(rank + 1))
        size = 1 << octave.astype(np.int64)
        start = (self._window[topic, octave] * size).astype(np.int64)
        word = size + (start + (rank + 1 - size) // self.WINDOWS) % size - 1
        return np.minimum(word, self.vocabulary - 1)


def _spelt(number: int) -> str:
    """A pronounceable word for a number: consonant-vowel pairs, ending in a way that a stemmer leaves alone."""
    consonants, vowels = "bdfgklmnprtvz", "aou"
    word = ""
    while number or not word:
        number, place = divmod(number, len(consonants) * len(vowels))
        word += consonants[place // len(vowels)] + vowels[place % len(vowels)]
    return word + "x"


def write_jsonl(generator: Generator, path: Path) -> None:
    """Writes the documents of `generator` to the file `path`, with one block of them in memory at a time."""
    with open(path, "w", encoding="utf-8") as stream:
        # Ids and words are plain letters: JSON needs no escapes.
        stream.writelines(f'{{"id": "{record["id"]}", "contents": "{record["contents"]}"}}\n' for record in generator.records())


def main() -> None:
    """Writes the collection, and queries where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=500_000, help="number of documents")
    parser.add_argument("--growing", action="store_true", help="a vocabulary that grows with the collection, as text's does")
    parser.add_argument("--vocabulary", type=int, help="words to draw from (default: 100,000; growing: 4,000,000)")
    parser.add_argument("--topics", type=int, default=400, help="latent topics")
    parser.add_argument("--mean-length", type=float, default=80.0, help="mean number of tokens per document")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    parser.add_argument("--out", required=True, help="the JSONL file to write")
    parser.add_argument("--queries", type=int, default=0, help="number of topics to write, besides the collection")
    parser.add_argument("--topics-out", help="the TSV file of the topics")
    arguments = parser.parse_args()
    kind = GrowingGenerator if arguments.growing else Generator
    options = {} if arguments.vocabulary is None else {"vocabulary": arguments.vocabulary}
    generator = kind(
        arguments.documents, topics=arguments.topics, mean_length=arguments.mean_length, seed=arguments.seed, **options
    )
    if arguments.queries:
        with open(arguments.topics_out, "w", encoding="utf-8") as stream:
            stream.writelines(f"{qid}\t{text}\n" for qid, text in generator.queries(arguments.queries))
    write_jsonl(generator, Path(arguments.out))


if __name__ == "__main__":
    main()
