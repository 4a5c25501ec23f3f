"""Anserini's published figures, from the command line's own functions: same index, same search, same evaluation."""

import numpy as np
import pytest

from kernelsearch import search
from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.kernels import ranking_models
from kernelsearch.lucene.models import BM25Model
from kernelsearch.trec import read_qrels, read_run, read_topics

pytestmark = pytest.mark.collections


@pytest.mark.parametrize(
    ("name", "flags", "published"),
    [
        ("cacm", [], {"AP": 0.3123, "P@30": 0.1942}),
        ("cacm", ["--rm3"], {"AP": 0.3648}),
        ("cacm", ["--rocchio"], {"AP": 0.3600}),
        ("cacm", ["--qld"], {"AP": 0.3265}),
        ("cacm", ["--qld", "--rm3"], {"AP": 0.3629}),
        ("nfcorpus", [], {"nDCG@10": 0.3218}),
        ("nfcorpus", ["--rm3"], {"AP": 0.1840}),
        ("npl", [], {"AP": 0.2856}),
        ("npl", ["--rocchio"], {"AP": 0.2995}),
        ("cran", [], {"AP": 0.2791}),
        ("cran", ["--k1", "1.2", "--b", "0.75"], {"AP": 0.2953}),
        ("cisi", ["--qld", "--rm3"], {"AP": 0.2271}),
    ],
)
def test_published(collections, collection_index, tmp_path, name, flags, published):
    index = collection_index(name, "corpus.anserini.jsonl" if name == "cacm" else "corpus.jsonl")
    folder, output = collections / name, tmp_path / "run.txt"
    search.main(["--index", str(index.path), "--topics", str(folder / "topics.tsv"), "--output", str(output), *flags])
    qrels = read_qrels(folder / ("qrels.anserini.txt" if name == "cacm" else "qrels.txt"))
    result = evaluate(qrels, read_run(output), parse_measures(list(published)))
    assert {measure: f"{result.mean(measure):.4f}" for measure in published} == {
        measure: f"{value:.4f}" for measure, value in published.items()
    }


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (2.0, 0.75)])
@pytest.mark.parametrize("name", ["cacm", "cran", "npl"])
def test_numpy_bm25_is_bit_equal_to_lucene_on_every_hit(collections, collection_index, name, k1, b):
    index = collection_index(name, "corpus.anserini.jsonl" if name == "cacm" else "corpus.jsonl")
    topics = read_topics(collections / name / "topics.tsv")
    queries = index.lucene.queries(list(topics.values()), list(topics))
    hits = 0
    for query, result in zip(queries, index.lucene.search(queries, 1000, model=BM25Model(k1, b)), strict=True):
        ours = ranking_models.bm25_scores(
            index.forward, index.forward.term_ids(query.terms), query.weights, result.docs, k1=k1, b=b
        )
        np.testing.assert_array_equal(ours, result.scores)
        hits += result.depth
    assert hits > 50_000
