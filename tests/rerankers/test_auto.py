"""`auto`: works on any index without training, keeps the contract, says what it leaves out."""

import numpy as np
import pytest

from kernelsearch.api.pipeline import FirstStage, Pipeline
from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.rerankers.auto.reranker import WEIGHTS, AutoReranker
from kernelsearch.rerankers.fusion.features import parse
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO


def test_the_recipe_is_made_of_known_features():
    assert all(parse(name).kind for name in WEIGHTS) and all(weight > 0 for weight in WEIGHTS.values())


def test_auto_beats_the_first_stage_on_the_bundled_collection(demo_index):
    """Its weights were not chosen there."""
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    queries = demo_index.lucene.queries(list(topics.values()), list(topics))
    first, fused = (Pipeline(demo_index, FirstStage(hits=100), methods).search(queries) for methods in ([], [("auto", {})]))

    def worth(lists):
        run = {
            query.qid: list(zip(demo_index.forward.docids.take(found.docs), found.scores, strict=True))
            for query, found in zip(queries, lists, strict=True)
        }
        return evaluate(qrels, run, parse_measures(["AP"])).mean("AP")

    assert worth(fused) > worth(first)
    for found in fused:
        assert len(set(found.docs)) == found.depth <= 100 and (np.diff(found.scores) <= 0).all()


def test_the_sum_is_explained(demo_index):
    reranker = AutoReranker(demo_index)
    query = demo_index.query("dripping tap")
    found = demo_index.lucene.search([query], 30)[0]
    ranked = reranker.apply(query, found)
    told = reranker.explain(query, found, int(ranked.docs[2]))
    assert told.score == pytest.approx(float(ranked.scores[2])) and {part.label for part in told.contributions} == set(WEIGHTS)


def test_an_index_of_a_few_documents(tiny):
    query = tiny.query("tap water")
    found = tiny.lucene.search([query], 10)[0]
    ranked = AutoReranker(tiny).apply(query, found)
    assert set(found.docs) <= set(ranked.docs)


def test_an_index_without_document_vectors_goes_without_rm3(tmp_path, capsys):
    import kernelsearch
    from kernelsearch import index as index_verb
    from tests.conftest import TINY, write_jsonl

    source = write_jsonl(tmp_path / "corpus.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "index"), "--no-docvectors"])
    index = kernelsearch.open(tmp_path / "index")
    reranker = AutoReranker(index)
    assert "RM3 is left out" in capsys.readouterr().err
    assert not any(name.startswith("rm3") for name in reranker.recipe) and reranker.sources == ()
    query = index.query("tap water")
    assert reranker.apply(query, index.lucene.search([query], 10)[0]).depth
