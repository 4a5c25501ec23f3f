"""What docs/reproductions/auto.md is computed from: made topics, tables that stand for `auto`, and the choice of weights."""

import numpy as np
import pytest

from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.rerankers.auto.bound import FACTOR, lifts
from kernelsearch.rerankers.auto.reranker import MATCHED, AutoReranker
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.fusion.recipes import READING_WEIGHTS
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO
from tools.data.made_topics import CONVERSATION, abstracts, conclusions, known_items, posts
from tools.reproduce.auto import AUTO, choose, larger_text, settings
from tools.reproduce.auto_tables import Condition, bounded, computed, loaded, long_documents

SENTENCE = "the quick brown foxes jumped over seventeen lazy dogs near rivers"
RECORD = "\n\nCACM December, 1958\n\nPerlis, A. J.\n\nCA581203 JB March 22, 1978  8:28 PM\n\n100\t5\t1\n123\t5\t1"


def documents(count=12):
    return [
        {"id": str(number), "contents": f"One. Two. Three. Four {number}. {SENTENCE} number{'abcdefghijkl'[number]}.{RECORD}"}
        for number in range(count)
    ]


def test_known_items_without_codes_are_words_of_letters():
    topics, qrels = known_items(documents(), 10, noise=5, codes=False)
    assert len(topics) == 10 and all(len(answers) == 1 for answers in qrels.values())
    assert not any(character.isdigit() for text in topics.values() for character in text)
    assert any(character.isdigit() for text in known_items(documents(), 10, noise=5)[0].values() for character in text)


def test_posts_hold_words_of_their_document_amid_conversation():
    topics, qrels = posts(documents(), 10)
    for qid, text in topics.items():
        assert text.startswith("@") and "#" in text and "https://t.co/" in text and len(qrels[qid]) == 1
        words = [word for word in text.split() if word[0] not in "@#" and not word.startswith("http")]
        own = [
            word for word in words if word in f"{SENTENCE} One Two Three Four CACM December Perlis March" or "number" in word
        ]
        talk = [word for word in words if word not in own]
        assert len(own) >= 4 and len(talk) >= 4 and set(talk) <= set(CONVERSATION)


def test_a_conclusion_is_the_last_sentence_before_the_record():
    bodies, topics, qrels = conclusions(documents(), 5, codes=False)
    for qid, text in topics.items():
        (docid,) = qrels[qid]
        assert text.strip() == f"{SENTENCE} number{'abcdefghijkl'[int(docid)]}"
        assert bodies[int(docid)]["contents"] == f"One. Two. Three. Four {docid}.{RECORD}"


def test_abstracts_are_taken_out_and_ask_for_what_else_is_relevant():
    result = documents()
    judged = {"a": {"0": 1, "1": 1, "2": 2, "3": 0}, "b": {"1": 1, "4": 1, "5": 1}, "few": {"6": 1, "7": 1}}
    left, topics, answers = abstracts(result, judged, 10, words=6)
    removed = {document["id"] for document in result} - {document["id"] for document in left}
    assert set(topics) == {"a", "b"} and len(removed) == 2
    for qid, expected in answers.items():
        assert set(expected) == {docid for docid, grade in judged[qid].items() if grade > 0} - removed
        assert topics[qid].split() == ["One", "Two", "Three", "Four", *topics[qid].split()[4:6]]


def test_long_documents_are_joined_from_their_nearest(tmp_path):
    """Eight documents in two directions become two long ones; a long one has the highest grade of its parts."""
    texts = [{"id": f"d{number}", "contents": f"text{number}"} for number in range(8)]
    vectors = np.array([[1.0, 0.0] if number % 2 else [0.0, 1.0] for number in range(8)], dtype=np.float16)
    np.savez(tmp_path / "corpus.npz", ids=np.array([document["id"] for document in texts]), vectors=vectors)
    long, judged = long_documents(texts, {"q": {"d1": 1, "d3": 2, "d2": 0}}, tmp_path)
    words_of = {document["id"]: set(document["contents"].split()) for document in long}
    assert sorted(map(sorted, words_of.values())) == [[f"text{number}" for number in range(start, 8, 2)] for start in (0, 1)]
    odd = next(docid for docid, words in words_of.items() if "text1" in words)
    assert judged == {"q": {odd: 2, next(docid for docid in words_of if docid != odd): 0}}


