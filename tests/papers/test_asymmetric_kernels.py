"""Wu, Xu, Li & Oyama, "Asymmetric Kernel Learning" (2010).

Each equation once: dense numpy from token lists and raw impressions against the product. Equations without a number are
named by their section or theorem.
"""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import Bounds, minimize

from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.records import Impression
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels.asymmetric import BM25, VSM, Dirichlet, Linear
from kernelsearch.kernels.documents import Cosine
from kernelsearch.lucene.models import BM25Model, JelinekMercerModel
from kernelsearch.papers.rbm25.hyper import (
    EXPONENTIAL,
    GEOMETRIC,
    HYPERBOLIC,
    LOGARITHMIC,
    ClosedSeries,
    Combined,
    Hyper,
    Pairs,
    PowerSeries,
    precomputed,
    precomputed_relevance,
)
from kernelsearch.papers.rbm25.learned import PairExpansion, hyper_kernel
from kernelsearch.papers.rbm25.learner import AsymmetricKernelLearner
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.registry import method
from tests.papers.brute_force import WORDS, Dense, build, full_text, make_documents

TEXT = "w03 w03 w17 w41"
RNG = np.random.default_rng(2)
JELINEK_MERCER = JelinekMercerModel(0.3)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """An index, its documents as dense arrays, a click log and its impressions."""
    folder = tmp_path_factory.mktemp("akl")
    records = make_documents()
    for record, words in zip(records, np.random.default_rng(9).choice(WORDS[:15], size=(len(records), 3)), strict=True):
        record["url"] = " ".join(words)
    opened = build(folder, records, "--fields", "title,url")
    log = impressions(Dense([full_text(record) for record in records]))
    import_records(log, folder / "clicks.db")
    return opened, records, log, str(folder / "clicks.db")


def impressions(dense):
    """Four queries of the documents' words, one word twice, each with three lists of ten that have one or two clicks."""
    rng = np.random.default_rng(8)
    frequent = [WORDS[column] for column in np.argsort(-(dense.counts > 0).sum(axis=0))[:12]]
    out = []
    for number in range(4):
        text = " ".join([*frequent[number : number + 3], frequent[number + 1]])
        best = np.argsort(-dense.bm25(text), kind="stable")[:14]
        for _ in range(3):
            shown = rng.permutation(best)[:10]
            clicked = rng.random(10) < 0.2
            clicked[int(rng.integers(10))] = True
            out.append(Impression(text, tuple(f"d{doc:02d}" for doc in shown), tuple(range(1, 11)), tuple(clicked.tolist())))
    return out


# Section 3: asymmetric kernels


def all_scores(opened, kernel):
    return kernel.scores(opened.forward, Query.from_tokens(TEXT, TEXT.split()), np.arange(len(opened.forward)))


def test_section_3_2_1_vsm(collection):
    opened, records, _, _ = collection
    dense = Dense([full_text(record) for record in records])
    expected = (dense.counts * dense.idf) @ (dense.query(TEXT) * dense.idf)
    assert all_scores(opened, VSM()) == pytest.approx(expected, rel=1e-5)


def test_eq_1_bm25_with_k3(collection):
    """The product leaves out the constant factor (k1 + 1)."""
    opened, records, _, _ = collection
    dense = Dense([full_text(record) for record in records])
    k1, b, k3 = 1.2, 0.6, 2.0
    lengths = k1 * (1 - b + b * dense.lengths / dense.lengths.mean())
    documents = dense.idf * (k1 + 1) * dense.counts / (lengths[:, None] + dense.counts)
    weights = dense.query(TEXT)
    expected = documents @ ((k3 + 1) * weights / (k3 + weights)) / (k1 + 1)
    assert all_scores(opened, BM25(k1=k1, b=b, k3=k3)) == pytest.approx(expected, rel=1e-5)


def test_section_3_2_3_lmir(collection):
    opened, records, _, _ = collection
    dense, mu = Dense([full_text(record) for record in records]), 30.0
    features = np.log(1 + dense.counts / (mu * dense.probability))
    weights = dense.query(TEXT)
    expected = features @ weights + weights.sum() * np.log(mu / (dense.lengths + mu))
    assert all_scores(opened, Dirichlet(mu=mu)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("kernel", "combined"),
    [
        (-2.5 * BM25(), lambda bm25, vsm: -2.5 * bm25),
        (BM25() + VSM(), lambda bm25, vsm: bm25 + vsm),
        (BM25() * VSM(), lambda bm25, vsm: bm25 * vsm),
        (0.5 * (BM25() + VSM()) * VSM(), lambda bm25, vsm: 0.5 * (bm25 + vsm) * vsm),
    ],
    ids=["multiple", "sum", "product", "all"],
)
def test_lemma_1_multiples_sums_and_products_of_asymmetric_kernels(collection, kernel, combined):
    opened, records, _, _ = collection
    dense = Dense([full_text(record) for record in records])
    expected = combined(dense.bm25(TEXT), (dense.counts * dense.idf) @ (dense.query(TEXT) * dense.idf))
    assert all_scores(opened, kernel) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("factor", [2.5, -2.5])
def test_lemma_1_maps_of_multiples_and_sums(collection, factor):
    """√|α| on both sides, the sign on the query's; the features of a sum are those of its parts side by side."""
    opened, records, _, _ = collection
    dense, docs = Dense([full_text(record) for record in records]), np.arange(len(records))
    query = Query.from_tokens(TEXT, TEXT.split())
    kernel = factor * BM25() + VSM()
    documents, weights = kernel.document_features(opened.forward, docs), kernel.query_features(opened.forward, query)
    assert documents.shape[1] == weights.shape[1] == 2 * len(opened.forward.terms)
    expected = factor * dense.bm25(TEXT) + (dense.counts * dense.idf) @ (dense.query(TEXT) * dense.idf)
    assert (documents @ weights.T).toarray().ravel() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    saturated, tfidf = dense.saturation(0.9, 0.4) * np.sqrt(dense.idf), dense.counts * dense.idf
    gram = abs(factor) * saturated @ saturated.T + tfidf @ tfidf.T
    assert (documents @ documents.T).toarray() == pytest.approx(gram, rel=1e-5, abs=1e-6)
    assert kernel.documents(opened.forward, docs, docs) == pytest.approx(gram, rel=1e-5, abs=1e-6)


# Section 4: hyper asymmetric kernels


def semi_definite(size):
    x = RNG.normal(size=(size, size))
    return x @ x.T / size


