"""Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation".

Each equation by brute force, against the product.
"""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelsearch.learning.ranking.lists import list_average_precision
from kernelsearch.learning.ranking.simlistmkl import SimListMKL
from kernelsearch.learning.ranking.triplets import SimTripletNet
from kernelsearch.papers.ltr.exact import ExactSimListMKL
from kernelsearch.papers.ltr.lambdas import lambdas, swap_deltas
from kernelsearch.papers.ltr.online import OASIS, OKWL, OnlineSimListMKL
from kernelsearch.papers.ltr.triplets import SimTripletBoost, SimTripletSVM


def tables(queries=8, size=12, features=3, seed=0):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(queries), size)
    y = (np.arange(queries * size) % size < 3).astype(float)
    X = rng.normal(size=(len(qid), features)) + y[:, None] * np.array([1.5, 0.5, 0.0])
    return X, y, qid


def zscored(X, qid):
    out = X.copy()
    for query in np.unique(qid):
        rows = qid == query
        out[rows] = (X[rows] - X[rows].mean(axis=0)) / X[rows].std(axis=0)
    return out


def triplets(X, y, qid):
    """K(q, better) - K(q, worse) of all triplets, and weights by which every query counts the same."""
    Z, parts, weights = zscored(X, qid), [], []
    queries = np.unique(qid)
    for query in queries:
        rows = np.flatnonzero(qid == query)
        pairs = [(i, j) for i, j in product(rows, rows) if y[i] > y[j]]
        parts += [Z[i] - Z[j] for i, j in pairs]
        weights += [1 / len(pairs) / len(queries)] * len(pairs)
    return np.array(parts), np.array(weights)


def average_precision(order, relevant):
    """AP of documents in an order, by its definition."""
    hits, total = 0, 0.0
    for rank, document in enumerate(order, 1):
        if relevant[document]:
            hits += 1
            total += hits / rank
    return total / sum(relevant)


@pytest.mark.parametrize("kind", [SimTripletNet, SimTripletBoost, SimTripletSVM, OKWL, OASIS, OnlineSimListMKL])
def test_equation_1_the_similarity_is_a_weighted_sum_of_kernels(kind):
    X, y, qid = tables()
    learner = kind().fit(X, y, qid)
    expected = [sum(weight * value for weight, value in zip(learner.weights_, row, strict=True)) for row in zscored(X, qid)]
    assert learner.predict(X, qid) == pytest.approx(expected)
    assert (learner.weights_ >= 0).all() and learner.weights_.any()


@pytest.mark.parametrize("kind", [SimTripletNet, SimTripletBoost, SimTripletSVM])
def test_equation_2_the_loss_is_a_sum_over_queries_that_count_alike(kind):
    """A query that is there twice has twice the weight, whatever its number of documents."""
    X, y, qid = tables()
    longer = np.concatenate([np.arange(len(y)), np.flatnonzero(qid == 0)])  # each document of query 0 twice
    assert kind().fit(X[longer], y[longer], qid[longer]).weights_ == pytest.approx(kind().fit(X, y, qid).weights_, abs=1e-6)
    again = np.where(np.arange(len(longer)) < len(y), qid[longer], 99)  # query 0 twice
    assert kind().fit(X[longer], y[longer], again).weights_ != pytest.approx(kind().fit(X, y, qid).weights_, abs=1e-3)


def test_equation_3_cross_entropy_of_triplets():
    X, y, qid = tables()
    D, w = triplets(X, y, qid)
    start = np.full(3, 2 / 3)

    def loss(omega):
        return w @ np.log1p(np.exp(-D @ omega)) + 0.03 / 2 * ((omega - start) ** 2).sum()

    best = minimize(loss, np.ones(3), bounds=[(0, None)] * 3, method="SLSQP", options={"ftol": 1e-13, "maxiter": 1000})
    assert SimTripletNet().fit(X, y, qid).weights_ == pytest.approx(best.x, abs=2e-3)


