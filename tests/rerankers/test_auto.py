"""`auto`: works on any index without training, keeps the contract, says what it leaves out."""

import numpy as np
import pytest

import kernelsearch
from kernelsearch.api.pipeline import FirstStage, Pipeline
from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.types import Candidates
from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.kernels.pyramid.matching import Matcher
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.rerankers.auto import reranker as auto_reranker
from kernelsearch.rerankers.auto.reranker import AutoReranker
from kernelsearch.rerankers.auto.settings import AutoSettings
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.fusion.base import PooledReranker
from kernelsearch.rerankers.fusion.features import Features, parse
from kernelsearch.rerankers.fusion.features.reordered import READ
from kernelsearch.rerankers.fusion.inputs import Inputs
from kernelsearch.rerankers.fusion.recipes import AUTO_WEIGHTS, READING_WEIGHTS
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO, build_texts


class FirstAndFeedback(PooledReranker[AutoSettings]):
    """A fusion whose features share searches and expansions within a query."""

    method = AutoReranker.method
    learner, recipe = CombSUM(normalise="none"), ("first", "rm", "rm3", "rocchio", "klsa")

    def __init__(self, index):
        super().__init__(index)
        self.inputs = Inputs(index, self.recipe, sources=("rm", "rm3"), depth=self.settings.depth, option=Flag("rerank"))

    def importance(self):
        return np.full(len(self.recipe), 1 / len(self.recipe))


def test_the_recipe_is_made_of_known_features():
    assert all(parse(name).kind for name in READING_WEIGHTS) and all(weight > 0 for weight in READING_WEIGHTS.values())


def test_auto_beats_the_first_stage_on_the_bundled_collection(demo_index):
    """Its weights were not chosen there."""
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    queries = demo_index.lucene.queries(list(topics.values()), list(topics))
    first, fused = (Pipeline(demo_index, FirstStage(hits=100), methods).search(queries) for methods in ([], [("auto", {})]))

    def worth(lists):
        run = {
            query.qid: list(zip(demo_index.forward.docids.take(candidates.docs), candidates.scores, strict=True))
            for query, candidates in zip(queries, lists, strict=True)
        }
        return evaluate(qrels, run, parse_measures(["AP"])).mean("AP")

    assert worth(fused) > worth(first)
    for candidates in fused:
        assert len(set(candidates.docs)) == candidates.depth <= 100 and (np.diff(candidates.scores) <= 0).all()


@pytest.mark.parametrize("recipe", [AutoReranker, FirstAndFeedback])
def test_a_batch_and_threads_change_nothing(demo_index, recipe):
    queries = demo_index.lucene.queries(list(read_topics(DEMO / "topics.tsv").values())[:6])
    lists = [*demo_index.lucene.search(queries, 50)[:-1], Candidates(np.zeros(0, np.int32), np.zeros(0))]
    alone = [recipe(demo_index).apply(query, listed) for query, listed in zip(queries, lists, strict=True)]
    for threads in (1, 3):
        together = recipe(demo_index).apply_batch(queries, lists, Context(threads=threads))
        for expected, result in zip(alone, together, strict=True):
            np.testing.assert_array_equal(expected.docs, result.docs)
            np.testing.assert_array_equal(expected.scores, result.scores)


def test_feedback_documents_are_matched_once(demo_index, monkeypatch):
    """The language model scores BM25's best documents for feedback and the sum's best ones for ranking: each one once."""
    scored, match = [], Matcher.scores_of_words

    def counted(matcher, rows, texts):
        scored.append(len(texts.starts))
        return match(matcher, rows, texts)

    monkeypatch.setattr(Matcher, "scores_of_words", counted)
    monkeypatch.setattr(auto_reranker, "MATCHED", 60)
    queries = demo_index.lucene.queries(list(read_topics(DEMO / "topics.tsv").values())[:3])
    lists = demo_index.lucene.search(queries, 100)
    reranker, context = AutoReranker(demo_index), Context(hits=100)
    pairs = list(zip(queries, lists, strict=True))
    pools = [reranker.inputs.table(*pair, context)[0].docs for pair in pairs]
    matched = [reranker.fused(*pair, context).candidates.docs for pair in pairs]
    expected = [len(np.union1d(best, pool[:READ])) for best, pool in zip(matched, pools, strict=True)]
    scored.clear()
    AutoReranker(demo_index).apply_batch(queries, lists, context)
    assert sum(scored) == sum(expected) < 3 * (60 + READ)


