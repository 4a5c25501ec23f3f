"""Kernels as data: a round trip over random expressions, in values and through text."""

import json
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels import registry
from kernelsearch.kernels.asymmetric import BM25, VSM, Dirichlet, JelinekMercer, Linear, LogEntropy
from kernelsearch.kernels.documents import RBF, Cosine, Custom, Polynomial
from kernelsearch.kernels.saved import from_data, to_data

QUERY = Query("", ("cat", "fish"), (2.0, 1.0))
DOCS = np.arange(4)


def numbers(low, high):
    return st.floats(low, high, allow_nan=False, exclude_min=low == 0)


MAPPED = st.one_of(
    st.just(Linear()),
    st.just(VSM()),
    st.just(LogEntropy()),
    st.builds(BM25, k1=numbers(0, 5), b=st.floats(0, 1), k3=st.none() | numbers(0, 10)),
    st.builds(Dirichlet, mu=numbers(0, 5000)),
    st.builds(JelinekMercer, lam=numbers(0, 1)),
)
LEAVES = st.one_of(
    MAPPED,
    st.builds(Cosine, MAPPED),
    st.builds(RBF, gamma=numbers(0, 3), base=st.builds(Cosine, MAPPED)),
    st.builds(Polynomial, degree=st.integers(1, 3), offset=st.floats(0, 2), base=MAPPED),
)
FACTORS = st.floats(-4, 4).filter(lambda value: value not in (0.0, 1.0))


def expressions(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a * b, inner, inner),
            st.builds(lambda factor, kernel: factor * kernel, FACTORS, inner),
        ),
        max_leaves=6,
    )


@settings(max_examples=200, deadline=None)
@given(expressions(LEAVES))
def test_a_kernel_comes_back_from_json_with_every_parameter(kernel):
    assert from_data(json.loads(json.dumps(to_data(kernel)))) == kernel


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(expressions(st.sampled_from([Linear(), VSM(), BM25(), Cosine(), Cosine(BM25()), RBF(), RBF(base=VSM() + BM25())])))
def test_a_kernels_text_is_read_back_as_the_same_function(pets, kernel):
    again = registry.kernel(str(kernel))
    expected = kernel.documents(pets, DOCS, DOCS)
    assert again.documents(pets, DOCS, DOCS) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    if kernel.has_query:
        assert again.scores(pets, QUERY, DOCS) == pytest.approx(kernel.scores(pets, QUERY, DOCS), rel=1e-6, abs=1e-6)


def test_kernels_without_a_name_are_not_saved():
    assert to_data(Custom(lambda x, y: x @ y.T)) is None
    assert to_data(2 * Custom(lambda x, y: x @ y.T) + BM25()) is None
    assert to_data(Cosine(type("Mine", (BM25,), {})())) is None


@pytest.mark.parametrize("data", [{}, {"name": "nothing", "parameters": {}}, {"sum": [{}]}, {"factor": "x", "kernel": {}}])
def test_data_that_describes_no_kernel_is_refused(data):
    with pytest.raises(OptionError, match="kernel"):
        from_data(data)


class Twice(Linear):
    """A kernel of another package."""


def test_a_kernel_of_a_plugin_is_saved_by_the_name_of_its_entry_point(monkeypatch):
    entries = [("other", "elsewhere:Kernel"), ("twice", f"{__name__}:Twice")]
    monkeypatch.setattr(registry, "plugins", lambda: {name: EntryPoint(name, value, registry.GROUP) for name, value in entries})
    assert registry.name_of(Twice) == "twice" and registry.name_of(Linear) == "linear"
    assert registry.name_of(Custom) is None