def test_equation_4_exponential_loss_of_triplets():
    X, y, qid = tables()
    D, w = triplets(X, y, qid)

    def loss(omega):
        return np.log(w @ np.exp(-D @ omega))

    best = minimize(loss, np.ones(3), bounds=[(0, None)] * 3, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
    learned = SimTripletBoost(rounds=3000).fit(X, y, qid).weights_
    assert learned == pytest.approx(best.x, abs=1e-3) and (best.x > 0.01).any()
    # One round: a Newton step of length .1 on the kernel whose step gains most.
    edges, squares = w @ D, w @ D**2
    steps = 0.1 * np.maximum(edges, 0) / squares
    expected = np.where(np.arange(3) == np.argmax(steps * edges), steps, 0)
    assert SimTripletBoost(rounds=1).fit(X, y, qid).weights_ == pytest.approx(expected)


def test_equation_3_descends_for_the_iterations_that_are_asked_for():
    X, y, qid = tables()
    D, w = triplets(X, y, qid)

    def loss(omega):
        return w @ np.log1p(np.exp(-D @ omega)) + 0.03 / 2 * ((omega - 2 / 3) ** 2).sum()

    once, twice, often = (loss(SimTripletNet(iterations=count).fit(X, y, qid).weights_) for count in (1, 2, 500))
    assert loss(np.full(3, 2 / 3)) > once + 0.01 > twice + 0.02 > often + 0.025


@pytest.mark.parametrize("signed", [False, True])
def test_equation_4_every_round_of_boosting_by_hand(signed):
    """A Newton step of length .1 on the kernel whose step gains most; a weight may shrink again, below 0 only if signed."""
    X, y, qid = tables(seed=21)
    X[:, 1] = X[:, 0] + 0.5 * X[:, 2]  # what is added to one kernel first is taken back later
    D, w = triplets(X, y, qid)
    omega, shrank, negative = np.zeros(3), False, False
    for _ in range(120):
        hard = w * np.exp(-D @ omega)
        steps = 0.1 * (hard @ D) / (hard @ D**2)
        steps = steps if signed else np.maximum(steps, -omega)
        best = int(np.argmax(steps * (hard @ D)))
        omega[best] += steps[best]
        shrank, negative = shrank or steps[best] < 0, negative or bool(omega[best] < 0)
    assert shrank and negative == signed
    assert SimTripletBoost(rounds=120, signed=signed).fit(X, y, qid).weights_ == pytest.approx(omega, abs=1e-9)


def test_equation_5_hinge_loss_of_triplets():
    X, y, qid = tables()
    D, w = triplets(X, y, qid)

    def objective(omega):
        return 0.5 * omega @ omega + 10.0 * w @ np.maximum(0, 1 - D @ omega)

    learned = SimTripletSVM(C=10.0, tolerance=1e-5).fit(X, y, qid).weights_
    starts = (np.zeros(3), np.ones(3), learned)
    rivals = [minimize(objective, start, bounds=[(0, 10)] * 3, method="Powell").fun for start in starts]
    assert (learned >= 0).all() and objective(learned) <= min(rivals) + 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_equation_7_average_precision_of_a_predicted_order(seed):
    rng = np.random.default_rng(seed)
    scores, relevant = rng.permutation(9).astype(float), rng.random(9) < 0.4
    relevant[4] = True
    ranked = relevant[np.argsort(-scores)]
    precision = [ranked[: r + 1].sum() / (r + 1) for r in range(9)]
    expected = sum(rel * value for rel, value in zip(ranked, precision, strict=True)) / ranked.sum()
    assert list_average_precision(scores, relevant) == pytest.approx(expected)


def test_equation_7_counts_relevant_documents_that_the_list_lacks():
    scores, relevant = np.array([3.0, 2.0, 1.0]), np.array([True, False, True])
    assert list_average_precision(scores, relevant) == pytest.approx((1 + 2 / 3) / 2)
    assert list_average_precision(scores, relevant, total=5) == pytest.approx((1 + 2 / 3) / 5)


@pytest.mark.parametrize("seed", range(5))
def test_equations_6_to_8_lambdas_of_all_swaps(seed):
    """y_i = Σ_j |ΔAP| / (1 + exp(f_i - f_j)) with ΔAP by swapping the two; Eq. 8 is |P@r_i - P@r_j|."""
    rng = np.random.default_rng(seed)
    scores, relevant = rng.permutation(9).astype(float) / 3, rng.random(9) < 0.4
    relevant[:2] = True, False
    order = np.argsort(-scores)
    place = np.empty(9, dtype=int)
    place[order] = np.arange(9)
    pull, curvature = np.zeros(9), np.zeros(9)
    precision = np.cumsum(relevant[order]) / np.arange(1, 10)
    good, bad = np.flatnonzero(relevant), np.flatnonzero(~relevant)
    for (a, i), (b, j) in product(enumerate(good), enumerate(bad)):
        swapped = order.copy()
        swapped[place[i]], swapped[place[j]] = j, i
        delta = abs(average_precision(swapped, relevant) - average_precision(order, relevant))
        assert swap_deltas(scores, relevant)[a, b] == pytest.approx(delta)
        assert swap_deltas(scores, relevant, "printed")[a, b] == pytest.approx(abs(precision[place[i]] - precision[place[j]]))
        rho = 1 / (1 + np.exp(scores[i] - scores[j]))
        pull[i] += delta * rho
        pull[j] -= delta * rho
        curvature[i] += delta * rho * (1 - rho)
        curvature[j] += delta * rho * (1 - rho)
    result = lambdas(scores, relevant)
    assert result[0] == pytest.approx(pull) and result[1] == pytest.approx(curvature)


def test_listing_of_section_3_one_round_by_hand():
    """f₀ = 2 × the mean kernel; one tree of two leaves on the lambdas; its leaves are η Σy/Σw (lines 6-17)."""
    X, y, qid = tables(queries=3, size=12)
    Z = zscored(X, qid)
    start = 2.0 * Z.mean(axis=1)
    pull, curvature = np.zeros(len(y)), np.zeros(len(y))
    for query in range(3):
        rows = qid == query
        pull[rows], curvature[rows] = lambdas(start[rows], y[rows] > 0)
    best = None
    for feature, cut in product(range(3), range(5, len(y) - 5)):
        order = np.argsort(Z[:, feature], kind="stable")
        left = np.isin(np.arange(len(y)), order[:cut])
        error = sum(((pull[side] - pull[side].mean()) ** 2).sum() for side in (left, ~left))
        if best is None or error < best[0] - 1e-12:
            best = error, left
    assert best is not None
    left = best[1]
    expected = start + 0.1 * np.where(
        left, pull[left].sum() / curvature[left].sum(), pull[~left].sum() / curvature[~left].sum()
    )
    learner = ExactSimListMKL(trees=1, leaves=2, min_rows=5, learning_rate=0.1).fit(X, y, qid)
    assert learner.predict(X, qid) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["exact", "printed", "ndcg", "none"])
