"""Long documents, of which an encoder reads the beginning only: a condition made of the collections of the page on vectors.

    python -m tools.reproduce.vectors_long [--collections FOLDER] [--scratch FOLDER] [--parts 4]

Documents are joined to long ones, PARTS that are related in each (a document and its nearest neighbours by MiniLM that are not
taken yet, in random order). A long document is relevant where one of its parts is. Words see the whole text. The vector is

- `first`: that of the first part, as an encoder reads it that cuts long texts;
- `mean`: the mean of the parts' vectors at unit length, as an encoder with `long-texts = "mean"` makes it.

Prints mean average precision of BM25, of the vectors, of both plain hybrids and of `auto`. What is computed once is kept in the
scratch folder.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.vectors import store
from kernelsearch.vectors.readers import open_vectors
from kernelsearch.vectors.truncation import PIECES_PER_TERM
from tools import ROOT
from tools.data.datasets import Dataset, Judgements, add_collections_option, judged_topics
from tools.reproduce.pages import markdown_table, rounded
from tools.reproduce.vectors import DEPTH, MEASURED, Collection, fuse

SEED, KINDS = 0, ("first", "mean")


def related_groups(vectors: NDArray[np.float32], parts: int, random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Rows of `vectors` in groups of `parts`: a random row and its nearest neighbours among those that no group has.

    `random` draws the rows and the order within a group.
    """
    groups, free = [], np.ones(len(vectors), dtype=bool)
    for row in random.permutation(len(vectors)).tolist():
        if not free[row]:
            continue
        others = np.flatnonzero(free)
        nearest = others[np.argsort(-(vectors[others] @ vectors[row]), kind="stable")[:parts]]
        free[nearest] = False
        groups.append(random.permutation(nearest))
    return groups


def join_judgements(qrels: Judgements, joined: dict[str, str]) -> Judgements:
    """Judgements of long documents: the highest grade in `qrels` of their parts; `joined` is {docid: long document}."""
    out: Judgements = {}
    for qid, grades in qrels.items():
        grouped = out.setdefault(qid, {})
        for docid, grade in grades.items():
            if docid in joined:
                grouped[joined[docid]] = max(grade, grouped.get(joined[docid], 0))
    return out


def build(dataset: Dataset, collections: Path, folder: Path, parts: int) -> dict[str, str]:
    """Builds the index of long documents with its vectors in `folder` where it is missing; returns {docid: long document}.

    `dataset` below `collections` has the documents, of which `parts` are joined.
    """
    stored = np.load(collections / dataset.folder / "minilm" / "corpus.npz")
    ids, vectors = [str(docid) for docid in stored["ids"]], stored["vectors"].astype(np.float32)
    groups = related_groups(vectors, parts, np.random.default_rng(SEED))
    if not folder.exists():
        with open(collections / dataset.folder / "corpus.jsonl", encoding="utf-8") as stream:
            texts = {str(record["id"]): record["contents"] for record in map(json.loads, stream)}
        documents = [
            {"id": f"long{number}", "contents": "\n".join(texts[ids[row]] for row in group)}
            for number, group in enumerate(groups)
        ]
        index = kernelsearch.build(folder, documents)
        means = np.stack([vectors[group].mean(axis=0) for group in groups])
        made = {"first": vectors[[group[0] for group in groups]], "mean": means / np.linalg.norm(means, axis=1, keepdims=True)}
        for kind in KINDS:
            file = folder.with_name(f"{folder.name}-{kind}.npz")
            np.savez(file, ids=np.array([document["id"] for document in documents]), vectors=made[kind])
            # Of a long document, `first` has seen the tokens of one part.
            limit = round(PIECES_PER_TERM * float(index.forward.lengths.mean()) / parts) if kind == "first" else 0
            store.import_vectors(store.place(index.artefacts, kind), index.forward, open_vectors(file), max_tokens=limit)
    return {ids[row]: f"long{number}" for number, group in enumerate(groups) for row in group.tolist()}


def measure(dataset: Dataset, collections: Path, scratch: Path, parts: int) -> dict[str, float]:
    """Mean average precision by label on long documents of `parts` documents of `dataset`; indexes are kept in `scratch`."""
    folder = scratch / f"{dataset.folder}-{parts}"
    joined = build(dataset, collections, folder, parts)
    topics, judged = dataset.read(collections)
    qrels = join_judgements(judged, joined)
    qids = judged_topics(topics, qrels)
    figures: dict[str, float] = {}
    for kind in KINDS:
        queries_file = collections / dataset.folder / "minilm" / "topics.npz"
        index = kernelsearch.open(folder, vectors={"name": kind, "queries": str(queries_file)})
        queries = index.lucene.queries([topics[qid] for qid in qids], qids)
        rows = JudgedRows(index.forward, qrels, qids)
        collection = Collection(index, queries, rows, index.lucene.search(queries, DEPTH), qrels)
        dense = collection.run({"dense": {"retrieve": DEPTH}})
        pairs = list(zip(collection.lists, dense, strict=True))
        figures["BM25"] = collection.mean(collection.lists)
        if kind == KINDS[0]:
            figures["`auto`, words alone"] = collection.mean(collection.run({"auto": {"vectors": "none"}}))
        figures[f"{kind}: MiniLM"] = collection.mean(dense)
        figures[f"{kind}: RRF"] = collection.mean([fuse(index, *pair, "rrf") for pair in pairs])
        figures[f"{kind}: z-scores"] = collection.mean([fuse(index, *pair, "z") for pair in pairs])
        figures[f"{kind}: `auto` with vectors"] = collection.mean(collection.run({"auto": {"vectors": kind}}))
    return figures


def main() -> None:
    """Measures what the scratch folder lacks and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, default=ROOT / "runs" / "vectors-long", help="what is kept (%(default)s)")
    parser.add_argument("--parts", type=int, default=4, help="documents that are joined (%(default)s)")
    arguments = parser.parse_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    measured: dict[str, dict[str, float]] = {}
    for name, dataset in MEASURED.items():
        path = arguments.scratch / f"{name}-{arguments.parts}.json"
        if not path.exists():
            path.write_text(json.dumps(measure(dataset, arguments.collections, arguments.scratch, arguments.parts)))
        measured[name] = json.loads(path.read_text(encoding="utf-8"))
        print(name, {label: round(value, 4) for label, value in measured[name].items()}, flush=True)
    labels = list(next(iter(measured.values())))
    rows = [[label, *(rounded(figures[label]) for figures in measured.values())] for label in labels]
    print(markdown_table(["AP", *measured], rows))


if __name__ == "__main__":
    main()
