"""A forward index from token lists, without Lucene."""

import json
from collections import Counter

import numpy as np
import pytest

import kernelsearch
from kernelsearch import index
from kernelsearch.core.postings import Scan
from kernelsearch.forward import NORM_LENGTHS, ForwardIndex, Statistics, write_forward


class TokenSource:
    """Walks token lists as Lucene's postings would be walked."""

    def __init__(self, documents):
        self.counts = [Counter(tokens) for tokens in documents]
        self.terms = sorted({term for tokens in documents for term in tokens}, key=str.encode)
        self.number = {term: place for place, term in enumerate(self.terms)}
        self.lengths = np.array([len(tokens) for tokens in documents], dtype=np.int32)

    def scan(self):
        raw = [term.encode() for term in self.terms]
        return Scan(
            term_bytes=np.frombuffer(b"".join(raw), dtype=np.uint8),
            term_sizes=np.array([len(term) for term in raw], dtype=np.int32),
            df=np.array([sum(term in row for row in self.counts) for term in self.terms], dtype=np.int32),
            cf=np.array([sum(row[term] for row in self.counts) for term in self.terms], dtype=np.int64),
            distinct=np.array([len(row) for row in self.counts], dtype=np.int32),
            lengths=self.lengths,
            norms=(np.searchsorted(NORM_LENGTHS, self.lengths, side="right") - 1).astype(np.uint8),
            live=np.ones(len(self.counts), dtype=bool),
        )

    def rows(self, start, end, scan, positions):
        pairs = [
            (self.number[t], n) for row in self.counts[start:end] for t, n in sorted(row.items(), key=lambda i: i[0].encode())
        ]
        table = np.array(pairs, dtype=np.int32).reshape(-1, 2)
        return table[:, 0], table[:, 1], np.empty(0, dtype=np.int32)

    def docids(self, start, end):
        raw = [f"d{number}".encode() for number in range(start, end)]
        return np.frombuffer(b"".join(raw), dtype=np.uint8), np.array([len(docid) for docid in raw], dtype=np.int32)


@pytest.fixture(scope="session")
def make_collection(tmp_path_factory):
    """make_collection(token lists, fingerprint) -> ForwardIndex."""

    def make(documents, fingerprint="test"):
        source = TokenSource(documents)
        filled = [row for row in source.counts if row]
        statistics = Statistics(len(filled), int(source.lengths.sum()), sum(len(row) for row in filled))
        path = tmp_path_factory.mktemp("forward") / "contents"
        write_forward(path, source, field="contents", statistics=statistics, positions=False, fingerprint=fingerprint)
        return ForwardIndex(path, fingerprint=fingerprint)

    return make


@pytest.fixture(scope="session")
def pets(make_collection):
    """Three documents whose kernels can be worked out by hand, and an empty one."""
    return make_collection([["cat", "cat", "dog"], ["dog", "fish"], ["fish", "fish", "fish", "cat"], []])


def topical_documents():
    """120 token lists drawn from six topics over 300 words, seeded."""
    rng = np.random.default_rng(7)
    topics = rng.dirichlet(np.full(300, 0.05), size=6)
    documents = []
    for number in range(120):
        mixture = 0.85 * topics[number % 6] + 0.15 * topics[(number // 6) % 6]
        documents.append([f"w{word:03d}" for word in rng.choice(300, size=rng.integers(20, 90), p=mixture)])
    return documents


@pytest.fixture(scope="session")
def topical(make_collection):
    """The topical documents as a forward index."""
    return make_collection(topical_documents())


@pytest.fixture(scope="session")
def topical_index(tmp_path_factory):
    """The topical documents as a Lucene index."""
    folder = tmp_path_factory.mktemp("topical")
    records = [{"id": f"d{number}", "contents": " ".join(tokens)} for number, tokens in enumerate(topical_documents())]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    index.main(["--input", str(folder / "corpus.jsonl"), "--index", str(folder / "index"), "--language", "whitespace"])
    return kernelsearch.open(folder / "index")