def test_the_sum_is_explained(demo_index):
    reranker = AutoReranker(demo_index)
    query = demo_index.query("dripping tap")
    candidates = demo_index.lucene.search([query], 30)[0]
    ranked = reranker.apply(query, candidates)
    explanation = reranker.explain(query, candidates, int(ranked.docs[2]))
    assert explanation.score == pytest.approx(float(ranked.scores[2])) and {
        part.label for part in explanation.contributions
    } == set(READING_WEIGHTS)


def test_an_index_of_a_few_documents(tiny):
    query = tiny.query("tap water")
    candidates = tiny.lucene.search([query], 10)[0]
    ranked = AutoReranker(tiny).apply(query, candidates)
    assert set(candidates.docs) <= set(ranked.docs)


def test_an_index_without_positions_and_vectors_matches_by_the_first_stage(tmp_path):
    import kernelsearch
    from kernelsearch import index as index_verb
    from tests.conftest import TINY, write_jsonl

    source = write_jsonl(tmp_path / "corpus.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(tmp_path / "index"), "--no-docvectors", "--no-positions"])
    index = kernelsearch.open(tmp_path / "index")
    reranker = AutoReranker(index)
    assert "not in use: mslm (the index stores no positions" in reranker.parts_in_use
    assert reranker.recipe[0] == "first" and not any("mslm" in name for name in reranker.recipe)
    assert set(AUTO_WEIGHTS) - {"mslm"} < set(reranker.recipe)  # feedback by the first stage, with its own sharpness
    query = index.query("tap water")
    assert reranker.apply(query, index.lucene.search([query], 10)[0]).depth


def test_a_large_index_without_a_graph_matches_by_positions(tiny, monkeypatch):
    monkeypatch.setattr("kernelsearch.rerankers.fusion.recipes.has_graph", lambda index: False)
    reranker = AutoReranker(tiny)
    recipe = reranker.recipe
    assert recipe[0] == "mslm:semantic=0" and "read:mslm:semantic=0/rm:sharpness=10" in recipe
    parts = dict(reranker.parts)
    assert parts["mslm"] is None and "--rerank mslm" in parts["related words"]


def z(columns):
    """Columns with mean 0 and deviation 1, constant ones 0."""
    deviation = columns.std(axis=0)
    return np.divide(columns - columns.mean(axis=0), deviation, out=np.zeros_like(columns), where=deviation > 0)


@pytest.mark.parametrize("matched", [5, 1000])
def test_the_score_is_the_weighted_sum_of_z_scores(demo_index, monkeypatch, matched):
    """Against each feature on its own: a sum with the first stage's score chooses whom the language model matches.

    Feedback is computed from the first stage's best documents in the order of the language model, on the first stage's scale.
    """
    monkeypatch.setattr("kernelsearch.rerankers.auto.reranker.MATCHED", matched)
    query = demo_index.query("paint flaking off the ceiling")
    candidates = demo_index.lucene.search([query], 1000)[0]
    monkeypatch.setattr("kernelsearch.rerankers.fusion.features.reordered.READ", 15)
    names, weights = list(READING_WEIGHTS), np.array(list(READING_WEIGHTS.values()))
    pool = Features(demo_index, ["first"], sources=["rm"]).pool([query], [candidates], candidates.depth)[0]
    head = Candidates(pool.docs[:15], pool.scores[:15])
    matched_head = z(Features(demo_index, names[:1]).tables([query], [head])[0])[:, 0]
    scores = pool.scores.astype(float)
    scores[:15] = head.scores.mean() + matched_head * head.scores.std()
    scores[15:] = np.minimum(scores[15:], scores[:15].min())
    order = np.argsort(-scores, kind="stable")
    feedback = np.empty((pool.depth, 3))
    feedback[order] = Features(demo_index, [name.partition("/")[2] for name in names[2:5]]).tables(
        [query], [Candidates(pool.docs[order], scores[order])]
    )[0]
    first = Features(demo_index, ["first", names[1]]).tables([query], [pool])[0]
    posteriors = np.zeros((pool.depth, 2))
    for column, ranked_scores, places in ((0, pool.scores.astype(float), np.arange(20)), (1, scores, order[:20])):
        raw = np.exp(10 * ranked_scores[places] / ranked_scores[places[0]])
        posteriors[places, column] = raw / raw.sum()
    table = np.column_stack([first, feedback, posteriors])
    wide = z(table) @ weights
    best = np.sort(np.argsort(-wide, kind="stable")[:matched])
    chosen = Candidates(pool.docs[best], pool.scores[best])
    match = Features(demo_index, names[:1]).tables([query], [chosen])[0]
    final = z(np.column_stack([match, table[best, 1:]])) @ weights
    by_sum, by_match = (np.argsort(-values, kind="stable").tolist() for values in (final, match[:, 0]))
    bounded = sorted(by_sum, key=lambda place: min(by_sum.index(place) + 1, 1.5 * (by_match.index(place) + 1)))
    ranked = AutoReranker(demo_index).apply(query, candidates)
    shown = min(len(best), ranked.depth)
    assert ranked.docs[:shown].tolist() == chosen.docs[bounded][:shown].tolist()
    for place, score in zip(bounded, ranked.scores[:shown].tolist(), strict=False):
        if by_sum.index(place) + 1 <= 1.5 * (by_match.index(place) + 1):  # not moved up
            assert score == pytest.approx(final[place], abs=1e-9)
    others = [row for row in pool.docs[np.argsort(-wide, kind="stable")].tolist() if row not in chosen.docs]
    assert ranked.docs[shown:].tolist() == others[: ranked.depth - shown]
    assert (np.diff(ranked.scores) <= 0).all() and len(set(ranked.docs.tolist())) == ranked.depth


def test_the_explanation_names_the_feedback_documents(demo_index):
    query = demo_index.query("dripping tap")
    candidates = demo_index.lucene.search([query], 30)[0]
    notes = AutoReranker(demo_index).explain(query, candidates, int(candidates.docs[0])).notes
    match = z(Features(demo_index, ["mslm"]).tables([query], [candidates])[0])[:, 0]
    scores = candidates.scores.mean() + match * candidates.scores.std()
    order = np.argsort(-scores, kind="stable")[:20]
    raw = np.exp(10 * scores[order] / scores[order[0]])
    documents = notes["feedback"]["documents"]
    assert [entry["weight"] for entry in documents] == pytest.approx((raw / raw.sum()).tolist(), abs=1e-4)
    assert [entry["docid"] for entry in documents] == demo_index.forward.docids.take(candidates.docs[order])
    assert 1 <= notes["feedback"]["effective"] <= 20
    raw = np.exp(10 * candidates.scores[:20].astype(float) / float(candidates.scores[0]))
    assert notes["certainty"] == {
        "docid": demo_index.forward.docids[int(candidates.docs[0])],
        "probability": pytest.approx(raw[0] / raw.sum(), abs=1e-4),
    }


def test_the_explanation_says_how_far_feedback_goes_and_why(demo_index):
    """The parts of match, feedback and certainty sum to the score; the sentences have the figures of the notes.

    tests/rerankers/test_auto_bound.py has a document that the bound on feedback moves up.
    """
    query = demo_index.query("dripping tap")
    candidates = demo_index.lucene.search([query], 30)[0]
    explanation = AutoReranker(demo_index).explain(query, candidates, int(candidates.docs[1]))
    by_name = {part.label: part.value for part in explanation.contributions}
    decision = explanation.notes["decision"]
    assert decision["parts"] == pytest.approx(
        {
            "match": by_name["mslm"] + by_name["bm25:field=title"],
            "feedback": sum(value for name, value in by_name.items() if name.startswith("read:") and "posterior" not in name),
            "certainty": by_name["posterior:sharpness=10"] + by_name["read:mslm/posterior:sharpness=10"],
        },
        abs=1e-4,
    )
    assert sum(decision["parts"].values()) == pytest.approx(explanation.score, abs=3e-4)
    first, probability = demo_index.forward.docids[int(candidates.docs[0])], explanation.notes["certainty"]["probability"]
    assert decision["reasons"] == [
        f"feedback: 20 documents that count as much as {explanation.notes['feedback']['effective']:g} equal ones",
        f"certainty: the first stage gives {first} a probability of {probability:.2f} among its best",
    ]
    assert explanation.lines()[-2:] == decision["reasons"] and explanation.lines()[-3].startswith("of the score: ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("read", "feature read: None should read MATCH/FEATURE"),
        ("read:mslm", "feature read: 'mslm' should read MATCH/FEATURE"),
        ("read:mslm/nothing", "unknown feature 'nothing'"),
        ("read:nothing/rm", "unknown feature 'nothing'"),
    ],
)
def test_read_features_that_cannot_be_made_are_refused(tiny, name, message):
    with pytest.raises(OptionError, match=message):
        Features(tiny, [name])


