"""BEM-MKL and SimpleMKL: margins by hand, optimality, objective and duality gap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.svm import SVC

from kernelsearch.papers.classify.bem_mkl import BemMKL
from kernelsearch.papers.classify.simple_mkl import SimpleMKL, descend, duality_gap, reduced_gradient


def problem(seed=0, classes=2, n=60):
    """Three kernels: one sees the classes, one sees them dimly, one is noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    views = [np.eye(classes)[y] * strength + rng.normal(size=(n, classes)) for strength in (3.0, 1.0, 0.0)]
    return np.stack([view @ view.T for view in views], axis=2), y


def test_margins_by_hand():
    # Points on a line: kernel 0 separates the classes, kernel 1 mixes them.
    good, bad = np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([[0.0], [3.0], [0.5], [3.5]])
    kernels = np.stack([view @ view.T for view in (good, bad)], axis=2)
    model = BemMKL(standardize=False).fit(kernels, [0, 0, 1, 1])
    # Together, squared distances add: hits 0-1, 2-3; misses of 0, 1, 2, 3 are 2, 2, 1, 1.
    assert model.margins_ == pytest.approx([(5 - 1 + 4 - 1 + 4 - 1 + 5 - 1) / 4, (0.5 - 3 + 2.5 - 3 + 2.5 - 3 + 0.5 - 3) / 4])
    assert model.weights_ == pytest.approx([1.0, 0.0])
    assert model.transform(kernels) == pytest.approx(kernels[:, :, 0])


@pytest.mark.parametrize("model", [BemMKL(), SimpleMKL()])
@pytest.mark.parametrize("scale", [1e-4, 100.0, 10_000.0])
def test_weighted_sums_do_not_follow_the_scale_of_a_kernel(model, scale):
    """Nor does what a classifier makes of them; in the sum as it came, the kernel of noise would outweigh the others."""
    kernels, y = problem()
    plain, scaled = kernels, kernels * [1, 1, scale]
    sums = [clone(model).fit(stack, y).transform(stack) for stack in (plain, scaled)]
    assert sums[1] == pytest.approx(sums[0], rel=1e-6, abs=1e-9)
    first, second = (SVC(kernel="precomputed").fit(total, y).decision_function(total) for total in sums)
    assert second == pytest.approx(first, abs=1e-2)
    assert clone(model).fit(plain, y).weights_.argmax() == 0


def test_bem_falls_back_to_uniform_weights():
    kernels = np.stack([np.eye(4)] * 2, axis=2)
    assert BemMKL().fit(kernels, [0, 0, 1, 1]).weights_ == pytest.approx([0.5**0.5] * 2)


@pytest.mark.parametrize("classes", [2, 4])
def test_simple_mkl_descends_and_closes_the_gap(classes):
    kernels, y = problem(classes=classes)
    model = SimpleMKL(C=1.0, tol=1e-3).fit(kernels, y)
    assert (np.diff(model.objectives_) < 0).all() and model.n_iter_ == len(model.objectives_) - 1 >= 1
    assert model.duality_gap_ <= 1e-3
    assert model.weights_.sum() == pytest.approx(1) and (model.weights_ >= 0).all()
    assert model.weights_.argmax() == 0


def test_simple_mkl_reaches_the_optimum_of_a_general_solver():
    kernels, y = problem(seed=3, n=40)
    model = SimpleMKL(C=1.0, tol=1e-4, max_iter=200).fit(kernels, y)
    levels = np.moveaxis(kernels * model.scale_, 2, 0)
    sign = np.where(y == 1, 1.0, -1.0)

    def objective(weights):
        kernel = np.tensordot(np.maximum(weights, 0), levels, axes=1)
        svm = SVC(kernel="precomputed", C=1.0, tol=1e-6).fit(kernel, sign)
        beta = np.zeros(len(y))
        beta[svm.support_] = svm.dual_coef_[0]
        return np.abs(beta).sum() - 0.5 * beta @ kernel @ beta

    best = minimize(
        objective,
        np.full(3, 1 / 3),
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda d: d.sum() - 1},
        method="SLSQP",
    )
    assert model.objectives_[-1] <= best.fun * (1 + 1e-3)


