"""Exact search by codes of eight bits, against numpy in double precision."""

import numpy as np
import pytest

from kernelsearch.core import compiled
from kernelsearch.neighbours.codes import Codes, _best, usable

pytestmark = pytest.mark.skipif(compiled.loops() is None, reason="needs the compiled loops")


def unit(rng, count, dims):
    rows = rng.standard_normal((count, dims))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mixed(rng, count, dims):
    """Norms of a wide range, an outlier in one coordinate, zeros, subnormal values and equal rows."""
    rows = rng.standard_normal((count, dims)) * rng.lognormal(sigma=1.5, size=(count, 1))
    rows[:, 0] += 40 * (np.arange(count) % 7 == 0)
    rows[10:20] = 0
    rows[20:30] *= 1e-6
    rows[100:400] = rows[500]
    return rows


@pytest.mark.parametrize("make", [unit, mixed])
@pytest.mark.parametrize("dims", [1, 7, 16, 384])
def test_the_best_rows_are_those_of_all_products(make, dims):
    rng = np.random.default_rng(dims)
    matrix = make(rng, 3000, dims).astype(np.float16)
    queries = np.vstack([make(rng, 600, dims)[::30], np.zeros((1, dims))]).astype(np.float32)
    values = matrix.astype(np.float64)
    compared = []

    def products(query, rows):
        compared.append(len(rows))
        return (values[rows] @ query.astype(np.float64)).astype(np.float32)

    assert usable(matrix)
    for query, (rows, exact) in zip(queries, Codes(matrix).search(queries, 50, products), strict=True):
        scores = (values @ query.astype(np.float64)).astype(np.float32)
        expected = np.lexsort((np.arange(3000), -scores))[:50]
        assert np.array_equal(rows, expected)
        assert np.array_equal(exact, scores[expected])
    if make is unit and dims == 384:
        assert sum(compared) < 3 * 50 * len(queries) + 3000  # few rows are compared exactly; by zeros all are equal


def test_rows_that_are_excluded_are_no_results():
    matrix = -unit(np.random.default_rng(1), 40, 8).astype(np.float16)
    among = np.arange(40) % 2 == 1
    values = matrix.astype(np.float32)
    (found,) = Codes(matrix).search(values[:1], 30, lambda query, rows: values[rows] @ query, among=among)
    assert sorted(found[0].tolist()) == np.flatnonzero(among).tolist()
    (nothing,) = Codes(matrix).search(values[:1], 30, lambda query, rows: values[rows] @ query, among=np.zeros(40, dtype=bool))
    assert len(nothing[0]) == len(nothing[1]) == 0


def test_a_code_that_is_wrong_by_its_bound_does_not_hide_the_best_row():
    """Row 2 is best by exact products, and last by codes as far as the bounds allow."""
    exact = np.array([0.5, 0.45, 0.6, 0.1], dtype=np.float32)
    approximate = np.array([0.6, 0.55, 0.5, 0.1], dtype=np.float32)
    rows, products = _best(
        approximate, np.full(4, 0.1001, dtype=np.float32), 2, np.zeros(1, dtype=np.float32), lambda _, rows: exact[rows]
    )
    assert rows.tolist() == [2, 0] and products.tolist() == exact[[2, 0]].tolist()


def test_the_bound_holds_for_every_row():
    rng = np.random.default_rng(5)
    matrix, queries = mixed(rng, 2000, 48).astype(np.float16), mixed(rng, 600, 48)[::20].astype(np.float32)
    approximate, bounds = Codes(matrix)._approximate(queries)
    error = np.abs(approximate - queries.astype(np.float64) @ matrix.astype(np.float64).T)
    assert (error <= bounds).all()
    assert np.median(error[error > 0] / bounds[error > 0]) > 0.01  # it is not out of proportion


def test_sums_of_many_dimensions_stay_within_32_bits():
    matrix, query = np.ones((3, 20_000), dtype=np.float16), np.ones((1, 20_000), dtype=np.float32)
    approximate, _ = Codes(matrix)._approximate(query)
    assert approximate[0] == pytest.approx([20_000.0] * 3, rel=1e-3)
