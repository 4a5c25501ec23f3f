"""Collins-Thompson, "Robust Word Similarity Estimation Using Perturbation Kernels" (ICTIR 2009), densely.

Eqs. 1 and 2 are integrals that the paper doesn't compute; Eq. 3 is its approximation of them.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelsearch.kernels import perturbation
from kernelsearch.kernels.ranking_models import first_stage_term_scores
from kernelsearch.lucene.models import BM25Model
from kernelsearch.papers.pert import kernels
from kernelsearch.papers.pert.reranker import PaperPerturbationReranker
from kernelsearch.papers.pert.weighted_queries import read_weighted_queries
from kernelsearch.rerankers.base import Context
from tests.papers.brute_force import WORDS, Dense, build, command_line_run, full_text, make_documents

SMOOTHING, TEMPERATURE = 0.1, 5.0


@pytest.mark.parametrize("terms", [1, 2, 5])
def test_section_2_perturbation_strategies(terms):
    """α_i[j] is 0 for i = j and 1 otherwise (leave one out), or the other way round (term at a time)."""
    for strategy, own, others in (("loo", 0.0, 1.0), ("tat", 1.0, 0.0)):
        expected = [[own if i == j else others for j in range(terms)] for i in range(terms)]
        assert kernels.perturbations(strategy, terms).tolist() == expected


def relevance_model(index, scores, words):
    """p(w|R) = Σ_d p(d|q) tf/length, mixed with the collection's model; p(d|q) is a softmax over documents with a term."""
    scored_docs = np.flatnonzero(np.isfinite(scores))
    weights = np.exp(scores[scored_docs] / TEMPERATURE)
    weights /= weights.sum()
    counts = index.forward.matrix().toarray()[:, words] / np.maximum(index.forward.lengths, 1)[:, None]
    collection = index.forward.cf[words] / index.forward.cf.sum()
    return (1 - SMOOTHING) * weights @ counts[scored_docs] + SMOOTHING * collection


def test_equation_3_the_kernel_is_the_mean_of_rho_over_variants():
    """k(x, y) = 1/p(x, y) · 1/n Σ_i (√p_i(x) - √p(x)) (√p_i(y) - √p(y)), where p(x, y) is the root of p(x) p(y)."""
    rng = np.random.default_rng(5)
    p, variants = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6), size=4)
    expected = np.zeros((6, 6))
    for x in range(6):
        for y in range(6):
            rho = [(np.sqrt(q[x]) - np.sqrt(p[x])) * (np.sqrt(q[y]) - np.sqrt(p[y])) for q in variants]
            expected[x, y] = np.mean(rho) / np.sqrt(p[x] * p[y])
    assert perturbation.gram(perturbation.features(p, variants)) == pytest.approx(expected)