def test_a_posterior_sums_to_one_and_is_high_for_a_document_that_scores_alone(tiny):
    query = tiny.query("tap water")
    docs = np.arange(4, dtype=np.int32)
    alone, alike = (
        Features(tiny, ["posterior:docs=3,sharpness=10"]).tables([query], [Candidates(docs, np.array(scores))])[0][:, 0]
        for scores in ([10.0, 2.0, 2.0, 1.0], [10.0, 10.0, 10.0, 1.0])
    )
    assert alone[0] == pytest.approx(1 / (1 + 2 * np.exp(-8))) and alone[3] == 0
    assert alike == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])


def test_equal_documents_are_matched_by_docid_and_the_list_is_kept(tmp_path, monkeypatch):
    """Two documents of one text: the lower docid is the one that is matched; documents beyond the depth follow at the end."""
    monkeypatch.setattr("kernelsearch.rerankers.auto.reranker.MATCHED", 1)
    texts = {"b": "pump seal water", "a": "pump seal water", **{f"c{n}": f"pump {'pipe ' * n}" for n in range(1, 7)}}
    opened = kernelsearch.open(build_texts(tmp_path, texts))
    query = opened.query("pump seal")
    listed = opened.lucene.search([query], 20)[0]
    assert listed.depth == 8 and opened.forward.docids.take(listed.docs[:2]) == ["a", "b"]
    for depth in (3, 8):
        ranked = AutoReranker(opened, depth=depth).apply(query, listed)
        assert opened.forward.docids.take(ranked.docs[:2]) == ["a", "b"]
        assert sorted(ranked.docs.tolist()) == sorted(listed.docs.tolist()) and (np.diff(ranked.scores) < 0).all()


@pytest.mark.parametrize("changed", ["scores", "hits"])
def test_a_list_of_the_same_documents_is_ranked_anew(demo_index, changed):
    """The same reranker after another first stage that listed the same documents."""
    query = demo_index.query("grout")
    first = demo_index.lucene.search([query], 1000)[0]
    context = Context(hits=1000)
    reranker = AutoReranker(demo_index)
    before = reranker.apply(query, first, context)
    if changed == "scores":
        first = Candidates(first.docs, np.linspace(9, 1, first.depth, dtype=np.float32) ** 2)
    else:
        context = Context(hits=first.depth)
    after, expected = (ranker.apply(query, first, context) for ranker in (reranker, AutoReranker(demo_index)))
    assert after.docs.tolist() == expected.docs.tolist() and after.scores.tolist() == expected.scores.tolist()
    assert after.scores.tolist() != before.scores.tolist()