def test_the_tables_rank_as_auto_does(demo_index):
    """Which of the best documents are relevant, and AP per topic: the sum over saved features against the reranker itself."""
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    qids = [qid for qid in topics if any(grade > 0 for grade in qrels.get(qid, {}).values())][:12]
    queries = demo_index.lucene.queries([topics[qid] for qid in qids], qids)
    condition = loaded("demo", "topical", "demo", computed(demo_index, queries, qrels))
    lists = demo_index.lucene.search(queries, 1000)
    ranked = AutoReranker(demo_index).apply_batch(queries, lists, Context(hits=1000))

    def ap(result):
        run = {
            query.qid: list(zip(demo_index.forward.docids.take(ranking.docs), ranking.scores, strict=True))
            for query, ranking in zip(queries, result, strict=True)
        }
        scores = evaluate({qid: qrels[qid] for qid in qids}, run, parse_measures(["AP"])).values["AP"]
        return [scores[qid] for qid in qids]

    hits = np.take_along_axis(condition.relevant, condition.order(READING_WEIGHTS, factor=FACTOR), axis=1)[:, :MATCHED]
    for query, ranking, marks in zip(queries, ranked, hits, strict=True):
        best = demo_index.forward.docids.take(ranking.docs[:MATCHED])
        assert marks[: len(best)].tolist() == [qrels[query.qid].get(docid, 0) > 0 for docid in best]
    assert AUTO.ap(condition) == pytest.approx(ap(ranked), abs=5e-3)  # those below are in a simpler order
    assert condition.base.mean() > np.mean(ap(lists))  # the same list, and then what the expanded query adds
    assert abs(AUTO.ap(condition) - condition.base).max() > 0.01
    assert abs(AUTO.ap(condition) - condition.ap(READING_WEIGHTS)).max() > 0.001  # without the bound


def test_the_sentence_on_more_topics_has_gains_errors_and_risk(monkeypatch):
    """By hand: two topics of AP .5; auto takes .1 from the first, 10 ± 7.1 percent, and mslm adds .25 to the second."""
    monkeypatch.setattr(
        Condition, "ap", lambda self, weights, factor: np.array([0.4, 0.5] if len(weights) > 1 else [0.5, 0.75])
    )
    rest = np.zeros(2)
    condition = Condition("a", "b", "c", *[rest] * 7, alone={"first": np.array([0.5, 0.5])})
    assert larger_text(condition) == "a (BM25 .5000): `auto` -10.0 ±7.1% (1/0, 0.1), `mslm` +25.0 ±17.7% (0/1)"


class Named:
    def __init__(self, name, kind, corpus):
        self.name, self.kind, self.corpus = name, kind, corpus


def test_the_largest_mean_over_kinds_is_chosen():
    """Test topics and the collection that is left out are not seen; a kind counts once, however many conditions it has."""
    result = [
        Named("cran", "topical", "cran"), Named("cisi", "topical", "cisi"), Named("nfcorpus", "topical", "nfcorpus"),
        Named("cran, titles", "titles", "cran"),
    ]  # fmt: skip
    gains = np.array([[0.20, 0.20, 0.0, 0.02], [0.18, 0.18, 0.9, 0.05], [0.10, 0.25, 0.0, 0.0]])
    assert choose(result, gains) == 1  # .115 against .11 and .0875
    assert choose(result, gains, "cran") == 2


def test_auto_is_among_the_settings_that_are_compared():
    assert AUTO in settings().values()
    assert len(settings()) == 32


def test_the_better_one_of_two_places_orders_documents():
    """By hand with a factor of 2: 3, first by match, has place 2 like 1, which has it by sum; 2, second by match, has 4."""
    order, match = np.array([[0, 1, 4, 5, 2, 3]]), np.array([[3, 2, 0, 1, 4, 5]])
    assert bounded(order, match, 2.0).tolist() == [[0, 1, 3, 4, 5, 2]]
    assert bounded(order, match, 0.1).tolist() == match.tolist()
    assert bounded(order, match, 6.0).tolist() == order.tolist()
    generator = np.random.default_rng(0)
    order, match = (np.array([generator.permutation(50) for _ in range(20)]) for _ in range(2))
    for by_sum, by_match, result in zip(order, match, bounded(order, match, 1.5), strict=True):
        sums = np.empty(50)
        sums[by_sum] = -np.arange(50.0)
        assert np.argsort(-(sums + lifts(sums, by_sum, by_match, 1.5))).tolist() == result.tolist()