@pytest.mark.parametrize("denominator", ["p", "sqrt"])
@pytest.mark.parametrize("text", ["dripping tap washer", "cold radiator in the hall"])
@pytest.mark.parametrize("strategy", ["loo", "tat"])
def test_equation_4_and_figure_1_with_both_strategies(demo_index, text, denominator, strategy):
    """φ_i(w) = (√p_i - √p) / (√n p), G = AAᵀ, D = g_ii + g_jj - 2 g_ij; every document is a feedback document."""
    forward = demo_index.forward
    query = demo_index.query(text)
    listed = demo_index.lucene.search([query], len(forward))[0]
    reranker = PaperPerturbationReranker(
        demo_index, docs=10**6, pool=10**6, terms=15, smoothing=SMOOTHING, temperature=TEMPERATURE, denominator=denominator,
        strategy=strategy,
    )  # fmt: skip
    expansion = reranker.expansion(query, listed, Context(BM25Model(), hits=1000))
    everything = np.arange(len(forward), dtype=np.int32)
    parts = first_stage_term_scores(forward, BM25Model(), forward.term_ids(query.terms), query.weights, everything).astype(
        float
    )

    def scores(term_numbers):
        return np.where((parts[:, term_numbers] > 0).any(axis=1), parts[:, term_numbers].sum(axis=1), -np.inf)

    terms = len(query.terms)
    base = relevance_model(demo_index, scores(list(range(terms))), expansion.terms)
    variants = [
        relevance_model(
            demo_index, scores([term for term in range(terms) if (term == chosen) == (strategy == "tat")]), expansion.terms
        )
        for chosen in range(terms)
    ]
    below = base if denominator == "p" else np.sqrt(base)
    phi = np.array([(np.sqrt(variant) - np.sqrt(base)) / (np.sqrt(terms) * below) for variant in variants]).T
    gram = phi @ phi.T
    assert expansion.choice.coordinates == pytest.approx(phi, rel=1e-4, abs=1e-7)
    expected = np.diag(gram)[:, None] + np.diag(gram)[None, :] - 2 * gram
    assert expansion.choice.apart == pytest.approx(expected, rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("text", ["water heater", "zzz heater water"])
def test_section_2_of_two_terms_one_left_out_is_the_other_alone(demo_index, text):
    """Both strategies have the same variants in another order, so the same kernel, however few candidates there are."""
    query = demo_index.query(text)
    listed = demo_index.lucene.search([query], 12)[0]
    left_out, alone = (
        PaperPerturbationReranker(demo_index, strategy=strategy, pool=12).expansion(
            query, listed, Context(BM25Model(), hits=12)
        )
        for strategy in ("loo", "tat")
    )
    assert alone.choice.coordinates.shape[1] == 2 and alone.choice.apart.max() > 0.01
    assert not np.allclose(alone.choice.coordinates[:, 0], alone.choice.coordinates[:, 1])
    assert left_out.choice.coordinates == pytest.approx(alone.choice.coordinates[:, ::-1], rel=1e-5, abs=1e-9)
    assert left_out.choice.apart == pytest.approx(alone.choice.apart, rel=1e-5, abs=1e-9)


# The whole method on the command line, from token lists

#: α, κ, γ, λ of smoothing, temperature, feedback documents and added terms.
ALPHA, KAPPA, GAMMA, SMOOTH, WARMTH, DOCS, TERMS = 0.6, 0.3, 0.5, 0.05, 3.0, 7, 9
OPTIONS = {
    "alpha": ALPHA, "kappa": KAPPA, "gamma": GAMMA, "smoothing": SMOOTH, "temperature": WARMTH, "docs": DOCS, "terms": TERMS,
    "max-df": 0.6,
}  # fmt: skip
FLAGS = [word for name, value in OPTIONS.items() for word in (f"--pert-paper.{name}", str(value))]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    records = make_documents()
    return build(tmp_path_factory.mktemp("pert"), records), Dense([full_text(record) for record in records])


def feedback(dense, scores):
    """p(d|q) of the best DOCS documents: a softmax of their scores; nothing for a query that no document matches."""
    best = np.argsort(-scores, kind="stable")[:DOCS]
    best = best[scores[best] > 0]
    weights = np.zeros(len(scores))
    weights[best] = np.exp((scores[best] - scores[best].max()) / WARMTH)
    return weights / weights.sum()


def relevance_of_words(dense, weights):
    """p(w|R) = Σ_d p(d|q) tf/length of every word, smoothed by the collection."""
    collection_model = dense.counts.sum(axis=0) / dense.counts.sum()
    return (1 - SMOOTH) * weights @ (dense.counts / dense.lengths[:, None]) + SMOOTH * collection_model


def similarity_of_words(dense, kernel, strategy, denominator, parts, words, base):
    """S of the program and the distances D (Figure 1); `parts` (documents, terms) is BM25 of each query term."""
    terms = parts.shape[1]
    left_out = [[term for term in range(terms) if (term == chosen) == (strategy == "tat")] for chosen in range(terms)]
    if kernel == "jaccard":
        held = dense.counts[np.flatnonzero(feedback(dense, parts.sum(axis=1)))][:, words] > 0
        apart = np.array([
            [1 - (held[:, i] & held[:, j]).sum() / max((held[:, i] | held[:, j]).sum(), 1) for j in range(len(words))]
            for i in range(len(words))
        ])  # fmt: skip
        np.fill_diagonal(apart, 0.0)
    else:
        variants = [relevance_of_words(dense, feedback(dense, parts[:, own].sum(axis=1)))[words] for own in left_out]
        below = base if denominator == "p" else np.sqrt(base)
        phi = np.array([(np.sqrt(variant) - np.sqrt(base)) / below / np.sqrt(terms) for variant in variants]).T
        gram = phi @ phi.T
        apart = np.diag(gram)[:, None] + np.diag(gram)[None, :] - 2 * gram
        if kernel == "gram":
            return gram / np.median(np.diag(gram)), apart
    return np.exp(-apart / np.median(apart[np.triu_indices(len(words), 1)])), apart


@pytest.mark.parametrize("text", ["w03 w17 w41", "w03 w03 w22"])
@pytest.mark.parametrize(
    ("kernel", "strategy", "denominator"),
    [("perturbation", "loo", "sqrt"), ("perturbation", "loo", "p"), ("perturbation", "tat", "p"), ("gram", "tat", "sqrt"),
     ("gram", "loo", "p"), ("jaccard", "loo", "sqrt")],
)  # fmt: skip
def test_figure_1_and_the_expansion_program_on_the_command_line(collection, tmp_path, text, kernel, strategy, denominator):
    """min -c'x + κ/2 x'(S + γ diag r)x, .95 ≤ x_q ≤ 1, 0 ≤ x ≤ 1; the expanded query is (1 - α) q + α x∘p."""
    opened, dense = collection
    counted = Counter(text.split())
    own = [WORDS.index(word) for word in counted]
    parts = np.array([count * dense.bm25(word) for word, count in counted.items()]).T
    scores = parts.sum(axis=1)
    weights = feedback(dense, scores)
    p_fresh = weights @ (dense.counts / dense.lengths[:, None])
    frequency = (dense.counts > 0).sum(axis=0)
    fresh = [w for w in np.argsort(-p_fresh, kind="stable") if p_fresh[w] > 0 and frequency[w] <= 0.6 * 48 and w not in own]
    words = [*own, *fresh[:TERMS]]
    p = relevance_of_words(dense, weights)[words]
    similar, apart = similarity_of_words(dense, kernel, strategy, denominator, parts, words, p)
    far = apart[:, : len(own)].mean(axis=1)
    quadratic = KAPPA * (similar + GAMMA * np.diag(far / far.mean()))
    gain = np.minimum(1.0, p / p[len(own) :].max())
    solved = minimize(
        lambda x: -gain @ x + x @ quadratic @ x / 2, np.ones(len(words)), jac=lambda x: quadratic @ x - gain, method="L-BFGS-B",
        bounds=[(0.95, 1.0)] * len(own) + [(0.0, 1.0)] * TERMS, options={"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    mass = solved.x * p / (solved.x @ p)
    expected = Counter({WORDS[word]: ALPHA * value for word, value in zip(words, mass, strict=True)})
    for word, count in counted.items():
        expected[word] += (1 - ALPHA) * count / sum(counted.values())
    flags = [*FLAGS, "--pert-paper.kernel", kernel, "--pert-paper.strategy", strategy, "--pert-paper.denominator", denominator]
    saved = tmp_path / "queries.jsonl"
    run = command_line_run(opened, tmp_path, text, "--rerank", "pert-paper", *flags, "--pert-paper.save-queries", str(saved))
    expanded = read_weighted_queries(saved)["q"]
    found = dict(zip(expanded.terms, expanded.weights, strict=True))
    assert found == pytest.approx({word: value for word, value in expected.items() if value > 1e-9}, abs=2e-5)
    assert len({round(value, 3) for value in solved.x}) > 2  # the program chooses
    second = sum(value * dense.bm25(word) for word, value in expected.items())
    assert run == pytest.approx({f"d{doc:02d}": second[doc] for doc in np.flatnonzero(second > 1e-9)}, abs=1e-4)


@pytest.mark.parametrize(("kappa", "gamma"), [(0.5, 0.75), (2.0, 0.0), (2.0, 5.0)])
def test_the_expansion_program_against_a_general_solver(demo_index, kappa, gamma):
    """min -c'x + κ/2 x'(S + γ diag r)x over the box; S = exp(-D / median D), r the mean distance to the query's terms."""
    query = demo_index.query("dripping tap washer")
    listed = demo_index.lucene.search([query], 100)[0]
    expansion = PaperPerturbationReranker(demo_index, kappa=kappa, gamma=gamma).expansion(
        query, listed, Context(BM25Model(), hits=100)
    )
    own, words = expansion.query_terms, len(expansion.words)
    upper = expansion.choice.apart[np.triu_indices(words, 1)]
    similar = np.exp(-expansion.choice.apart / np.median(upper))
    far = expansion.choice.apart[:, :own].mean(axis=1)
    quadratic = kappa * (similar + gamma * np.diag(far / far.mean()))
    gain = np.minimum(1.0, expansion.p / expansion.p[own:].max())
    bounds = [(0.95, 1.0)] * own + [(0.0, 1.0)] * (words - own)
    solved = minimize(
        lambda x: -gain @ x + x @ quadratic @ x / 2, np.ones(words), jac=lambda x: quadratic @ x - gain, bounds=bounds,
        method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-10},
    )  # fmt: skip
    assert expansion.choice.x == pytest.approx(solved.x, abs=1e-4)
    mass = expansion.choice.x * expansion.p
    assert expansion.weights == pytest.approx(mass / mass.sum())