KQ, KD, G = semi_definite(4), semi_definite(6), RNG.uniform(0.1, 1, size=(4, 6))
HYPER = Hyper(precomputed(KQ), precomputed(KD), precomputed_relevance(G))
ALL = Pairs(np.repeat(np.arange(4), 6), np.tile(np.arange(6), 4))


def brute_hyper(value):
    """A kernel over all pairs, entry by entry; `value` maps k_Q·k_D to the part between g and g'."""
    return np.array([
        [G[q, d] * value(KQ[q, r] * KD[d, e]) * G[r, e] for r in range(4) for e in range(6)]
        for q in range(4) for d in range(6)
    ])  # fmt: skip


def test_eq_2_the_learned_kernel_minimises_loss_and_norm():
    """Squared loss: the minimum over all expansions of Eq. 3, by the normal equations of the primal."""
    targets, lam = RNG.normal(size=24), 0.7
    gram = brute_hyper(lambda value: value)
    values, vectors = np.linalg.eigh(gram)
    features = vectors * np.sqrt(np.maximum(values, 0))
    weights = np.linalg.solve(features.T @ features + lam * np.eye(24), features.T @ targets)
    learned = AsymmetricKernelLearner(HYPER, lam=lam).fit_regression(ALL, targets)
    assert learned.predict(ALL) == pytest.approx(features @ weights, abs=1e-8)


def test_eq_3_the_learned_kernel_is_an_expansion_over_training_pairs():
    learned = AsymmetricKernelLearner(HYPER, lam=0.5).fit_regression(ALL, RNG.normal(size=24))
    assert learned.predict(ALL) == pytest.approx(brute_hyper(lambda value: value) @ learned.alpha_)


def test_eq_4_the_hyper_kernel():
    assert HYPER(ALL, ALL) == pytest.approx(brute_hyper(lambda value: value))


def test_theorem_1_the_hyper_kernel_is_positive_semi_definite_for_any_g():
    g = RNG.normal(size=(4, 6))
    gram = Hyper(precomputed(KQ), precomputed(KD), precomputed_relevance(g))(ALL, ALL)
    expected = [
        [g[q, d] * KQ[q, r] * KD[d, e] * g[r, e] for r in range(4) for e in range(6)] for q in range(4) for d in range(6)
    ]
    assert gram == pytest.approx(np.array(expected))
    assert (g < 0).any() and np.linalg.eigvalsh(gram).min() > -1e-10


def test_theorem_2_the_learned_kernel_is_a_kernel_with_maps(collection):
    """k*(q, d) = g(q, d) Σ α_i g(q_i, d_i) k_Q(q, q_i) k_D(d, d_i), for queries and documents outside of the training pairs."""
    opened, records, log, _ = collection
    forward, dense = opened.forward, Dense([full_text(record) for record in records])
    texts = list(dict.fromkeys(record.query for record in log))[:3]
    queries, docs = opened.lucene.queries(texts), [1, 4, 7, 9]
    hyper = hyper_kernel(forward, queries, docs, VSM(), Cosine(), BM25())
    better, worse = Pairs([0, 1, 2], [0, 1, 2]), Pairs([0, 1, 2], [3, 2, 1])
    learner = AsymmetricKernelLearner(hyper, lam=0.3).fit_ranking(better, worse)
    kernel = learner.as_kernel(forward)
    cosine = dense.cosine() @ dense.cosine().T
    asked = WORDS[0] + " " + texts[1]

    def tfidf(text):
        return np.array([text.split().count(word) * dense.idf[place] for place, word in enumerate(WORDS)])

    expected = np.zeros(len(records))
    for query, doc, alpha in zip(learner.pairs_.queries, learner.pairs_.docs, learner.alpha_, strict=True):
        gain = dense.bm25(texts[query], 0.9, 0.4)[docs[doc]]
        expected += alpha * gain * (tfidf(asked) @ tfidf(texts[query])) * cosine[docs[doc]]
    everything, query = np.arange(len(records)), opened.lucene.queries([asked])[0]
    assert np.abs(learner.alpha_).max() > 0
    assert kernel.scores(forward, query, everything) == pytest.approx(
        dense.bm25(asked, 0.9, 0.4) * expected, rel=1e-4, abs=1e-6
    )
    # It agrees with the learner on the numbered pairs, its sum has explicit maps, and it composes.
    pairs = Pairs([0, 1, 2, 2], [2, 3, 0, 1])
    predicted = [
        kernel.scores(forward, queries[q], np.array([docs[d]]))[0] for q, d in zip(pairs.queries, pairs.docs, strict=True)
    ]
    assert predicted == pytest.approx(learner.predict(pairs), rel=1e-6)
    expansion = kernel.right
    assert isinstance(expansion, PairExpansion) and expansion.has_map
    maps = expansion.document_features(forward, everything) @ expansion.query_features(forward, query).T
    assert maps.toarray().ravel() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert expansion.documents(forward, everything, everything) == pytest.approx(
        (expansion.document_features(forward, everything) @ expansion.document_features(forward, everything).T).toarray()
    )
    both = 2 * kernel + BM25()
    assert both.scores(forward, query, everything) == pytest.approx(
        2 * kernel.scores(forward, query, everything) + BM25().scores(forward, query, everything)
    )