@pytest.mark.parametrize("best", [0.49, 0.6, 0.8])
def test_a_step_of_descent_finds_the_minimum_along_the_line(best):
    """J = (w1 - best)^2 on two weights: ten halvings of the way from w1 = .9 to 0 come as near as a thousandth of it."""

    def solve(weights):
        return float((weights[0] - best) ** 2), np.array([2 * (weights[0] - best), 0.0])

    start = np.array([0.9, 0.1])
    weights, objective, gradient = descend(start, *solve(start), solve)
    assert weights[0] == pytest.approx(best, abs=0.9 / 1024) and weights.sum() == pytest.approx(1)
    assert (objective, gradient.tolist()) == (solve(weights)[0], solve(weights)[1].tolist())


def test_reduced_gradient_stays_on_the_simplex():
    weights, gradient = np.array([0.0, 0.3, 0.7]), np.array([1.0, -2.0, 0.5])
    direction = reduced_gradient(weights, gradient)
    assert direction == pytest.approx([0.0, 2.5, -2.5])
    assert direction.sum() == pytest.approx(0) and direction @ gradient < 0


def test_duality_gap_is_zero_where_used_kernels_have_the_same_norm():
    assert duality_gap(np.array([0.5, 0.5, 0.0]), np.array([-2.0, -2.0, -1.0]), 10.0) == pytest.approx(0)
    assert duality_gap(np.array([1.0, 0.0]), np.array([-1.0, -3.0]), 10.0) == pytest.approx(0.2)


@pytest.mark.parametrize("objective", [10.0, -10.0, 0.5, 1e-6])
def test_the_duality_gap_is_relative_to_the_objective(objective):
    weights, gradient = np.array([0.25, 0.75, 0.0]), np.array([-1.0, -2.0, -3.0])
    assert duality_gap(weights, gradient, objective) == pytest.approx((3 - 0.25 - 1.5) / abs(objective))


def test_descent_drops_weights_to_zero_one_after_the_other():
    """J = Σ c_m d_m is least at the corner of the smallest c: three weights fall to 0 in one step, the other has all."""
    costs = np.array([3.0, 1.0, 2.0, 1.5])
    visited = []

    def solve(weights):
        visited.append(weights)
        return float(weights @ costs), costs.copy()

    start = np.array([0.1, 0.5, 0.2, 0.2])
    weights, objective, gradient = descend(start, *solve(start), solve)
    assert weights == pytest.approx([0, 1, 0, 0]) and objective == 1 and gradient.tolist() == costs.tolist()
    # Weights fall by 2, 1 and .5 for each unit of the way: they are at 0 after .05, .2 and .4.
    expected = [[0, 0.675, 0.15, 0.175], [0, 0.9, 0, 0.1], [0, 1, 0, 0]]
    assert np.array(visited[1:4]) == pytest.approx(np.array(expected))


def test_descent_moves_all_weight_away_from_the_largest():
    """J falls all the way to the corner of the second weight, which the first one, the largest, leaves."""
    costs = np.array([3.0, 1.0])

    def solve(weights):
        return float(weights @ costs), costs.copy()

    start = np.array([0.8, 0.2])
    weights, objective, _ = descend(start, *solve(start), solve)
    assert weights.tolist() == [0, 1] and objective == 1


@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
def test_the_objective_is_that_of_machines_with_the_same_c(C):
    kernels, y = problem(seed=4, n=40)
    model = SimpleMKL(C=C).fit(kernels, y)
    for weights, value in ((np.full(3, 1 / 3), model.objectives_[0]), (model.weights_, model.objectives_[-1])):
        gram = kernels @ (weights * model.scale_)
        svm = SVC(kernel="precomputed", C=C, tol=1e-6).fit(gram, y)
        beta = np.zeros(40)
        beta[svm.support_] = svm.dual_coef_[0]
        assert value == pytest.approx(np.abs(beta).sum() - 0.5 * beta @ gram @ beta, rel=1e-4)


