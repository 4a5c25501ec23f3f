"""The interface of engines, in this process."""

import operator
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from kernelsearch.core.errors import OptionError
from kernelsearch.core.execution import LocalEngine, halves
from kernelsearch.engines import EngineSettings, make_engine
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.kernels.spectral import feature_rows
from kernelsearch.rerankers.klsa.basis import fit_basis


def test_results_come_in_the_items_order():
    with LocalEngine() as engine:
        assert list(engine.map(partial(operator.mul, 3), range(5), label="times")) == [0, 3, 6, 9, 12]


def test_held_values_are_made_once_and_met_by_what_is_shared():
    made = []
    held = LocalEngine().hold(lambda item: made.append(item) or item * 10, [1, 2, 3], label="make")
    assert list(held.map(operator.add, 5, label="add")) == [15, 25, 35]
    assert held.sum(operator.add, 5, label="add") == 75
    assert made == [1, 2, 3]


def test_sums_follow_the_tree_of_halves():
    """Rounding shows the order: (a + b) + c is not a + (b + c) for these numbers."""
    values = [np.float32(1e8), np.float32(-1e8), np.float32(3.0)]
    held = LocalEngine().hold(lambda value: value, values, label="make")
    assert halves(values) == (values[:2], values[2:])
    assert held.sum(lambda value, _: value, None, label="sum") == (values[0] + values[1]) + values[2]
    assert (values[0] + values[1]) + values[2] != values[0] + (values[1] + values[2])


def test_a_basis_in_parts_spans_the_single_one_in_single_precision_too(demo_index, tmp_path, monkeypatch):
    monkeypatch.setattr(feature_rows, "DOUBLE_LIMIT", 0)
    monkeypatch.setattr(import_module("kernelsearch.kernels.spectral.decompose"), "ARPACK_LIMIT", 0)
    options = {"dims": 60, "engine": LocalEngine()}
    whole, parted = (fit_basis(tmp_path / str(n), demo_index.forward, BM25(), parts=n, **options) for n in (1, 6))
    assert not np.array_equal(whole.rows, parted.rows)  # sums are rounded in another order
    leading = [np.asarray(basis.rows[:, :40], dtype=float) for basis in (whole, parted)]
    assert 0 < subspace_angles(*leading).max() < 1e-3


@pytest.mark.parametrize("value", ["dusk", "dask:", "dask:0", "dask:x", "4"])
def test_a_value_that_names_no_engine_is_refused(value):
    with pytest.raises(OptionError, match=f"engine: '{value}' is not local, dask, dask:N or the address of a scheduler"):
        make_engine(EngineSettings(engine=value))