def test_theorem_3_the_power_series():
    expected = brute_hyper(lambda value: 0.5 + 0.3 * value + 0.2 * value**2)
    assert PowerSeries(HYPER, [0.5, 0.3, 0.2])(ALL, ALL) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("series", "coefficients"),
    [
        (EXPONENTIAL, [1 / math.factorial(i) for i in range(60)]),
        (GEOMETRIC, [1.0] * 400),
        (LOGARITHMIC, [0.0, *(1 / i for i in range(1, 400))]),
        (HYPERBOLIC, [0 if i % 2 else 1 / math.factorial(i) for i in range(60)]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_theorem_3_closed_forms_are_the_series_inside_the_radius_and_refused_outside(series, coefficients):
    small = 0.9 / math.sqrt(np.abs(KQ).max()), 0.9 / math.sqrt(np.abs(KD).max())
    kq, kd = KQ * small[0] ** 2, KD * small[1] ** 2
    kernel = ClosedSeries(Hyper(precomputed(kq), precomputed(kd), precomputed_relevance(G)), series)
    expected = [
        [
            G[q, d] * sum(c * (kq[q, r] * kd[d, e]) ** i for i, c in enumerate(coefficients)) * G[r, e]
            for r in range(4)
            for e in range(6)
        ]
        for q in range(4)
        for d in range(6)
    ]
    assert kernel(ALL, ALL) == pytest.approx(np.array(expected), rel=1e-9, abs=1e-12)
    assert np.linalg.eigvalsh(kernel(ALL, ALL)).min() > -1e-9
    for scaled in ((1.5 / np.abs(KQ).max(), small[1] ** 2), (small[0] ** 2, 1.5 / np.abs(KD).max())):
        outside = ClosedSeries(Hyper(precomputed(KQ * scaled[0]), precomputed(KD * scaled[1])), series)
        if math.isinf(series.radius):
            assert np.isfinite(outside(ALL, ALL)).all()
        else:
            with pytest.raises(
                OptionError, match=rf"{series.name} series: a (query|document) kernel value of 1\.5 is not below 1"
            ):
                outside(ALL, ALL)


def test_theorem_3_a_value_at_the_radius_is_outside_also_with_a_minus_sign():
    """|k_X| < √R: 1 is not below 1; of two different documents the kernel's value may be negative."""
    opposite = np.array([[1.0, -1.0], [-1.0, 1.0]])
    kernel = ClosedSeries(Hyper(precomputed(np.full((1, 1), 0.5)), precomputed(opposite)), GEOMETRIC)
    with pytest.raises(OptionError, match="a document kernel value of 1 is not below 1"):
        kernel(Pairs([0], [0]), Pairs([0], [1]))
    inside = ClosedSeries(Hyper(precomputed(np.full((1, 1), 0.5)), precomputed(0.9 * opposite)), GEOMETRIC)
    assert inside(Pairs([0], [0]), Pairs([0], [1])) == pytest.approx(1 / (1 + 0.45))


def test_theorem_4_several_kernels():
    """Σ c_i g k_X^i k_Y^i g with two kernels of queries and two of documents."""
    other_kq, other_kd = semi_definite(4), semi_definite(6)
    other = Hyper(precomputed(other_kq), precomputed(other_kd), precomputed_relevance(G))
    pairs = [(q, d) for q in range(4) for d in range(6)]
    expected = [
        [G[q, d] * (0.5 * KQ[q, r] * KD[d, e] + 2 * other_kq[q, r] * other_kd[d, e]) * G[r, e] for r, e in pairs]
        for q, d in pairs
    ]
    assert Combined((0.5, 2.0), (HYPER, other))(ALL, ALL) == pytest.approx(np.array(expected))
    assert (0.5 * HYPER + 2 * other)(ALL, ALL) == pytest.approx(np.array(expected))


# Section 5.3: the dual, in general


@pytest.fixture(scope="module")
def small_problem(collection):
    """Dense g, k_Q and k_D of three queries and eight documents, and the product's hyper kernel of them."""
    opened, records, log, _ = collection
    dense = Dense([full_text(record) for record in records])
    texts, docs = list(dict.fromkeys(record.query for record in log))[:3], [1, 4, 7, 9, 13, 20, 30, 41]
    tfidf = np.array([dense.query(text) * dense.idf for text in texts])
    g = np.array([dense.bm25(text)[docs] for text in texts])
    unit = dense.cosine()[docs]
    hyper = hyper_kernel(opened.forward, opened.lucene.queries(texts), docs, VSM(), Cosine(), BM25())
    return hyper, g, tfidf @ tfidf.T, unit @ unit.T


def maximum(matrix, linear, upper):
    """The maximiser of lθ - θWθ/2 in the box, by scipy, and a check of its conditions of Karush, Kuhn and Tucker."""
    theta = minimize(
        lambda t: 0.5 * t @ matrix @ t - linear @ t, upper / 2, jac=lambda t: matrix @ t - linear, method="L-BFGS-B",
        bounds=Bounds(0, upper), options={"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 1e-16, "gtol": 1e-13},
    ).x  # fmt: skip
    optimal(matrix, linear, upper, theta, 1e-5)
    return theta


def optimal(matrix, linear, upper, theta, precision):
    """The gradient is 0 inside the box, and points out of it at its bounds."""
    gradient = linear - matrix @ theta
    assert (theta >= 0).all() and (theta <= upper * (1 + 1e-12)).all()
    assert np.abs(gradient[(theta > 0) & (theta < upper)]).max(initial=0.0) < precision
    assert gradient[(theta == 0) & (upper > 0)].max(initial=0.0) < precision
    assert gradient[(theta >= upper) & (upper > 0)].min(initial=0.0) > -precision


def test_section_5_3_the_dual_of_the_hinge_loss_and_its_solution(small_problem):
    """W(i, j) with its four terms as printed, 0 ≤ θ ≤ w/λ; k_RBM25 as printed, for all pairs; primal and dual are equal."""
    hyper, g, kq, kd = small_problem
    rng, lam = np.random.default_rng(4), 2.0
    triples = [(q, int(i), int(j)) for q in range(3) for i, j in rng.permutation(8).reshape(4, 2)]
    weights = rng.uniform(0, 2, len(triples))
    weights[2] = 0.0
    w = np.array([
        [kq[q, r] * (kd[i, k] * g[q, i] * g[r, k] - kd[i, h] * g[q, i] * g[r, h]
                     - kd[j, k] * g[q, j] * g[r, k] + kd[j, h] * g[q, j] * g[r, h]) for r, k, h in triples]
        for q, i, j in triples
    ])  # fmt: skip
    theta = maximum(w, np.ones(len(triples)), weights / lam)
    expected = np.array([
        [g[q, d] * sum(t * kq[q, r] * (g[r, k] * kd[k, d] - g[r, h] * kd[h, d])
                       for t, (r, k, h) in zip(theta, triples, strict=True)) for d in range(8)]
        for q in range(3)
    ])  # fmt: skip
    queries, better, worse = (list(column) for column in zip(*triples, strict=True))
    learner = AsymmetricKernelLearner(hyper, lam=lam).fit_ranking(Pairs(queries, better), Pairs(queries, worse), weights)
    everything = Pairs(np.repeat(np.arange(3), 8), np.tile(np.arange(8), 3))
    assert learner.predict(everything).reshape(3, 8) == pytest.approx(expected, abs=1e-4)
    own = learner.alpha_[: len(triples)]
    optimal(w, np.ones(len(triples)), weights / lam, own, 1e-3)
    assert (
        own[2] == 0 and ((own > 0) & (own < weights / lam)).any() and (own[weights > 0] == (weights / lam)[weights > 0]).any()
    )
    margins = np.array([expected[q, i] - expected[q, j] for q, i, j in triples])
    primal = weights @ np.maximum(1 - margins, 0) + lam / 2 * theta @ w @ theta
    assert primal == pytest.approx(lam * (theta.sum() - theta @ w @ theta / 2), rel=1e-5)
    assert (margins < 0.99).any() and (margins > 0.99).any()


def test_eq_2_classification_with_the_hinge_loss(small_problem):
    """max Σθ - ½ Σ θ_i θ_j t_i t_j k̄_ij over 0 ≤ θ ≤ 1/λ; the learned kernel is Σ θ_i t_i k̄ (Eq. 3)."""
    hyper, g, kq, kd = small_problem
    pairs = [(q, d) for q in range(3) for d in range(8)]
    gram = np.array([[g[q, d] * kq[q, r] * kd[d, e] * g[r, e] for r, e in pairs] for q, d in pairs])
    labels, lam = np.random.default_rng(6).choice([-1.0, 1.0], 24), 0.4
    theta = maximum(gram * np.outer(labels, labels), np.ones(24), np.full(24, 1 / lam))
    everything = Pairs(*zip(*pairs, strict=True))
    learner = AsymmetricKernelLearner(hyper, lam=lam).fit_classification(everything, labels)
    assert learner.predict(everything) == pytest.approx(gram @ (theta * labels), abs=1e-4)


@pytest.mark.parametrize("kind", ["Eq. 4", "series", "sum", "sum of series without g"])
def test_theorems_3_and_4_functions_learned_with_series_and_sums_are_kernels_with_maps(collection, kind):
    """k*(q, d) = Σ α_i k̄((q_i, d_i), (q, d)) in dense numpy for a query and documents outside of the training pairs."""
    opened, records, log, _ = collection
    forward, dense = opened.forward, Dense([full_text(record) for record in records])
    texts = list(dict.fromkeys(record.query for record in log))[:3]
    queries, docs = opened.lucene.queries(texts), [1, 4, 7, 9]
    base = hyper_kernel(forward, queries, docs, Cosine(VSM()), Cosine(), BM25())
    plain = hyper_kernel(forward, queries, docs, VSM(), Cosine())
    hyper, summands = {  # the summands as (weight, whether with g, power of k_Q k_D, whether k_Q is a cosine)
        "Eq. 4": (base, [(1.0, True, 1, True)]),
        "series": (PowerSeries(base, [0.5, 0.0, 0.2]), [(0.5, True, 0, True), (0.2, True, 2, True)]),
        "sum": (2.0 * base + plain, [(2.0, True, 1, True), (1.0, False, 1, False)]),
        "sum of series without g": (PowerSeries(plain, [0, 1, 0.1]) + plain, [(2.0, False, 1, False), (0.1, False, 2, False)]),
    }[kind]
    pairs = Pairs([0, 1, 2, 0, 2], [0, 1, 2, 3, 1])
    learner = AsymmetricKernelLearner(hyper, lam=0.3).fit_regression(pairs, [1.0, -0.5, 0.7, 0.1, 0.4])
    asked = WORDS[0] + " " + texts[1]
    vectors = {text: np.array([text.split().count(word) for word in WORDS]) * dense.idf for text in [asked, *texts]}
    cosine, gain = dense.cosine() @ dense.cosine().T, {text: dense.bm25(text, 0.9, 0.4) for text in [asked, *texts]}
    expected = np.zeros(len(records))
    for query, doc, alpha in zip(pairs.queries, pairs.docs, learner.alpha_, strict=True):
        text, row = texts[query], docs[doc]
        for weight, with_g, power, unit in summands:
            similar = vectors[asked] @ vectors[text]
            if unit:
                similar /= np.linalg.norm(vectors[asked]) * np.linalg.norm(vectors[text])
            part = alpha * weight * (similar * cosine[row]) ** power
            expected += part * gain[asked] * gain[text][row] if with_g else part
    everything, query = np.arange(len(records)), opened.lucene.queries([asked])[0]
    kernel = learner.as_kernel(forward)
    assert kernel.scores(forward, query, everything) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    linear = Linear().scores(forward, query, everything)
    for composed, values in (
        (kernel, expected),
        (kernel + BM25(), expected + gain[asked]),
        (-2 * kernel * Linear(), -2 * expected * linear),
    ):
        assert composed.has_map and composed.has_query
        maps = composed.document_features(forward, everything), composed.query_features(forward, query)
        assert (maps[0] @ maps[1].T).toarray().ravel() == pytest.approx(values, rel=1e-4, abs=1e-5)
        assert maps[0].shape[1] == composed.width(forward)
        assert (maps[0] @ maps[0].T).toarray() == pytest.approx(composed.documents(forward, everything, everything), rel=1e-4)


def test_a_function_without_finitely_many_features_is_refused_as_a_kernel(collection):
    """Nor can one be made of matrices alone, which say nothing of other queries and documents."""
    opened, _, log, _ = collection
    queries = opened.lucene.queries(list(dict.fromkeys(record.query for record in log))[:3])
    numbered = hyper_kernel(opened.forward, queries, [1, 4, 7], Cosine(VSM()) * 0.5, Cosine() * 0.5)
    pairs = Pairs([0, 1, 2], [0, 1, 2])
    for kernel, reason in (
        (ClosedSeries(numbered, EXPONENTIAL), "exponential series"),
        (Hyper(precomputed(np.eye(3)), precomputed(np.eye(3))), "made of matrices"),
    ):
        learner = AsymmetricKernelLearner(kernel).fit_regression(pairs, [0.1, 0.2, 0.3])
        with pytest.raises(OptionError, match=f"as_kernel: .*{reason}"):
            learner.as_kernel(opened.forward)


# Section 5: Robust BM25


class Counts:
    """The log's sums per query, from the raw impressions."""

    def __init__(self, log):
        self.queries = list(dict.fromkeys(record.query for record in log))
        self.docs = list(dict.fromkeys(docid for record in log for docid in record.docids))
        shape = (len(self.queries), len(self.docs))
        self.clicks, self.exposure, self.corrected, self.impressions = (np.zeros(shape) for _ in range(4))
        self.lists = {query: [] for query in self.queries}
        for record in log:
            row = self.queries.index(record.query)
            self.lists[record.query].append(record)
            for docid, position, clicked in zip(record.docids, record.positions, record.clicked, strict=True):
                column = self.docs.index(docid)
                self.clicks[row, column] += clicked
                self.impressions[row, column] += 1
                self.exposure[row, column] += 1 / position
                self.corrected[row, column] += clicked * position

    def pairs(self, row, kind, limit, corrected):
        """Columns of preferred and other documents, best supported first."""
        clicks = self.corrected[row] if corrected else self.clicks[row]
        shown = np.flatnonzero(self.impressions[row])
        if kind == "shown":
            better = sorted((c for c in shown if self.clicks[row, c]), key=lambda c: -clicks[c])
            worse = sorted((c for c in shown if not self.clicks[row, c]), key=lambda c: -self.exposure[row, c])
            turns = [(n % len(better), n // len(better)) for n in range(len(better) * len(worse))]
            return [(better[i], worse[(i + turn) % len(worse)]) for i, turn in turns][:limit]
        if kind == "rate":
            rate = clicks / np.maximum(self.impressions[row], 1)
            ranked = sorted(shown, key=lambda c: -rate[c])
            return [(i, j) for j in reversed(ranked) for i in ranked if rate[i] > 0 and rate[i] > rate[j]][:limit]
        votes = Counter()
        for record in self.lists[self.queries[row]]:
            for place, docid in enumerate(record.docids):
                for above in range(place) if record.clicked[place] else ():
                    if not record.clicked[above]:
                        votes[self.docs.index(docid), self.docs.index(record.docids[above])] += 1
        net = {pair: count - votes[pair[::-1]] for pair, count in votes.items() if count > votes[pair[::-1]]}
        return sorted(net, key=lambda pair: (-net[pair], pair))[:limit]

    def weight(self, row, pair, pairs, confident, corrected):
        """The weight of a pair among its query's pairs."""
        weight = 1.0
        if corrected:
            inverse = [self.corrected[row, i] / self.clicks[row, i] for i, _ in pairs]
            weight *= self.corrected[row, pair[0]] / self.clicks[row, pair[0]] / np.mean(inverse)
        if confident:
            mean = self.clicks[row].sum() / self.exposure[row].sum()
            rate = (self.clicks[row] + mean) / (self.exposure[row] + 1)
            weight *= min(max(rate[pair[0]] - rate[pair[1]], 0), 1)
        return weight


def trigrams(text):
    padded = f" {text} "
    return Counter(padded[place : place + 3] for place in range(len(padded) - 2))


def cosine(a, b):
    return sum(a[key] * b[key] for key in a) / math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))


DEFAULTS = {
    "form": "paper", "prior": 1.5, "pairs": "shown", "confident": True, "corrected": False, "documents": "body",
    "relevance": "bm25", "union_pearson": False, "borrowed": 10, "min_similarity": 0.1,
    "click_weight": 1.0, "ngram_weight": 0.5, "term_weight": 0.5, "bm25_weight": 0.0,
    "hits": 100, "lambda": 0.5, "epsilon": 0.5, "pairs_per_query": 3, "similar": 20,
}  # fmt: skip
#: The product's form, with its own number of pairs.
AUTO = {"form": "auto", "pairs_per_query": 20}
VARIANTS = [
    {}, {"form": "prior"}, {"form": "prior", "prior": 0.4}, {"pairs": "rate"}, {"pairs": "skipped", "pairs_per_query": 2},
    {"confident": False}, {"corrected": True}, {"documents": "title"}, {"documents": "both"},
    {"relevance": "bm25(k1=2)"}, {"relevance": "bm25(b=.9)"}, {"relevance": "bm25(k3=.5)"},
    {"documents": "url"}, {"documents": "body,url"}, {"relevance": "vsm"}, {"relevance": "2*bm25+vsm"},
    {"relevance": "dirichlet(mu=20)"}, {"relevance": "dirichlet(mu=20)", "form": "prior"},
    {"hits": 3},
    {"lambda": 2.0}, {"epsilon": 0.1}, {"similar": 1}, {"pairs_per_query": 4}, AUTO, {**AUTO, "prior": 9.0},
    {**AUTO, "pairs": "rate"}, {**AUTO, "documents": "both"}, {**AUTO, "epsilon": 0.1}, {**AUTO, "hits": 3},
    {"relevance": "first"},
    {"click_weight": 0.3}, {"ngram_weight": 2.0}, {"term_weight": 2.0}, {"bm25_weight": 0.7}, {"min_similarity": 1.2},
    {"relevance": "vsm", "hits": 1}, {"similar": 2, "pairs_per_query": 70}, {"similar": 1, "pairs_per_query": 54},
]  # fmt: skip
#: A query that the log doesn't have, and options of it; `hits` 0 adds no documents of similar queries but clicked ones.
UNSEEN_VARIANTS = [
    {}, {"form": "prior"}, AUTO, {**AUTO, "prior": 4.0}, {"borrowed": 0}, {"borrowed": 3},
    {"min_similarity": 0.5}, {"click_weight": 0.0}, {**AUTO, "click_weight": 3.0}, {"bm25_weight": 0.7}, {"hits": 0},
]  # fmt: skip


def text_features(texts, dense):
    """Of each text its 3-grams, its terms by count · idf, and its terms by √idf · count / (count + .9)."""
    counted = [Counter(text.split()) for text in texts]
    idf = [{word: dense.idf[WORDS.index(word)] for word in counts} for counts in counted]
    return (
        [trigrams(text) for text in texts],
        [Counter({w: n * weights[w] for w, n in counts.items()}) for counts, weights in zip(counted, idf, strict=True)],
        [
            Counter({w: math.sqrt(weights[w]) * n / (n + 0.9) for w, n in counts.items()})
            for counts, weights in zip(counted, idf, strict=True)
        ],
    )


def text_kernels(texts, others, dense):
    """The cosines of 3-grams, of terms and of BM25's weights between two lists of queries."""
    pairs = zip(text_features(texts, dense), text_features(others, dense), strict=True)
    return [np.array([[cosine(a, b) for b in right] for a in left]) for left, right in pairs]


def text_kernel(counts, dense):
    """The mean of the cosines of 3-grams and of terms between the log's queries."""
    grams, terms, _ = text_kernels(counts.queries, counts.queries, dense)
    return (grams + terms) / 2


def union_correlation(counts):
    """Section 5.3 as printed: the correlation of two queries' clicks over the documents that either of them clicked."""
    size = len(counts.queries)
    values = np.eye(size)
    for i in range(size):
        for j in range(i):
            either = (counts.clicks[i] > 0) | (counts.clicks[j] > 0)
            values[i, j] = values[j, i] = np.corrcoef(counts.clicks[i][either], counts.clicks[j][either])[0, 1]
    return values


def weighted(options, clicks, texts):
    """Section 5.3 and Theorem 4: the weighted sum of the correlation of clicks and the kernels of texts."""
    weights = [options[f"{name}_weight"] for name in ("click", "ngram", "term", "bm25")]
    return sum(weight * kernel for weight, kernel in zip(weights, [clicks, *texts], strict=True))


def query_kernel(counts, dense, options):
    """k_Q between the log's queries; clicks are correlated over all documents of the log, or over the union as printed."""
    clicks = union_correlation(counts) if options["union_pearson"] else np.corrcoef(counts.clicks)
    return weighted(options, clicks, text_kernels(counts.queries, counts.queries, dense))


def kernel_of_unseen(counts, dense, asked, listed, options):
    """k_Q of a query without clicks with the log's queries, its correlation with them and the similarity of texts.

    The scores of its best documents take the place of clicks.
    """
    borrowed = np.zeros(len(counts.docs))
    for doc, score in listed[: options["borrowed"]]:
        if f"d{doc:02d}" in counts.docs:
            borrowed[counts.docs.index(f"d{doc:02d}")] = score
    clicks = np.array([np.corrcoef(borrowed, row)[0, 1] if borrowed.any() else 0.0 for row in counts.clicks])
    texts = [values[0] for values in text_kernels([asked], counts.queries, dense)]
    return weighted(options, clicks, texts), clicks, (texts[0] + texts[1]) / 2


def weight_of_unseen(kernel_row, clicks, text, near, counts, prior):
    """a in the form auto: the less, the more similar the nearest query is and the more the nearest ones' clicks agree."""
    similarity = max(text[n] + 0.5 * max(clicks[n], 0) for n in near)
    agreement = np.mean([np.corrcoef(counts.clicks[near[0]], counts.clicks[n])[0, 1] for n in near[1:4]])
    strength = similarity * (0.5 + 0.5 * min(max(agreement, 0) / 0.2, 1))
    return prior * min(max((0.6 - strength) / 0.3, 0.2), 1)


def clicks_beyond_noise(counts, dense, row, near):
    """Clicks per document of the log, those of similar queries by the correlation of clicks or the similarity of texts."""
    correlation, text = np.corrcoef(counts.clicks)[row], text_kernel(counts, dense)[row]
    total = np.zeros(len(counts.docs))
    for n in near:
        total += max(correlation[n], min(max((text[n] - 0.3) / 0.3, 0), 1)) * np.maximum(
            counts.clicks[n] - 0.05 * counts.exposure[n], 0
        )
    return total


def support(cosines, doc, listed):
    """The mean cosine of a document with its three nearest others of the first ten."""
    return sum(sorted((cosines[doc, other] for other in listed[:10] if other != doc), reverse=True)[:3]) / 3


def weight_by_evidence(total, ranks, supports, prior):
    """prior · 140 · Π_d [x_d^min(n_d, 1) .05^max(n_d - 1, 0)]^(n_d² / Σ n²), x_d = (max(r_d, 2) / 10)^3.5 e^(-5(c_d - .25)).

    A document beyond the tenth counts (1 / 10)^3.5; without a rank one click is lost as well. Clicks after the first don't
    bring it below prior / (N D), N = Σ n, D = N² / Σ n².
    """
    clicks = np.array([n if rank else max(n - 1, 0) for n, rank in zip(total, ranks, strict=True)])
    odds = np.array([
        (max(rank, 2) / 10) ** 3.5 * math.exp(-5 * (near - 0.25)) if rank and rank <= 10 else 0.1**3.5
        for rank, near in zip(ranks, supports, strict=True)
    ])  # fmt: skip
    first = further = 1.0
    for n, x in zip(clicks, odds, strict=True):
        share = n**2 / sum(clicks**2)
        first *= x ** (min(n, 1) * share)
        further *= 0.05 ** (max(n - 1, 0) * share)
    least = 1 / (sum(clicks) * sum(clicks) ** 2 / sum(clicks**2))
    return prior * max(140 * first * further, min(140 * first, least))


#: k1, b and k3 where g is BM25 alone.
G_OF_BM25 = {
    "bm25(k1=2)": (2.0, 0.4, math.inf), "bm25(b=.9)": (0.9, 0.9, math.inf), "bm25(k3=.5)": (0.9, 0.4, 0.5),
}  # fmt: skip


def first_stage(dense, text, options):
    """The scores that similar queries are retrieved by: BM25, or the first stage's Jelinek-Mercer where that is g."""
    if options["relevance"] != "first":
        return dense.bm25(text, *G_OF_BM25.get(options["relevance"], (0.9, 0.4))[:2])
    smoothed = (1 - JELINEK_MERCER.lam) * dense.counts / dense.lengths[:, None] / (JELINEK_MERCER.lam * dense.probability)
    return np.log1p(smoothed) @ dense.query(text)


def relevance(dense, text, options):
    """g before scaling (section 3.2): BM25 with k3, VSM, or the query likelihood with Dirichlet smoothing, not below 0."""
    bm25 = dense.bm25(text, *G_OF_BM25.get(options["relevance"], (0.9, 0.4, math.inf)))
    vsm = (dense.counts * dense.idf) @ (dense.query(text) * dense.idf)
    if options["relevance"] == "first":
        return first_stage(dense, text, options)
    if options["relevance"] is None or options["relevance"] in G_OF_BM25:
        return bm25
    if options["relevance"] == "dirichlet(mu=20)":
        mu, weights = 20.0, dense.query(text)
        seen = np.log1p(dense.counts / (mu * dense.probability)) @ weights
        return np.maximum(seen + weights.sum() * np.log(mu / (dense.lengths + mu)), 0)
    return {"bm25": bm25, "vsm": vsm, "2*bm25+vsm": 2 * bm25 + vsm}[options["relevance"]]


def unshown_pairs(counts, row, scores, missing):
    """So many pairs of a clicked document, the most clicked first, over one that is retrieved but was not shown, in turn."""
    clicked = sorted(np.flatnonzero(counts.clicks[row]), key=lambda column: -counts.clicks[row, column])
    shown = {int(counts.docs[column][1:]) for column in np.flatnonzero(counts.impressions[row])}
    retrieved = [doc for doc in np.argsort(-scores, kind="stable") if scores[doc] > 0][: 2 * missing]
    others = [int(doc) for doc in retrieved if doc not in shown]
    turns = [divmod(number, len(clicked)) for number in range(min(missing, len(clicked) * len(others)))]
    return [(int(counts.docs[clicked[i]][1:]), others[(i + turn) % len(others)]) for turn, i in turns]


def robust_bm25(records, log, asked, candidates, options, pair_log=None):
    """Scores of the merged documents by docid: section 5.3, with the product's scaling of BM25; `log` gives similar queries.

    `candidates` are (row, score) of the first stage's list.
    """
    body = Dense([full_text(record) for record in records])
    title = Dense([record["title"] for record in records])
    url = Dense([record["url"] for record in records])
    unit = {"body": body.cosine(), "title": title.cosine(), "url": url.cosine()}
    fields = {"both": ["body", "title"]}.get(options["documents"], options["documents"].split(","))
    similarity = sum(unit[name] @ unit[name].T for name in fields) / len(fields)
    counts = Counts(log)
    kernel = query_kernel(counts, body, options)
    row = counts.queries.index(asked) if asked in counts.queries else None
    by_clicks, by_text = None, None
    if row is None:
        values, by_clicks, by_text = kernel_of_unseen(counts, body, asked, candidates, options)
    else:
        values = kernel[row]
    ordered = sorted(range(len(kernel)), key=lambda n: (-values[n], n))[: options["similar"]]
    near = [n for n in ordered if values[n] > options["min_similarity"]]
    scores = {n: first_stage(body, counts.queries[n], options) for n in near}
    number = [int(docid[1:]) for docid in counts.docs]
    paired = counts if pair_log is None else Counts(pair_log)
    entries = []  # similar query, preferred document, other document, upper bound
    for n in (n for n in near if counts.queries[n] in paired.queries):
        at = paired.queries.index(counts.queries[n])
        pairs = paired.pairs(at, options["pairs"], options["pairs_per_query"], options["corrected"])
        for i, j in pairs:
            bound = paired.weight(at, (i, j), pairs, options["confident"], options["corrected"]) / options["lambda"]
            entries.append((n, int(paired.docs[i][1:]), int(paired.docs[j][1:]), bound))

        missing = options["pairs_per_query"] - len(pairs)
        entries += [(n, i, j, 0.1 / options["lambda"]) for i, j in unshown_pairs(paired, at, scores[n], missing)]

    def scaled(values, best):
        if options["relevance"] is None:
            return np.ones(len(values))
        return (np.minimum(values / best, 1) + options["epsilon"]) / (1 + options["epsilon"])

    depth = max(options["hits"], 1)  # the best score is needed, too, where no documents are added
    retrieved = {n: [d for d in np.argsort(-scores[n], kind="stable")[:depth] if scores[n][d] > 0] for n in near}
    raw = {n: relevance(body, counts.queries[n], options) for n in near}
    gain = {n: scaled(raw[n], raw[n][retrieved[n]].max()) for n in near}
    weight, auto = options["prior"] if options["form"] == "prior" else 0.0, options["form"] == "auto"
    if auto and row is None:
        weight, auto = weight_of_unseen(values, by_clicks, by_text, near, counts, options["prior"]), False
    known = {n: dict(zip(number, counts.exposure[n] / (counts.exposure[n] + 1), strict=True)) for n in near}
    other = {n: {j: gain[n][j] * (known[n].get(j, 0.0) if auto else 1.0) for _, _, j, _ in entries} for n in near}
    if auto:
        total = clicks_beyond_noise(counts, body, row, near)
        ranks = [retrieved[row].index(doc) + 1 if doc in retrieved[row] else None for doc in number]
        body_cosines = unit["body"] @ unit["body"].T
        weight = weight_by_evidence(
            total, ranks, [support(body_cosines, doc, retrieved[row]) for doc in number], options["prior"]
        )
    matrix = np.array([
        [kernel[n, m] * (similarity[i, k] * gain[n][i] * gain[m][k] - similarity[i, h] * gain[n][i] * other[m][h]
                         - similarity[j, k] * other[n][j] * gain[m][k] + similarity[j, h] * other[n][j] * other[m][h])
         for m, k, h, _ in entries] for n, i, j, _ in entries
    ])  # fmt: skip
    linear = np.array([1 - weight * (gain[n][i] - gain[n][j]) for n, i, j, _ in entries])
    theta = minimize(
        lambda t: 0.5 * t @ matrix @ t - linear @ t,
        np.zeros(len(entries)),
        jac=lambda t: matrix @ t - linear,
        bounds=Bounds(0, np.array([bound for *_, bound in entries])),
        method="L-BFGS-B",
        options={"maxiter": 50_000, "maxfun": 200_000, "ftol": 1e-16, "gtol": 1e-12},
    ).x
    of_similar = (int(doc) for n in near for doc in retrieved[n] if options["hits"])
    merged = sorted({*(doc for doc, _ in candidates), *of_similar, *(i for _, i, _, _ in entries)})
    own = relevance(body, asked, options)[merged]
    base = scaled(own, own.max())
    learned = [
        sum(t * values[n] * (gain[n][i] * similarity[i, doc] - other[n][j] * similarity[j, doc])
            for t, (n, i, j, _) in zip(theta, entries, strict=True))
        for doc in merged
    ]  # fmt: skip
    return {f"d{doc:02d}": g * (weight + value) for doc, g, value in zip(merged, base, learned, strict=True)}


def robust(opened, database, options):
    """The product's method for the form `auto`, which has some of the options, else that of papers/."""
    declared = method("rbm25" if options["form"] == "auto" else "rbm25-paper")
    own = {option.key for option in declared.options}
    return declared.make(opened, clicks=database, **{name: value for name, value in options.items() if name in own})


def rows_and_scores(candidates):
    return list(zip(candidates.docs.tolist(), candidates.scores.tolist(), strict=True))


@pytest.mark.parametrize("changed", VARIANTS, ids=lambda changed: "-".join(f"{k}={v}" for k, v in changed.items()) or "default")
def test_eq_5_and_section_5_3_robust_bm25(collection, changed):
    opened, records, log, database = collection
    options = {**DEFAULTS, **changed}
    asked = log[0].query
    query = opened.lucene.queries([asked])
    context = Context(JELINEK_MERCER if options["relevance"] == "first" else BM25Model())
    candidates = opened.lucene.search(query, 5, model=context.model)[0]
    after = robust(opened, database, options).apply(query[0], candidates, context)
    reranked = dict(zip(opened.forward.docids.take(after.docs), after.scores.tolist(), strict=True))
    expected = robust_bm25(records, log, asked, rows_and_scores(candidates), options)
    assert reranked.keys() == expected.keys()
    assert reranked == pytest.approx(expected, abs=2e-4)
    if changed:
        before = {**DEFAULTS, **AUTO} if changed.keys() > AUTO.keys() else DEFAULTS
        plain = robust_bm25(records, log, asked, rows_and_scores(candidates), before)
        assert plain.keys() != expected.keys() or plain != pytest.approx(expected, abs=2e-3)  # the option has an effect


@pytest.mark.parametrize(
    "changed", UNSEEN_VARIANTS, ids=lambda changed: "-".join(f"{k}={v}" for k, v in changed.items()) or "default"
)
def test_section_5_3_robust_bm25_of_a_query_that_is_not_in_the_log(collection, changed):
    """The nearest queries are found by text, and by the documents that the query retrieves in the place of its clicks."""
    opened, records, log, database = collection
    options = {**DEFAULTS, **changed}
    asked = f"{log[0].query.split()[0]} {log[6].query.split()[1]}"
    assert asked not in {record.query for record in log}
    query = opened.lucene.queries([asked])
    candidates = opened.lucene.search(query, 12)[0]
    after = robust(opened, database, options).apply(query[0], candidates)
    reranked = dict(zip(opened.forward.docids.take(after.docs), after.scores.tolist(), strict=True))
    expected = robust_bm25(records, log, asked, rows_and_scores(candidates), options)
    assert reranked == pytest.approx(expected, abs=2e-4)
    if changed:
        before = {**DEFAULTS, **AUTO} if changed.keys() > AUTO.keys() else DEFAULTS
        plain = robust_bm25(records, log, asked, rows_and_scores(candidates), before)
        assert plain.keys() != expected.keys() or plain != pytest.approx(expected, abs=2e-3)  # the option has an effect


@pytest.mark.parametrize("form", ["paper", "prior"])
def test_section_4_2_and_6_1_the_pairwise_kernel_is_the_hyper_kernel_without_g(collection, form):
    """k_Q(q, q') k_D(d, d'): g is 1 for every pair."""
    opened, records, log, database = collection
    options = {**DEFAULTS, "form": form}
    query = opened.lucene.queries([log[0].query])
    candidates = opened.lucene.search(query, 5)[0]
    own = {name: value for name, value in options.items() if name not in ("relevance", "epsilon")}
    after = method("pairwise").make(opened, clicks=database, **own).apply(query[0], candidates)
    reranked = dict(zip(opened.forward.docids.take(after.docs), after.scores.tolist(), strict=True))
    assert reranked == pytest.approx(
        robust_bm25(records, log, log[0].query, rows_and_scores(candidates), {**options, "relevance": None}), abs=2e-4
    )


def test_section_5_3_clicks_are_correlated_over_the_union_as_printed(collection):
    opened, records, log, database = collection
    options = {**DEFAULTS, "union_pearson": True}
    query = opened.lucene.queries([log[0].query])
    candidates = opened.lucene.search(query, 5)[0]
    after = robust(opened, database, options).apply(query[0], candidates)
    reranked = dict(zip(opened.forward.docids.take(after.docs), after.scores.tolist(), strict=True))
    expected, plain = (
        robust_bm25(records, log, log[0].query, rows_and_scores(candidates), chosen) for chosen in (options, DEFAULTS)
    )
    assert reranked == pytest.approx(expected, abs=2e-4)
    assert expected.keys() != plain.keys() or expected != pytest.approx(plain, abs=2e-3)


@pytest.mark.parametrize("form", ["paper", "prior"])
def test_section_6_1_one_log_for_similar_queries_and_another_one_for_pairs(collection, tmp_path, form):
    """The second log has its own clicks and numbers, and lacks a query of the first one."""
    opened, records, log, database = collection
    texts = list(dict.fromkeys(record.query for record in log))
    others = [record._replace(clicked=record.clicked[::-1]) for record in reversed(log) if record.query != texts[2]]
    import_records(others, tmp_path / "pairs.db")
    options = {**DEFAULTS, "form": form}
    query = opened.lucene.queries([texts[0]])
    candidates = opened.lucene.search(query, 5)[0]
    reranker = robust(opened, database, {**options, "pairs_clicks": str(tmp_path / "pairs.db")})
    after = reranker.apply(query[0], candidates)
    reranked = dict(zip(opened.forward.docids.take(after.docs), after.scores.tolist(), strict=True))
    expected = robust_bm25(records, log, texts[0], rows_and_scores(candidates), options, others)
    assert reranked == pytest.approx(expected, abs=2e-4)
    assert reranked != pytest.approx(robust_bm25(records, log, texts[0], rows_and_scores(candidates), options), abs=2e-3)
    with pytest.raises(InputError, match=r"rbm25.paper_pairs_clicks: .*no such file"):
        robust(opened, database, {**options, "pairs_clicks": str(tmp_path / "none.db")})


@pytest.mark.parametrize("docs", [1, 12])
def test_section_6_the_baseline_local_context_analysis(collection, docs):
    """Xu & Croft: Π_i (δ + log10(co + 1) idf_c / log10 n)^idf_i ranks words, the i-th of m weighs 1 - .9 i / m; from counts."""
    opened, records, _, _ = collection
    counts = Dense([full_text(record) for record in records]).counts
    text, m, alpha = "w03 w17 w17 w41", 7, 0.4
    query = opened.lucene.queries([text])[0]
    listed = opened.lucene.search([query], docs)[0]
    frequency = (counts > 0).sum(axis=0)
    idf = np.array([min(1.0, math.log10(len(counts) / max(df, 1)) / 5) for df in frequency])
    terms = [WORDS.index(word) for word in ("w03", "w17", "w41")]
    best = counts[[int(docid[1:]) for docid in opened.forward.docids.take(listed.docs)]]
    belief = {
        word: math.prod(
            (0.1 + math.log10(sum(row[number] * row[term] for row in best) + 1) * idf[number] / math.log10(max(docs, 2)))
            ** idf[term]
            for term in terms
        )
        for number, word in enumerate(WORDS)
        if best[:, number].any() and frequency[number] <= 0.5 * len(counts)
    }
    ranked = sorted(belief, key=lambda word: (-round(belief[word], 12), word))[:m]
    weights = [1 - 0.9 * place / m for place in range(m)]
    expected = Counter({"w03": 0.25 * (1 - alpha), "w17": 0.5 * (1 - alpha), "w41": 0.25 * (1 - alpha)})
    for word, weight in zip(ranked, weights, strict=True):
        expected[word] += alpha * weight / sum(weights)
    expander = method("pert-paper").make(opened, method="lca", docs=docs, terms=m, alpha=alpha, max_df=0.5)
    expanded = expander.expanded(query, listed)
    assert dict(zip(expanded.terms, expanded.weights, strict=True)) == pytest.approx(dict(expected))
    assert len(ranked) == m
    assert set(ranked) - {"w03", "w17", "w41"}
