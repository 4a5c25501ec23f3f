"""Tables of features stand for `train --rerank fusion` and its model, with votes of the training topics and with vectors."""

import numpy as np
import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.recipes import hybrid_weights
from kernelsearch.rerankers.fusion.training_queries import TrainingQueries
from kernelsearch.rerankers.fusion.training_table import FeaturePlan, FeatureTables
from kernelsearch.trec import read_qrels, read_topics
from kernelsearch.vectors import store
from kernelsearch.vectors.readers import open_vectors
from tests.conftest import DEMO
from tools.reproduce.fusion_conditions import VOTES, compute, recipe_of


@pytest.fixture
def index_with_vectors(tmp_path):
    """The bundled collection with random vectors of documents and queries, its topics and judgements."""
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    index_verb.main(["--input", str(DEMO / "corpus.jsonl"), "--index", str(tmp_path / "index")])
    built = kernelsearch.open(tmp_path / "index")
    generator = np.random.default_rng(0)
    for name, ids in (("documents", built.forward.docids.take(np.arange(len(built.forward)))), ("queries", list(topics))):
        np.savez(tmp_path / f"{name}.npz", ids=np.array(ids), vectors=generator.normal(size=(len(ids), 8)))
    store.import_vectors(store.place(built.artefacts, "v"), built.forward, open_vectors(tmp_path / "documents.npz"))
    vectors = {"name": "v", "queries": str(tmp_path / "queries.npz")}
    return kernelsearch.open(tmp_path / "index", vectors=vectors), topics, qrels


def test_a_table_has_the_features_that_a_model_learns_from(index_with_vectors, tmp_path):
    """Recipe and sources are those of a trained model, features those of `train`: with all votes, and with unrelated ones."""
    index, topics, qrels = index_with_vectors
    qids = [qid for qid in topics if any(grade > 0 for grade in qrels.get(qid, {}).values())][:6]
    topics = {qid: topics[qid] for qid in qids}
    topics[qids[1]], qrels[qids[1]] = topics[qids[0]] + " quickly", qrels[qids[0]]  # the first two are related
    recipe = recipe_of(hybrid_weights(index, "v"), "v")
    table = compute(index, topics, qrels, None, tmp_path / "table.npz", recipe)

    learned = np.arange(6) < 5
    queries = index.lucene.queries(list(topics.values()), qids)
    training = {qid: topics[qid] for qid in qids[:5]}
    trained = models.load(index.train("fusion", topics=training, qrels=qrels, output=tmp_path / "m", learner="combsum"))
    assert set(trained.recipe) == {*recipe.fixed, VOTES} and set(trained.notes["sources"]) == set(recipe.sources)
    voting = TrainingQueries.of(queries[:5], qrels)
    plan = FeaturePlan(index, trained.recipe, tuple(trained.notes["sources"]), BM25Model(), voting, 1000, "z")
    maker = FeatureTables(plan)
    columns = [trained.recipe.index(name) for name in (*recipe.fixed, VOTES)]
    changed = 0
    for topic, expected in enumerate(maker.make(queries[:5])):
        others = learned & (np.arange(6) != topic)
        entry = table.entry(topic, others)
        docs = table.docs[table.starts[topic] : table.starts[topic + 1]][entry.pool]
        mine, order = np.argsort(docs), np.argsort(expected.docs)
        assert docs[mine].tolist() == expected.docs[order].tolist()
        assert entry.features[mine] == pytest.approx(expected.features[order][:, columns], abs=2e-3)
        new = table.entry(topic, others & ~table.related[topic], entry.pool).features[mine]
        assert new == pytest.approx(maker.unrelated(expected)[order][:, columns], abs=2e-3)
        assert table.nearness(topic, others) == pytest.approx(expected.nearness, abs=1e-6)
        changed += not np.allclose(new, entry.features[mine])
    assert changed >= 2
