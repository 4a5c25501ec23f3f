"""The general learner: three losses, against definitions and scikit-learn."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from kernelsearch.core.errors import OptionError
from kernelsearch.papers.rbm25.hyper import Hyper, Pairs, precomputed, precomputed_relevance
from kernelsearch.papers.rbm25.learner import AsymmetricKernelLearner

RNG = np.random.default_rng(11)


def gram(size, rank):
    x = RNG.normal(size=(size, rank))
    return x @ x.T / rank


KERNEL = Hyper(precomputed(gram(6, 8)), precomputed(gram(9, 12)), precomputed_relevance(RNG.uniform(0.2, 1, size=(6, 9))))
ALL = Pairs(np.repeat(np.arange(6), 9), np.tile(np.arange(9), 6))
QUERIES = RNG.integers(0, 6, size=25)
BETTER, WORSE = Pairs(QUERIES, RNG.integers(0, 4, size=25)), Pairs(QUERIES, RNG.integers(4, 9, size=25))


def test_ranking_minimises_hinge_plus_norm():
    lam = 0.5
    learner = AsymmetricKernelLearner(KERNEL, lam=lam).fit_ranking(BETTER, WORSE)
    gram_all = KERNEL(learner.pairs_, learner.pairs_)

    def primal(alpha):
        values = gram_all @ alpha
        margins = values[:25] - values[25:]
        return np.maximum(1 - margins, 0).sum() + lam / 2 * alpha @ gram_all @ alpha

    best = primal(learner.alpha_)
    for _ in range(200):
        assert primal(learner.alpha_ + RNG.normal(scale=0.05, size=50)) >= best - 1e-9
    # No duality gap: primal λ-scaled problem and its dual meet.
    theta = learner.alpha_[:25]
    assert theta.min() >= 0 and theta.max() <= 1 / lam + 1e-12


def test_classification_agrees_with_scikit_learns_svm_without_intercept():
    svm = pytest.importorskip("sklearn.svm")
    labels = np.where(RNG.random(len(ALL)) < 0.5, -1.0, 1.0)
    learner = AsymmetricKernelLearner(KERNEL).fit_classification(ALL, labels)  # λ = 1, as C = 1 below
    values = learner.predict(ALL)
    # The same problem in primal form, by an independent solver: features from the Gram matrix's eigenvectors.
    weights, vectors = np.linalg.eigh(KERNEL(ALL, ALL))
    features = vectors * np.sqrt(np.maximum(weights, 0))
    other = svm.LinearSVC(loss="hinge", C=1.0, fit_intercept=False, tol=1e-8, max_iter=200_000, random_state=0).fit(
        features, labels
    )
    assert values == pytest.approx(other.decision_function(features), abs=1e-3)


def test_regression_is_kernel_ridge():
    ridge = pytest.importorskip("sklearn.kernel_ridge")
    targets = RNG.normal(size=len(ALL))
    learner = AsymmetricKernelLearner(KERNEL, lam=0.3).fit_regression(ALL, targets)
    other = ridge.KernelRidge(alpha=0.3, kernel="precomputed").fit(KERNEL(ALL, ALL), targets)
    assert learner.predict(ALL) == pytest.approx(other.predict(KERNEL(ALL, ALL)))


def test_the_pairwise_kernel_is_one_line():
    learner = AsymmetricKernelLearner(Hyper(precomputed(np.eye(6)), precomputed(np.eye(9)))).fit_ranking(BETTER, WORSE)
    # Nothing is shared between queries or documents: a document never seen for a query stays at zero.
    seen = set(zip([*BETTER.queries, *WORSE.queries], [*BETTER.docs, *WORSE.docs], strict=True))
    values = dict(zip(zip(ALL.queries, ALL.docs, strict=True), learner.predict(ALL), strict=True))
    assert all(values[pair] == 0 for pair in values if pair not in seen)


def test_wrong_shapes_and_labels_are_refused():
    learner = AsymmetricKernelLearner(KERNEL)
    with pytest.raises(OptionError, match="-1 or"):
        learner.fit_classification(Pairs([0], [0]), [2])
    with pytest.raises(OptionError, match="values for 1 pairs"):
        learner.fit_regression(Pairs([0], [0]), [1, 2])
    with pytest.raises(OptionError, match="preferred pairs"):
        learner.fit_ranking(Pairs([0], [0]), Pairs([], []))
    with pytest.raises(OptionError, match="finite"):
        learner.fit_regression(Pairs([0], [0]), [np.nan])
    for bad in (0, np.nan, np.inf):
        with pytest.raises(OptionError, match="positive"):
            AsymmetricKernelLearner(KERNEL, lam=bad)


def test_predicting_before_a_fit_is_scikit_learns_error():
    with pytest.raises(NotFittedError, match="first"):
        AsymmetricKernelLearner(KERNEL).predict(ALL)


def test_preferences_weigh_as_much_as_they_are_repeated():
    """A weight of 2 is a preference that is there twice; λ divides all of them."""
    twice = np.arange(25) % 3 == 0
    rows = np.concatenate([np.arange(25), np.flatnonzero(twice)])
    doubled = [Pairs(pairs.queries[rows], pairs.docs[rows]) for pairs in (BETTER, WORSE)]
    expected = AsymmetricKernelLearner(KERNEL, lam=0.5).fit_ranking(*doubled).predict(ALL)
    weighted = AsymmetricKernelLearner(KERNEL, lam=0.5).fit_ranking(BETTER, WORSE, 1.0 + twice)
    assert weighted.predict(ALL) == pytest.approx(expected, abs=1e-4)
    scaled = AsymmetricKernelLearner(KERNEL, lam=1.5).fit_ranking(BETTER, WORSE, 3 * (1.0 + twice))
    assert scaled.predict(ALL) == pytest.approx(expected, abs=1e-4)
    assert AsymmetricKernelLearner(KERNEL, lam=0.5).fit_ranking(BETTER, WORSE).predict(ALL) != pytest.approx(expected, abs=1e-2)


def test_the_solvers_tolerance_is_used():
    """A loose tolerance stops early, within the gap that it allows."""
    exact = AsymmetricKernelLearner(KERNEL, lam=0.1).fit_ranking(BETTER, WORSE).predict(ALL)
    loose = AsymmetricKernelLearner(KERNEL, lam=0.1, tolerance=0.3).fit_ranking(BETTER, WORSE).predict(ALL)
    assert np.abs(exact - loose).max() > 1e-6
