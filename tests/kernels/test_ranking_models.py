"""First-stage scores term by term, against counts of the token lists and Lucene's, with the compiled loops and without; and the
weights that documents get by their scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelsearch.core import compiled
from kernelsearch.core.types import Query
from kernelsearch.kernels import ranking_models
from kernelsearch.kernels.asymmetric import VSM, Dirichlet, JelinekMercer, LogEntropy
from kernelsearch.kernels.documents import Cosine
from kernelsearch.kernels.queries import Queries, TermCosine
from kernelsearch.kernels.ranking_models import first_stage_scores, first_stage_term_scores
from kernelsearch.kernels.tfidf import TfidfVectors
from kernelsearch.lucene.models import BM25Model, DirichletModel, JelinekMercerModel

TEXTS = [
    "ant bee bee cow", "cow cow dog", "", "bee", "ant ant ant ant dog eel eel", "fox fox fox bee ant cow dog eel", "cow eel",
]  # fmt: skip
TOKENS = [text.split() for text in TEXTS]
WORDS = sorted({word for tokens in TOKENS for word in tokens})  # `ant` is the term with the number 0
QUERY = {"ant": 2.0, "fox": 0.5, "gnu": 3.0, "cow": 1.0, "bee": 1.5}
#: Rows in no order, one of them twice.
DOCS = np.array([5, 2, 0, 4, 1, 4, 6, 3])


@pytest.fixture(scope="module")
def animals(make_collection):
    return make_collection(TOKENS)


@pytest.fixture(params=["compiled", "numpy"])
def loops(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setenv(compiled.SWITCH, "0")
    elif compiled.loops() is None:
        pytest.skip("the loops are not compiled here")


def count(doc, word):
    return TOKENS[doc].count(word)


def df(word):
    return sum(word in tokens for tokens in TOKENS)


def idf(word):
    documents = sum(bool(tokens) for tokens in TOKENS)
    return math.log(1 + (documents - df(word) + 0.5) / (df(word) + 0.5))


def part(model, doc, word):
    """A word's part of a document's score by its definition, for a weight of 1."""
    tf, length, tokens = count(doc, word), len(TOKENS[doc]), sum(map(len, TOKENS))
    share = (sum(count(other, word) for other in range(len(TOKENS))) + 1) / (tokens + 1)
    if not tf:
        return 0.0
    if isinstance(model, BM25Model):
        average = tokens / sum(bool(text) for text in TOKENS)
        return idf(word) * tf / (tf + model.k1 * ((1 - model.b) + model.b * length / average))
    if isinstance(model, DirichletModel):
        return max(0.0, math.log(1 + tf / (model.mu * share)) + math.log(model.mu / (length + model.mu)))
    return math.log(1 + (1 - model.lam) * tf / length / (model.lam * share))


MODELS = [BM25Model(), BM25Model(2.0, 0.75), BM25Model(0.0, 0.4), BM25Model(1.2, 1.0),
          DirichletModel(0.5), DirichletModel(40.0), JelinekMercerModel(0.1), JelinekMercerModel(0.8)]  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_parts_and_sums_by_definition(animals, loops, model):
    words, weights = list(QUERY), list(QUERY.values())
    expected = np.array([[QUERY[word] * part(model, doc, word) for word in words] for doc in DOCS])
    terms = animals.term_ids(words)
    assert terms.min() == -1 and 0 in terms and (expected == 0).any(axis=0).all()
    assert first_stage_term_scores(animals, model, terms, weights, DOCS) == pytest.approx(expected, rel=1e-5)
    query = Query("", tuple(words), tuple(weights))
    assert first_stage_scores(animals, model, query, DOCS) == pytest.approx(expected.sum(axis=1), rel=1e-5)
    # A term that is there twice counts with the sum of its weights.
    again = Query("", (*words, words[0]), (*weights, 0.25))
    twice = [total + 0.25 * part(model, doc, words[0]) for total, doc in zip(expected.sum(axis=1), DOCS, strict=True)]
    assert first_stage_scores(animals, model, again, DOCS) == pytest.approx(twice, rel=1e-5)


@pytest.mark.parametrize("model", [BM25Model(), DirichletModel(), JelinekMercerModel()], ids=str)
def test_a_query_without_known_terms_scores_nothing(animals, make_collection, loops, model):
    for collection in (animals, make_collection([[], []])):
        docs = np.array([1, 0])
        assert first_stage_term_scores(collection, model, [-1, -1], [1.0, 2.0], docs).tolist() == [[0, 0], [0, 0]]
        for words in (("gnu",), ()):
            assert first_stage_scores(collection, model, Query("", words, (1.0,) * len(words)), docs).tolist() == [0, 0]


def tfidf(doc):
    return np.array([count(doc, word) * idf(word) for word in WORDS])


def unit(vector):
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def test_cosines_of_tfidf_by_definition(animals, loops):
    vectors = TfidfVectors(animals, DOCS)
    assert vectors.matrix.toarray() == pytest.approx(np.array([tfidf(doc) for doc in DOCS]), rel=1e-6)
    lengths = [np.linalg.norm(tfidf(doc)) for doc in DOCS]
    assert vectors.inverse_norms == pytest.approx([1 / length if length else 0 for length in lengths], rel=1e-6)
    asked = unit(np.array([QUERY.get(word, 0) * idf(word) for word in WORDS]))
    expected = [unit(tfidf(doc)) @ asked for doc in DOCS]
    assert vectors.query_cosines(animals.term_ids(QUERY), list(QUERY.values())) == pytest.approx(expected, rel=1e-6)
    query = Query("", tuple(QUERY), tuple(QUERY.values()))
    assert Cosine().scores(animals, query, DOCS) == pytest.approx(expected, rel=1e-6)
    for weights in ([0.5, 0.1, 0.3, 0.1], [1.0], [0.2, 0.3]):
        centre = sum(weight * unit(tfidf(doc)) for weight, doc in zip(weights, DOCS, strict=False))
        fresh = TfidfVectors(animals, DOCS)  # the inverse norms of the other one are known already
        assert fresh.mean_cosines(np.array(weights)) == pytest.approx([unit(tfidf(doc)) @ centre for doc in DOCS], rel=1e-6)


def test_vsm_and_log_entropy_by_definition(animals):
    query = Query("", tuple(QUERY), tuple(QUERY.values()))
    asked = np.array([QUERY.get(word, 0) for word in WORDS])
    squares = np.array([idf(word) ** 2 for word in WORDS])
    counts = np.array([[count(doc, word) for word in WORDS] for doc in DOCS])
    assert VSM().scores(animals, query, DOCS) == pytest.approx(counts @ (squares * asked), rel=1e-6)
    # g = 1 + Σ p log p / log N over the documents, empty ones included.
    every = np.array([[count(doc, word) for word in WORDS] for doc in range(len(TOKENS))])
    share = every / every.sum(axis=0)
    spread = np.where(share > 0, share * np.log(np.where(share > 0, share, 1)), 0).sum(axis=0)
    entropy = 1 + spread / math.log(len(TOKENS))
    expected = np.log1p(counts) @ (entropy**2 * np.log1p(asked))
    assert LogEntropy().scores(animals, query, DOCS) == pytest.approx(expected)


@pytest.mark.parametrize("parameter", [0.1, 0.5, 0.8])
def test_language_models_by_definition(animals, parameter):
    """log(1 + tf / μP) and log(μ / (len + μ)) for each term of the query; log(1 + (1 - λ) tf / len / λP)."""
    query = Query("", tuple(QUERY), tuple(QUERY.values()))
    docs = [doc for doc in DOCS.tolist() if TOKENS[doc]]
    known = {word: weight for word, weight in QUERY.items() if word in WORDS}
    share = {word: (sum(tokens.count(word) for tokens in TOKENS) + 1) / (sum(map(len, TOKENS)) + 1) for word in known}
    mu, lam = 10 * parameter, parameter
    dirichlet = [
        sum(
            w * (math.log(1 + count(doc, t) / mu / share[t]) + math.log(mu / (len(TOKENS[doc]) + mu))) for t, w in known.items()
        )
        for doc in docs
    ]
    mercer = [
        sum(w * math.log(1 + (1 - lam) * count(doc, t) / len(TOKENS[doc]) / lam / share[t]) for t, w in known.items())
        for doc in docs
    ]
    assert Dirichlet(mu).scores(animals, query, np.array(docs)) == pytest.approx(dirichlet)
    assert JelinekMercer(lam).scores(animals, query, np.array(docs)) == pytest.approx(mercer)


def test_query_kernels_by_definition(animals):
    """Counts times idf; a word that the index lacks has the idf of no document."""
    asked = [{"ant": 2.0, "cow": 1.0}, {"ant": 1.0, "gnu": 1.0, "bee": 3.0}, {"gnu": 2.0, "fox": 1.0}, {}]
    batch = Queries.make([Query("", tuple(words), tuple(words.values())) for words in asked], animals)
    names = [*WORDS, "gnu"]

    rows = np.array([unit(np.array([words.get(word, 0.0) * idf(word) for word in names])) for words in asked])
    features = TermCosine().features(batch)
    assert (features @ features.T).toarray() == pytest.approx(rows @ rows.T, abs=1e-6)


@pytest.mark.parametrize(
    "model", [DirichletModel(50.0), DirichletModel(1000.0), JelinekMercerModel(0.1), JelinekMercerModel(0.7)]
)
def test_parts_of_query_likelihood_sum_to_lucene_scores(tiny, model):
    index = tiny.forward
    query = Query("", ("water", "washer", "panel", "unheardof"), (1.0, 2.5, 0.5, 1.0))
    result = tiny.lucene.search([query], 10, model=model)[0]
    assert result.depth == 3
    terms = index.term_ids(query.terms)
    if isinstance(model, DirichletModel):
        parts = ranking_models.dirichlet_term_scores(index, terms, query.weights, result.docs, mu=model.mu)
    else:
        parts = ranking_models.jelinek_mercer_term_scores(index, terms, query.weights, result.docs, lam=model.lam)
    np.testing.assert_allclose(parts.sum(axis=1), result.scores, rtol=1e-6)
    assert (parts >= 0).all() and (parts[:, 3] == 0).all()


def test_defaults_of_the_kernels_are_those_of_the_first_stage():
    assert (JelinekMercer().lam, Dirichlet().mu) == (JelinekMercerModel().lam, DirichletModel().mu)


def test_document_weights_of_the_best_documents():
    scores = np.array([[4.0, 2.0, 3.0], [1.0, -np.inf, 1.0], [-np.inf] * 3])
    soft = ranking_models.document_weights(scores, 2, temperature=0.5)
    np.testing.assert_allclose(soft[0], [1 / (1 + np.exp(-2)), 0, np.exp(-2) / (1 + np.exp(-2))])
    np.testing.assert_allclose(soft[1:], [[0.5, 0, 0.5], [0, 0, 0]])


def test_softmax_weights_survive_large_scores():
    np.testing.assert_allclose(ranking_models.document_weights(np.array([[5000.0, 5000.0]]), 2), [[0.5, 0.5]])


def test_posterior_weights_fall_with_the_score_relative_to_the_best():
    weights = ranking_models.posterior_weights(np.array([10.0, 8.0, 5.0, 0.0]), docs=3, sharpness=5)
    assert weights == pytest.approx(np.exp([0, -1, -2.5]) / np.exp([0, -1, -2.5]).sum())
    for scale in (2.0, 0.01):
        assert ranking_models.posterior_weights(scale * np.array([10.0, 8.0, 5.0]), 3, 5) == pytest.approx(weights)
    assert ranking_models.posterior_weights(np.array([10.0, 8.0]), sharpness=0) == pytest.approx([0.5, 0.5])


def test_posterior_weights_of_odd_lists():
    assert len(ranking_models.posterior_weights(np.zeros(0))) == 0
    assert ranking_models.posterior_weights(np.zeros(4)) == pytest.approx(np.full(4, 0.25))
    # Log probabilities: the lowest score of the list takes the place of 0.
    assert ranking_models.posterior_weights(np.array([-2.0, -3.0, -4.0]), 2, 1) == pytest.approx(
        np.exp([1, 0.5]) / np.exp([1, 0.5]).sum()
    )


def test_effective_documents_count_weights():
    assert ranking_models.effective_documents(np.array([1.0, 0.0])) == pytest.approx(1)
    assert ranking_models.effective_documents(np.full(8, 1 / 8)) == pytest.approx(8)


def test_posterior_of_negative_scores_counts_from_the_lowest():
    scores = np.array([1.0, -1.0, -3.0])
    expected = np.exp(5 * (np.array([4.0, 2.0, 0.0]) / 4.0))
    assert ranking_models.posterior_weights(scores, sharpness=5) == pytest.approx(expected / expected.sum())


@pytest.mark.parametrize("docs", [1, 3, 30, 60, 90])
def test_document_weights_row_by_row(docs):
    """Sixty documents, some that a list doesn't hold and some with negative scores, as log probabilities are."""
    rng = np.random.default_rng(docs)
    scores = rng.permutation(300).reshape(5, 60) / 10 - 12.0
    scores[rng.random((5, 60)) < 0.3] = -np.inf
    scores[3] = -np.inf
    expected = np.zeros((5, 60))
    for row, values in enumerate(scores):
        best = [doc for doc in np.argsort(-values)[:docs].tolist() if np.isfinite(values[doc])]
        parts = [np.exp(values[doc] / 4.0) for doc in best]
        if sum(parts) > 0:
            expected[row, best] = np.array(parts) / sum(parts)
    assert ranking_models.document_weights(scores, docs, 4.0) == pytest.approx(expected)
    assert ranking_models.document_weights(scores[0], docs, 4.0) == pytest.approx(expected[:1])


def test_of_equal_scores_the_earlier_documents_are_the_best():
    scores = np.random.default_rng(0).integers(0, 6, (20, 200)).astype(float)
    weights = ranking_models.document_weights(scores, 10)
    for row, weight in zip(scores.tolist(), weights, strict=True):
        best = sorted(range(len(row)), key=lambda place: (-row[place], place))[:10]
        assert np.flatnonzero(weight).tolist() == sorted(best)