@pytest.mark.parametrize("normalize", [True, False])
def test_kernels_are_scaled_to_a_mean_diagonal_of_one(normalize):
    kernels, y = problem(seed=1, n=30)
    kernels = np.concatenate([kernels, np.zeros((30, 30, 1))], axis=2)  # a kernel of zeros stays one
    model = SimpleMKL(normalize=normalize).fit(kernels, y)
    diagonals = np.array([np.trace(kernels[:, :, level]) / 30 for level in range(3)])
    assert model.scale_ == pytest.approx([*1 / diagonals, 1.0] if normalize else np.ones(4))
    expected = sum(
        weight * scale * kernels[:5, :, m] for m, (weight, scale) in enumerate(zip(model.weights_, model.scale_, strict=True))
    )
    assert model.transform(kernels[:5]) == pytest.approx(expected)


def test_simple_mkl_stops_at_its_limits():
    kernels, y = problem(seed=2)
    one, many = (SimpleMKL(tol=1e-6, max_iter=count).fit(kernels, y) for count in (1, 60))
    assert one.n_iter_ == 1 and len(one.objectives_) == 2 and one.duality_gap_ > 1e-6
    assert many.objectives_[1] == one.objectives_[1] and 1 < many.n_iter_ <= 60
    loose = SimpleMKL(tol=1e9).fit(kernels, y)
    assert loose.n_iter_ == 0 and loose.weights_ == pytest.approx([1 / 3] * 3)


def test_two_classes_are_one_problem_whatever_their_names():
    kernels, y = problem(seed=4, n=40)
    named = np.where(y == 1, "no", "yes")
    first, second = SimpleMKL().fit(kernels, y), SimpleMKL().fit(kernels, named)
    assert first.weights_ == pytest.approx(second.weights_, abs=1e-3)
    assert first.objectives_ == pytest.approx(second.objectives_, rel=1e-4)


def test_texts_without_a_hit_or_a_miss_have_no_margin():
    """The third class has one text, which is nobody's hit; margins are means over the others, in units of mean distances."""
    rng = np.random.default_rng(6)
    views = [rng.normal(size=(7, 2)) + 2 * np.eye(3)[[0, 0, 0, 1, 1, 1, 2]][:, :2], rng.normal(size=(7, 2)) * 5]
    kernels, y = np.stack([view @ view.T for view in views], axis=2), np.array([0, 0, 0, 1, 1, 1, 2])
    apart = np.array([[[np.linalg.norm(a - b) for b in view] for a in view] for view in views])
    unit = apart.mean(axis=(1, 2))
    together = ((apart / unit[:, None, None]) ** 2).sum(axis=0)
    margins = []
    for i in range(6):
        hit = min((j for j in range(7) if y[j] == y[i] and j != i), key=lambda j: together[i, j])
        miss = min((j for j in range(7) if y[j] != y[i]), key=lambda j: together[i, j])
        margins.append((apart[:, i, miss] - apart[:, i, hit]) / unit)
    model = BemMKL().fit(kernels, y)
    assert model.margins_ == pytest.approx(np.mean(margins, axis=0))
    positive = np.maximum(model.margins_, 0)
    assert model.weights_ == pytest.approx(positive / np.linalg.norm(positive))
    with pytest.raises(ValueError, match="7 texts but 6 labels"):
        BemMKL().fit(kernels, y[:6])


def test_a_kernel_without_distances_has_no_margin():
    kernels, y = problem(seed=8, n=20)
    kernels[:, :, 1] = 3.0  # all texts are one point
    model = BemMKL().fit(kernels, y)
    assert model.margins_[1] == 0 and model.weights_[1] == 0 and np.isfinite(model.margins_).all()


@pytest.mark.parametrize("model", [BemMKL(), SimpleMKL()])
def test_wrong_shapes_and_labels_are_refused(model):
    with pytest.raises(ValueError, match=r"\(n, n, kernels\)"):
        model.fit(np.ones((3, 3)), [0, 1, 0])
    with pytest.raises(ValueError, match="classes"):
        model.fit(np.stack([np.eye(3)], axis=2), [0, 0, 0])
    with pytest.raises(ValueError, match="finite"):
        model.fit(np.full((2, 2, 1), np.nan), [0, 1])
