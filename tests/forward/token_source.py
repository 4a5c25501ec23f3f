"""Postings of token lists, counted here one by one: what a forward index is compared with, without Lucene."""

from __future__ import annotations

from collections import Counter

import numpy as np

from kernelsearch.core.postings import Scan
from kernelsearch.forward import ForwardIndex, Statistics, write_forward


class TokenSource:
    """A `PostingsSource` of {docid: tokens}; documents in `deleted` have no tokens and are not live. `asked` are the blocks."""

    def __init__(
        self, texts: dict[str, list[str]] | list[tuple[str, list[str]]], deleted: frozenset[str] = frozenset()
    ) -> None:
        documents = list(texts.items()) if isinstance(texts, dict) else texts
        self.names = [docid for docid, _ in documents]
        self.texts = [[] if docid in deleted else tokens for docid, tokens in documents]
        self.live = [docid not in deleted for docid in self.names]
        self.words = sorted({word for text in self.texts for word in text}, key=str.encode)
        self.asked: list[tuple[int, int]] = []

    def scan(self) -> Scan:
        raw = [word.encode() for word in self.words]
        lengths = [len(text) for text in self.texts]
        return Scan(
            term_bytes=np.frombuffer(b"".join(raw), np.uint8),
            term_sizes=np.array([len(word) for word in raw], dtype=np.int32),
            df=np.array([sum(word in text for text in self.texts) for word in self.words], dtype=np.int32),
            cf=np.array([sum(text.count(word) for text in self.texts) for word in self.words], dtype=np.int64),
            distinct=np.array([len(set(text)) for text in self.texts], dtype=np.int32),
            lengths=np.array(lengths, dtype=np.int32),
            norms=np.array([min(length, 255) for length in lengths], dtype=np.uint8),
            live=np.array(self.live, dtype=bool),
        )

    def rows(self, start, end, scan, positions):
        self.asked.append((start, end))
        terms, frequencies, places = [], [], []
        for text in self.texts[start:end]:
            counts = Counter(text)
            for number, word in enumerate(self.words):
                if counts[word]:
                    terms.append(number)
                    frequencies.append(counts[word])
                    places += [place for place, token in enumerate(text) if token == word]
        return tuple(np.array(column, dtype=np.int32) for column in (terms, frequencies, places if positions else []))

    def docids(self, start, end):
        raw = [name.encode() for name in self.names[start:end]]
        return np.frombuffer(b"".join(raw), np.uint8), np.array([len(name) for name in raw], dtype=np.int32)

    def statistics(self) -> Statistics:
        texts = [text for text in self.texts if text]
        return Statistics(len(texts), sum(map(len, texts)), sum(len(set(text)) for text in texts))

    def write(self, path, positions=True, **options) -> ForwardIndex:
        """The forward index in the folder `path`."""
        write_forward(
            path, self, field="contents", statistics=self.statistics(), positions=positions, fingerprint="f", **options
        )
        return ForwardIndex(path)


def random_texts(seed: int, count: int = 30, words: int = 12) -> dict[str, list[str]]:
    """Texts of zero to twenty words, docids in no order."""
    rng = np.random.default_rng(seed)
    vocabulary = ["aa", "b", "été", "日本", *(f"w{number}" for number in range(words - 4))]
    return {
        f"{rng.integers(10**6)}-{number}": [vocabulary[place] for place in rng.integers(0, words, rng.integers(0, 21))]
        for number in range(count)
    }
