"""Compares the ONNX encoder with vectors that transformers and torch made of the same texts.

    python -m tools.reproduce.encoder MODEL [--collections FOLDER] [--documents N]

MODEL is a folder with the model that made the collections' minilm/corpus.npz and minilm/topics.npz (tools/data/export_minilm.py
exports it). Prints, per file, the largest difference of a component from the stored vector and the lowest cosine with it. The
stored vectors are float16, which rounds components by up to 2.4e-4.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from kernelsearch.encoders import open_encoder
from kernelsearch.trec import read_topics
from tools.data.datasets import add_collections_option

COLLECTIONS = ("cran", "cisi", "cacm", "npl", "nfcorpus", "scifact")
SEED = 0


def texts_of(file: Path) -> dict[str, str]:
    """{id: text} of a `file` of documents (JSONL) or topics (TSV)."""
    if file.suffix == ".tsv":
        return read_topics(file)
    with open(file, encoding="utf-8") as stream:
        return {str(record["id"]): record["contents"] for record in map(json.loads, stream)}


def main() -> None:
    """Encodes a sample of documents and all topics of each collection and prints how they differ from the stored vectors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder with model.onnx and tokenizer.json")
    add_collections_option(parser)
    parser.add_argument("--documents", type=int, default=300, help="documents per collection, drawn at random (%(default)s)")
    arguments = parser.parse_args()
    encoder = open_encoder(arguments.model)
    for name in COLLECTIONS:
        for file in ("corpus.jsonl", "topics.tsv"):
            folder = arguments.collections / name
            texts = texts_of(folder / file)
            stored = np.load(folder / "minilm" / f"{Path(file).stem}.npz")
            places = np.sort(np.random.default_rng(SEED).permutation(len(stored["ids"]))[: arguments.documents])
            chosen = [texts[str(docid)] for docid in stored["ids"][places]]
            made = encoder.documents(chosen) if file == "corpus.jsonl" else encoder.queries(chosen)
            expected = stored["vectors"][places].astype(np.float32)
            cosines = np.sum(made * expected, axis=1) / np.linalg.norm(expected, axis=1)
            print(
                f"{name} {file}: {len(made)} texts, {np.abs(made - expected).max():.2g}, cosine {cosines.min():.6f}", flush=True
            )


if __name__ == "__main__":
    main()
