"""The classifiers' estimators pass scikit-learn's checks; most of them are not for kernels or texts, as their tags say."""

import pytest

from kernelsearch.papers.classify.bem_mkl import BemMKL
from kernelsearch.papers.classify.multiscale_kernel import MultiScaleKernel
from kernelsearch.papers.classify.simple_mkl import SimpleMKL
from tests.learning.test_estimators import passed_checks


@pytest.mark.parametrize("kind", [BemMKL, MultiScaleKernel, SimpleMKL])
def test_scikit_learns_checks(kind):
    assert "check_n_features_in" not in passed_checks(kind)