def test_equation_6_lambdas_are_the_gradient_of_the_objective(kind):
    """-Σ |ΔE| log s(f_i - f_j) with |ΔE| held: y is its negative gradient and w its second derivative, by differences."""
    rng = np.random.default_rng(11)
    scores, relevant = rng.normal(size=8), np.array([True, False, False, True, False, True, False, False])
    delta = swap_deltas(scores, relevant, kind)

    def objective(f):
        apart = f[relevant][:, None] - f[~relevant][None, :]
        return float((delta * np.log1p(np.exp(-apart))).sum())

    pull, curvature = lambdas(scores, relevant, kind)
    for place, step in enumerate(np.eye(8) * 1e-4):
        up, here, down = objective(scores + step), objective(scores), objective(scores - step)
        assert pull[place] == pytest.approx(-(up - down) / 2e-4, abs=1e-7)
        assert curvature[place] == pytest.approx((up - 2 * here + down) / 1e-8, abs=1e-5)
    assert pull.sum() == pytest.approx(0, abs=1e-12)


def test_equation_8_ndcg_and_none_by_hand():
    """Ranks 1 to 4 are relevant, not, relevant, not; gains 1 / log2(r + 1), over the gain of the ideal order."""
    scores, relevant = np.array([4.0, 3.0, 2.0, 1.0]), np.array([True, False, True, False])
    gain = [1 / np.log2(rank + 1) for rank in (1, 2, 3, 4)]
    expected = [[gain[0] - gain[1], gain[0] - gain[3]], [gain[1] - gain[2], gain[2] - gain[3]]]
    assert swap_deltas(scores, relevant, "ndcg") == pytest.approx(np.array(expected) / (gain[0] + gain[1]))
    assert swap_deltas(scores, relevant, "none").tolist() == [[1, 1], [1, 1]]


def grown(Z, pull, leaves, least):
    """The leaf of each row in a regression tree: the split that lowers the squared error most comes first."""

    def error(rows):
        return float(((pull[rows] - pull[rows].mean()) ** 2).sum())

    def best_split(rows):
        found = (0.0, None, None)
        for feature in range(Z.shape[1]):
            order = rows[np.argsort(Z[rows, feature], kind="stable")]
            for cut in range(least, len(rows) - least + 1):
                gain = error(rows) - error(order[:cut]) - error(order[cut:])
                found = max(found, (gain, order[:cut], order[cut:]), key=lambda split: split[0])
        return found

    parts = [np.arange(len(pull))]
    while len(parts) < leaves:
        splits = [best_split(rows) for rows in parts]
        chosen = int(np.argmax([gain for gain, _, _ in splits]))
        parts[chosen : chosen + 1] = splits[chosen][1:]
    number = np.zeros(len(pull), dtype=int)
    for leaf, rows in enumerate(parts):
        number[rows] = leaf
    return number


