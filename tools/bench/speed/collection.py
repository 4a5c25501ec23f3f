"""The synthetic collection of one size: documents, index, queries, vectors, and what peers read of them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import faiss
import numpy as np
from scipy import sparse

import kernelsearch
from kernelsearch.api.index import Index
from tools import environment
from tools.data import synthetic

# More queries than a fusion caches tables of, or every repetition but the first would measure the cache.
QUERIES, TERMS = 60, 4
#: Dimensions of the latent basis, and of the vectors (as MiniLM's).
DIMS, VECTOR_DIMS = 50, 384
VECTORS = "bench"


class Collection:
    """`documents` synthetic documents in `folder`; everything is made when it is first needed."""

    def __init__(self, folder: Path, documents: int) -> None:
        self.folder, self.documents = folder, documents
        folder.mkdir()

    @cached_property
    def corpus(self) -> Path:
        """The folder with corpus.jsonl."""
        (self.folder / "corpus").mkdir()
        synthetic.write_jsonl(synthetic.Generator(self.documents), self.folder / "corpus" / "corpus.jsonl")
        return self.folder / "corpus"

    @cached_property
    def index(self) -> Index:
        """The opened index, with vectors of documents and queries."""
        command(
            "kernelsearch.index", "--input", self.corpus / "corpus.jsonl", "--index", self.folder / "index", "--threads", "2"
        )
        rng = np.random.default_rng(0)
        forward = kernelsearch.open(self.folder / "index").forward
        vectors = unit_vectors(rng, len(forward))
        np.savez(self.folder / "vectors.npz", ids=np.array(forward.docids.take(np.arange(len(forward)))), vectors=vectors)
        asked = unit_vectors(rng, QUERIES)
        np.savez(self.folder / "queries.npz", ids=np.array([str(n) for n in range(QUERIES)]), vectors=asked)
        command(
            *("kernelsearch.vectors", "--index", self.folder / "index", "--name", VECTORS),
            *("--input", self.folder / "vectors.npz"),
        )
        return kernelsearch.open(self.folder / "index", vectors={"queries": str(self.folder / "queries.npz")})

    @cached_property
    def texts(self) -> list[str]:
        """QUERIES queries of `random_texts`; written for the peers, too."""
        texts = self.random_texts(QUERIES)
        (self.folder / "queries.json").write_text(json.dumps(texts), encoding="utf-8")
        return texts

    def random_texts(self, count: int) -> list[str]:
        """So many (`count`) queries of words that are neither rare nor in every tenth document."""
        forward, rng = self.index.forward, np.random.default_rng(1)
        usual = np.flatnonzero((forward.df > 20) & (forward.df < self.documents // 10))
        return [" ".join(forward.terms.take(rng.choice(usual, TERMS, replace=False))) for _ in range(count)]

    @cached_property
    def matrix(self) -> sparse.csr_matrix:
        """tf·idf of the documents, which the peers decompose, shape (documents, terms)."""
        forward = self.index.forward
        idf = np.log(1 + len(forward) / np.maximum(forward.df, 1))
        matrix = sparse.csr_matrix(forward.matrix().multiply(idf))
        sparse.save_npz(self.folder / "matrix.npz", matrix)
        (self.folder / "dims.txt").write_text(str(DIMS))
        return matrix

    @cached_property
    def faiss_folder(self) -> Path:
        """The vectors as Pyserini's FaissSearcher reads them: `index` (flat, inner product) and `docid`."""
        folder = self.folder / "faiss"
        folder.mkdir()
        vectors = np.load(self.folder / "vectors.npz")
        flat = faiss.IndexFlatIP(VECTOR_DIMS)
        flat.add(vectors["vectors"].astype(np.float32))
        faiss.write_index(flat, str(folder / "index"))
        (folder / "docid").write_text("\n".join(vectors["ids"]) + "\n", encoding="utf-8")
        return folder


def unit_vectors(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random vectors of unit length drawn with `rng`, float16 of shape (count, VECTOR_DIMS)."""
    vectors = rng.standard_normal((count, VECTOR_DIMS), dtype=np.float32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def command(module: str, *arguments: object) -> None:
    """Runs `python -m MODULE` of this checkout, quietly; ends the program with its errors where it fails.

    `module` is the name of the module, `arguments` follow it on the command line.
    """
    words = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr[-500:]}")
