"""Asymmetric kernels: values by hand, maps that give the scores back, agreement with Lucene."""

import math

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels.asymmetric import BM25, VSM, Dirichlet, JelinekMercer, Linear

ALL = [
    Linear(),
    VSM(),
    BM25(),
    BM25(k1=2, b=0.75),
    BM25(k3=8.0),
    Dirichlet(),
    Dirichlet(mu=20),
    JelinekMercer(),
    JelinekMercer(lam=0.7),
]
QUERY = Query("cat cat fish bird", ("cat", "fish", "bird"), (2.0, 1.0, 1.0))
DOCS = np.arange(4)


def lucene_idf(df, n=3):
    return math.log(1 + (n - df + 0.5) / (df + 0.5))


def test_vsm_by_hand(pets):
    cat, fish = lucene_idf(2), lucene_idf(2)
    expected = [2 * 2 * cat**2, fish**2, 2 * cat**2 + 3 * fish**2, 0]
    assert VSM().scores(pets, QUERY, DOCS) == pytest.approx(expected, rel=1e-6)


def test_bm25_by_hand(pets):
    k1, b, average = 2.0, 0.75, 9 / 3
    scores = BM25(k1=k1, b=b).scores(pets, QUERY, DOCS)

    def saturation(tf, length):
        return tf / (tf + k1 * ((1 - b) + b * length / average))

    idf = lucene_idf(2)
    expected = [2 * idf * saturation(2, 3), idf * saturation(1, 2), 2 * idf * saturation(1, 4) + idf * saturation(3, 4), 0]
    assert scores == pytest.approx(expected, rel=1e-6)
    both = BM25(k1=k1, b=b).documents(pets, np.array([0]), np.array([2]))
    assert both[0, 0] == pytest.approx(idf * saturation(2, 3) * saturation(1, 4), rel=1e-6)


def test_bm25_k3_saturates_repeated_query_terms(pets):
    once = BM25(k3=0.0).scores(pets, QUERY, DOCS)
    assert once == pytest.approx(BM25().scores(pets, Query("", ("cat", "fish"), (1.0, 1.0)), DOCS))
    assert BM25(k3=1.0).query_weights(QUERY) == pytest.approx([2 * 2 / 3, 1.0, 1.0])


def test_dirichlet_is_the_log_likelihood_up_to_a_constant(pets):
    mu, tokens = 50.0, 9
    result = Dirichlet(mu=mu).scores(pets, QUERY, np.arange(3))
    probability = {"cat": (3 + 1) / (tokens + 1), "fish": (4 + 1) / (tokens + 1)}
    counts = [{"cat": 2}, {"fish": 1}, {"cat": 1, "fish": 3}]
    likelihood = [
        sum(
            weight * math.log((row.get(term, 0) + mu * probability[term]) / (length + mu))
            for term, weight in (("cat", 2), ("fish", 1))
        )
        for row, length in zip(counts, (3, 2, 4), strict=True)
    ]
    constant = 2 * math.log(probability["cat"]) + math.log(probability["fish"])
    assert result == pytest.approx(np.array(likelihood) - constant, rel=1e-6)


def test_dirichlet_has_one_feature_more_than_there_are_terms(pets):
    kernel = Dirichlet(mu=50)
    features = kernel.document_features(pets, DOCS)
    assert features.shape == (4, len(pets.terms) + 1)
    assert features[0, -1] == pytest.approx(math.log(50 / 53))
    assert kernel.feature_terms(pets).tolist() == [0, 1, 2, -1]


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_the_maps_give_the_scores_back(kernel, topical):
    query = Query("", ("w001", "w050", "w120", "nowhere"), (1.0, 2.0, 1.0, 1.0))
    docs = np.arange(len(topical))
    product = kernel.document_features(topical, docs) @ kernel.query_features(topical, query).T
    assert kernel.scores(topical, query, docs) == pytest.approx(product.toarray().ravel(), abs=1e-5)


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_document_kernels_are_symmetric_and_positive_semi_definite(kernel, topical):
    docs = np.arange(len(topical))
    gram = kernel.documents(topical, docs, docs)
    assert np.allclose(gram, gram.T)
    values = np.linalg.eigvalsh(gram)
    assert values.min() >= -1e-8 * values.max()


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_rows_in_a_run_and_rows_picked_out_are_the_same(kernel, topical):
    run = kernel.document_features(topical, np.arange(10, 20)).toarray()
    picked = kernel.document_features(topical, np.arange(10, 20)[::-1]).toarray()
    assert np.array_equal(run, picked[::-1])
    assert np.allclose(kernel.document_features(topical, np.arange(10, 20), np.float32).toarray(), run, rtol=1e-5)


@pytest.mark.parametrize("kernel", ALL, ids=repr)
def test_unknown_terms_score_nothing(kernel, pets):
    assert kernel.scores(pets, Query("bird", ("bird",), (1.0,)), DOCS).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("kernel, k1, b", [(BM25(), 0.9, 0.4), (BM25(k1=2, b=0.75), 2.0, 0.75)], ids=repr)
def test_bm25_equals_lucene_to_the_bit(topical_index, kernel, k1, b):
    from kernelsearch.lucene.models import BM25Model as LuceneBM25

    queries = _queries(topical_index)
    for query, result in zip(queries, topical_index.lucene.search(queries, 200, model=LuceneBM25(k1, b)), strict=True):
        assert result.depth > 0
        assert np.array_equal(kernel.scores(topical_index.forward, query, result.docs), result.scores)


def test_jelinek_mercer_equals_lucene(topical_index):
    from kernelsearch.lucene.models import JelinekMercerModel

    queries = _queries(topical_index)
    for query, result in zip(queries, topical_index.lucene.search(queries, 200, model=JelinekMercerModel(0.3)), strict=True):
        assert JelinekMercer(lam=0.3).scores(topical_index.forward, query, result.docs) == pytest.approx(
            result.scores, rel=1e-4
        )


def _queries(index):
    """Queries from the collection's own frequent words, so that they match whatever it is about."""
    order = np.argsort(-index.forward.df)[10:100:15]
    words = index.forward.terms.take(order)
    return [Query.from_tokens("", words[:3]), Query.from_tokens("", [*words[3:], words[3]])]


@pytest.mark.parametrize(
    "make, word",
    [
        (lambda: BM25(b=1.5), "b 1.5"),
        (lambda: BM25(k1=-1), "k1 -1"),
        (lambda: Dirichlet(mu=0), "mu 0"),
        (lambda: JelinekMercer(lam=0), "lambda 0"),
        (lambda: BM25(k1=math.nan), "k1 nan"),
        (lambda: BM25(k1=math.inf), "k1 inf"),
        (lambda: BM25(b=math.nan), "b nan"),
        (lambda: BM25(k3=math.nan), "k3 nan"),
        (lambda: Dirichlet(mu=math.nan), "mu nan"),
        (lambda: Dirichlet(mu=math.inf), "mu inf"),
        (lambda: JelinekMercer(lam=math.nan), "lambda nan"),
    ],
)
def test_parameters_out_of_range_are_refused(make, word):
    with pytest.raises(OptionError, match=word):
        make()
