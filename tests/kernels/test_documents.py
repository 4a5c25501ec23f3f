"""Document kernels against scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import pairwise

from kernelsearch.core.errors import OptionError
from kernelsearch.kernels.asymmetric import BM25, VSM, Linear
from kernelsearch.kernels.documents import RBF, Cosine, Custom, Polynomial

A, B = np.arange(20), np.array([3, 50, 7])


def test_cosine(topical):
    x, y = VSM().document_features(topical, A), VSM().document_features(topical, B)
    assert np.allclose(Cosine().documents(topical, A, B), pairwise.cosine_similarity(x, y))
    assert np.allclose(np.diag(Cosine(BM25()).documents(topical, A, A)), 1)


def test_cosine_of_an_empty_document_is_zero(pets):
    assert Cosine().documents(pets, np.array([3]), np.arange(4)).tolist() == [[0, 0, 0, 0]]


def test_rbf_and_polynomial(topical):
    x, y = Linear().document_features(topical, A), Linear().document_features(topical, B)
    rbf = RBF(gamma=0.01, base=Linear()).documents(topical, A, B)
    assert np.allclose(rbf, pairwise.rbf_kernel(x, y, gamma=0.01))
    polynomial = Polynomial(degree=3, offset=2, base=Linear()).documents(topical, A, B)
    assert np.allclose(polynomial, pairwise.polynomial_kernel(x, y, degree=3, gamma=1, coef0=2))


def test_any_function_of_two_feature_matrices(topical):
    kernel = Custom(lambda x, y: x @ y.T, base=BM25())
    assert np.allclose(kernel.documents(topical, A, B), BM25().documents(topical, A, B))
    with pytest.raises(OptionError, match=r"gave shape \(20,\) where \(20, 3\)"):
        Custom(lambda x, y: np.ones(x.shape[0])).documents(topical, A, B)


@pytest.mark.parametrize(
    "make, word",
    [
        (lambda: RBF(gamma=0), "gamma"),
        (lambda: RBF(gamma=np.nan), "gamma nan"),
        (lambda: Polynomial(degree=0), "degree"),
        (lambda: Polynomial(degree=1.5), "degree 1.5"),
        (lambda: Polynomial(offset=np.nan), "offset nan"),
        (lambda: Polynomial(offset=-0.1), "offset -0.1"),
        (lambda: Cosine(RBF()), "has none"),
    ],
)
def test_bad_parameters_are_refused(make, word):
    with pytest.raises(OptionError, match=word):
        make()


def test_a_polynomial_without_an_offset_is_a_power(topical):
    x, y = (Linear().document_features(topical, rows) for rows in (A, B))
    values = Polynomial(degree=2, offset=0, base=Linear()).documents(topical, A, B)
    assert np.allclose(values, (x @ y.T).toarray() ** 2)


def test_a_polynomial_is_named_with_its_base_unless_that_is_the_default():
    assert str(Polynomial()) == str(Polynomial(base=Cosine())) == "polynomial"
    assert str(Polynomial(base=BM25())) == f"polynomial({BM25()})"