@pytest.mark.parametrize("delta", ["exact", "printed"])
def test_listing_of_section_3_three_rounds_of_trees_with_four_leaves(delta):
    """Every round takes the lambdas at the present f, over all queries together (lines 6-17)."""
    X, y, qid = tables(queries=4, size=12, seed=5)
    Z, rate = zscored(X, qid), 0.3
    f = 2.0 * Z.mean(axis=1)
    for _ in range(3):
        pull, curvature = np.zeros(len(y)), np.zeros(len(y))
        for query in range(4):
            rows = qid == query
            pull[rows], curvature[rows] = lambdas(f[rows], y[rows] > 0, delta)
        leaf = grown(Z, pull, 4, 4)
        f = f + rate * np.array([pull[leaf == own].sum() / curvature[leaf == own].sum() for own in leaf])
    learner = ExactSimListMKL(trees=3, leaves=4, min_rows=4, learning_rate=rate, delta=delta).fit(X, y, qid)
    assert learner.predict(X, qid) == pytest.approx(f, abs=1e-9)


def test_equation_6_falls_by_boosting_with_xgboost():
    """Σ |ΔAP| log(1 + exp(f_j - f_i)), with the swaps of the start's order, is lower after training, and AP higher."""
    X, y, qid = tables(queries=12, seed=2)
    X[:, 2] = np.abs(X[:, 2]) * np.where(y > 0, 1, -1) ** 2 + (y == 0) * (X[:, 2] > 0)  # which no weighted sum can use fully
    start = 2.0 * zscored(X, qid).mean(axis=1)
    fitted = SimListMKL(trees=40, columns=1.0, learning_rate=0.2).fit(X, y, qid).predict(X, qid)

    def measured(f):
        loss, precision = 0.0, []
        for query in range(12):
            rows = np.flatnonzero(qid == query)
            relevant = y[rows] > 0
            delta = swap_deltas(start[rows], relevant)
            apart = f[rows][relevant][:, None] - f[rows][~relevant][None, :]
            loss += float((delta * np.log1p(np.exp(-apart))).sum())
            precision.append(average_precision(np.lexsort((relevant, -f[rows])), relevant))
        return loss, np.mean(precision)

    (before, ap_before), (after, ap_after) = measured(start), measured(fitted)
    assert after < 0.8 * before and ap_after > ap_before


@pytest.mark.parametrize("signed", [False, True])
def test_equations_3_and_5_conditions_of_karush_kuhn_and_tucker(signed):
    """At the learned weights the gradient is 0, or points out of ω ≥ 0; the hinge loss has a subgradient that does."""
    X, y, qid = tables(queries=4, size=8, seed=8)
    X[:, 2] -= 1.5 * y  # of this kernel less is better
    D, w = triplets(X, y, qid)
    omega = SimTripletNet(signed=signed, penalty=0.2).fit(X, y, qid).weights_
    gradient = -(w / (1 + np.exp(D @ omega))) @ D + 0.2 * (omega - 2 / 3)
    assert np.abs(gradient[omega != 0]).max() < 1e-4
    assert (gradient[omega == 0] > 0).all() and (omega == 0).any() != signed
    C = 2.0
    omega = SimTripletSVM(C=C, tolerance=1e-6, signed=signed).fit(X, y, qid).weights_
    # Multipliers 0 ≤ t ≤ C w of the triplets' slacks, t = C w below the margin and 0 above: ω = (Dᵀt)⁺ for some of them.
    margins = D @ omega
    lower, upper = (np.where(margins < 1 - 1e-4, C * w, 0.0), np.where(margins > 1 + 1e-4, 0.0, C * w))

    def distance(t):
        rest = omega - t @ D
        rest = rest if signed else np.where(omega > 1e-9, rest, np.minimum(rest, 0.0))
        return float(rest @ rest), -2 * D @ rest

    found = minimize(distance, (lower + upper) / 2, jac=True, bounds=list(zip(lower, upper, strict=True)), method="L-BFGS-B")
    assert found.fun < 1e-6 and np.abs(omega).max() > 0.1 and (omega < 0).any() == signed


