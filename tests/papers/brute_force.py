"""A small collection as token lists, its Lucene index, and the weights of the papers computed densely from the tokens alone."""

import json
import math

import numpy as np

import kernelsearch
from kernelsearch import index, search
from kernelsearch.trec import read_run

WORDS = [f"w{number:02d}" for number in range(60)]


def make_documents(count=48, seed=3):
    """Records of four topics, of at most 39 tokens with their title of four: Lucene stores such lengths exactly."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(len(WORDS), 0.15), size=4)
    records = []
    for number in range(count):
        drawn = rng.choice(WORDS, size=rng.integers(10, 36), p=topics[number % 4]).tolist()
        title = rng.choice(WORDS, size=4, p=topics[number % 4]).tolist()
        records.append({"id": f"d{number:02d}", "title": " ".join(title), "contents": " ".join(drawn)})
    return records


def full_text(record):
    """What queries search: the contents and the title."""
    return f"{record['contents']} {record['title']}"


def build(folder, records, *flags):
    """The opened Lucene index of records, with terms as they are written; `flags` are further ones of `index`."""
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    index.main(["--input", str(folder / "corpus.jsonl"), "--index", str(folder / "index"), "--language", "whitespace", *flags])
    return kernelsearch.open(folder / "index")


def command_line_run(opened, folder, text, *flags):
    """{docid: score} of the list that `search` writes for one topic, "q"; its files are in `folder`."""
    (folder / "topics.tsv").write_text(f"q\t{text}\n")
    run = folder / "run.txt"
    search.main(["--index", opened.name, "--topics", str(folder / "topics.tsv"), "--output", str(run), *flags])
    return dict(read_run(run)["q"])


class Dense:
    """Counts and weights of token lists; rows follow the documents, columns WORDS."""

    def __init__(self, texts):
        self.counts = np.array([[text.split().count(word) for word in WORDS] for text in texts], dtype=float)
        self.lengths = self.counts.sum(axis=1)
        frequency = (self.counts > 0).sum(axis=0)
        self.idf = np.log(1 + (len(texts) - frequency + 0.5) / (frequency + 0.5)) * (frequency > 0)
        self.probability = (self.counts.sum(axis=0) + 1) / (self.counts.sum() + 1)

    def saturation(self, k1, b):
        """tf / (tf + k1((1 - b) + b·len/average)), shape (documents, words)."""
        scale = k1 * ((1 - b) + b * self.lengths / self.lengths.mean())
        return self.counts / (self.counts + scale[:, None])

    def bm25(self, query, k1=0.9, b=0.4, k3=math.inf):
        """BM25 without the factor (k1 + 1), of each document."""
        weights = self.query(query)
        saturated = weights if k3 == math.inf else (k3 + 1) * weights / (k3 + weights)
        return self.saturation(k1, b) @ (saturated * self.idf)

    def query(self, text):
        """Counts of a query's words."""
        return np.array([text.split().count(word) for word in WORDS], dtype=float)

    def cosine(self):
        """Unit rows of tf·idf."""
        rows = self.counts * self.idf
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