def test_the_fast_learner_optimises_average_precision():
    """xgboost's objective is the listwise one, on relevance, with the sum of kernels as its start."""
    X, y, qid = tables()
    learner = SimListMKL(trees=2).fit(X, 3 * y, qid)
    config = json.loads(learner.booster_.save_config())["learner"]
    assert config["objective"]["name"] == "rank:map"
    empty = SimListMKL(trees=0).fit(X, y, qid)
    assert empty.predict(X, qid) == pytest.approx(2.0 * zscored(X, qid).mean(axis=1))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kind", [OKWL, OASIS])
def test_equation_5_online_steps_of_okwl_and_oasis(kind, signed):
    """Triplet by triplet: a gradient step of length η, and the passive-aggressive step min(C, loss / |K⁺ - K⁻|²)."""
    X, y, qid = tables()
    omega, capped = np.zeros(3), set()
    for difference in triplets(X, y, qid)[0]:
        loss = max(0.0, 1 - difference @ omega)
        if kind is OKWL:
            omega = omega + (0.07 * difference if loss > 0 else 0)
        else:
            capped.add(loss / (difference @ difference) > 0.1)
            omega = omega + min(0.1, loss / (difference @ difference)) * difference
        omega = omega if signed else np.maximum(omega, 0)
    learner = kind(signed=signed, **({"learning_rate": 0.07} if kind is OKWL else {"C": 0.1}))
    half = qid < 4
    for part in (half, ~half):  # learning goes on where it stopped
        learner.partial_fit(X[part], y[part], qid[part])
    np.testing.assert_allclose(learner.weights_, omega, atol=1e-12)
    np.testing.assert_allclose(learner.predict(X, qid), zscored(X, qid) @ omega, atol=1e-12)
    assert capped in (set(), {False, True})


@pytest.mark.parametrize("kind", [OKWL, OASIS])
def test_equation_5_passes_over_all_triplets(kind):
    """Two rows, one triplet with K⁺ - K⁻ = (2, -2): every pass is the same step, until the loss is 0."""
    X, y = np.array([[1.0, 3.0], [0.0, 5.0]]), [1, 0]
    for passes in (1, 2, 9):
        omega = np.zeros(2)
        for _ in range(passes):
            loss = max(0.0, 1 - omega @ [2, -2])
            omega += np.array([2, -2]) * ((0.1 if loss > 0 else 0) if kind is OKWL else min(0.1, loss / 8))
        rate = {"learning_rate": 0.1} if kind is OKWL else {"C": 0.1}
        assert kind(passes=passes, signed=True, **rate).fit(X, y).weights_ == pytest.approx(omega)


@pytest.mark.parametrize("signed", [False, True])
def test_equations_6_to_8_online_with_a_linear_f(signed):
    """List by list: the gradient of Σ |ΔAP| log σ(f_i - f_j) by ω, with the change of AP by swapping two documents."""
    X, y, qid = tables()
    Z, omega = zscored(X, qid), np.full(3, 2 / 3)
    for query in range(8):
        K, relevant = Z[qid == query], y[qid == query] > 0
        f = K @ omega
        order = np.lexsort((relevant, -f)).tolist()
        before, gradient = average_precision(order, relevant), np.zeros(3)
        for i, j in product(np.flatnonzero(relevant), np.flatnonzero(~relevant)):
            swapped = [{i: j, j: i}.get(document, document) for document in order]
            change = abs(average_precision(swapped, relevant) - before)
            gradient += change / (1 + np.exp(f[i] - f[j])) * (K[i] - K[j])
        omega = omega + 0.5 * gradient
        omega = omega if signed else np.maximum(omega, 0)
    learner = OnlineSimListMKL(learning_rate=0.5, signed=signed)
    half = qid < 4
    for part in (half, ~half):
        learner.partial_fit(X[part], y[part], qid[part])
    np.testing.assert_allclose(learner.weights_, omega, atol=1e-12)
    fitted = OnlineSimListMKL(learning_rate=0.5, signed=signed, passes=1).fit(X[qid == 0], y[qid == 0])
    updated = OnlineSimListMKL(learning_rate=0.5, signed=signed).partial_fit(X[qid == 0], y[qid == 0])
    np.testing.assert_allclose(fitted.weights_, updated.weights_)
