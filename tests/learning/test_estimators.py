"""The learners as scikit-learn's estimators: one place to import them from, its own checks, NotFittedError, pipelines."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelsearch import learning
from kernelsearch.core.errors import OptionError
from kernelsearch.learning.ranking.choose import LEARNERS

#: Without normalisation, since the checks predict parts of a list; `Best` needs several queries, which they don't have.
ESTIMATORS = [
    learning.SimTripletNet(normalise="none"),
    learning.SimTripletBoost(normalise="none"),
    learning.SimTripletSVM(normalise="none"),
    learning.OKWL(normalise="none"),
    learning.OASIS(normalise="none"),
    learning.OnlineSimListMKL(normalise="none"),
    learning.SimListMKL(normalise="none", trees=5),
    learning.ExactSimListMKL(normalise="none", trees=5),
    learning.CombSUM(normalise="none"),
    learning.CombMNZ(),
    learning.RRF(),
]


def not_applicable(estimator):
    within_lists = "a score depends on the other documents of the list"
    all_relevant = "labels above 0 are relevant, and all labels of this check are"
    if isinstance(estimator, learning.CombMNZ | learning.RRF):
        return {"check_methods_subset_invariance": within_lists}
    if isinstance(estimator, learning.SimListMKL | learning.ExactSimListMKL | learning.OnlineSimListMKL):
        return {"check_estimators_dtypes": all_relevant, "check_fit2d_1feature": all_relevant}
    return {}


with warnings.catch_warnings():
    # "does not inherit from BaseEstimator": on purpose, importing that takes longer than a search.
    warnings.simplefilter("ignore", UserWarning)
    every_check = parametrize_with_checks(ESTIMATORS, expected_failed_checks=not_applicable)


@every_check
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [kind for kind in LEARNERS.values() if kind.needs_fit] + [learning.Best])
def test_predicting_before_a_fit_is_scikit_learns_error(kind):
    for call in (kind().predict, kind().contributions):
        if not (kind is learning.ExactSimListMKL and call.__name__ == "contributions"):
            with pytest.raises(NotFittedError, match=f"^{kind.__name__}: call fit first$"):
                call(np.eye(3))


NUMBERS = [
    (kind, name)
    for kind in (*LEARNERS.values(), learning.Best)
    for name, value in kind().get_params().items()
    if isinstance(value, int | float) and not isinstance(value, bool)
]


@pytest.mark.parametrize(("kind", "name"), NUMBERS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("value", [np.nan, np.inf, -1])
def test_parameters_that_are_no_possible_number_are_refused(kind, name, value):
    y, qid = np.tile([1.0, 0], 4), np.repeat(np.arange(4), 2)
    with pytest.raises(OptionError, match=f"^learner {kind.name}: {name} {value} must be finite and (above 0|0 or more)$"):
        kind(**{name: value}).fit(np.random.default_rng(0).normal(size=(8, 2)), y, qid)


@pytest.mark.parametrize("kind", [learning.OKWL, learning.OASIS, learning.OnlineSimListMKL])
def test_online_learners_refuse_impossible_parameters_when_they_go_on(kind):
    with pytest.raises(OptionError, match=f"learner {kind.name}: passes -1 must be"):
        kind(passes=-1).partial_fit([[1.0, 0], [0, 1]], [1, 0])


@pytest.mark.parametrize(("kind", "name"), [(learning.SimTripletSVM, "C"), (learning.SimListMKL, "learning_rate")])
def test_parameters_that_must_be_positive_are_not_0(kind, name):
    with pytest.raises(OptionError, match=f"learner {kind.name}: {name} 0 must be finite and above 0$"):
        kind(**{name: 0}).fit([[1.0, 0], [0, 1]], [1, 0])


def test_fusers_without_a_fit_refuse_impossible_parameters():
    with pytest.raises(OptionError, match="learner rrf: k nan"):
        learning.RRF(k=np.nan).predict(np.eye(3))
    with pytest.raises(OptionError, match="learner combsum: weights must be finite"):
        learning.CombSUM(weights=[1.0, np.nan, 0]).predict(np.eye(3))


def test_a_pipeline_passes_query_ids():
    chance = np.random.default_rng(0)
    y, qid = np.tile([1.0, 0, 0, 0], 10), np.repeat(np.arange(10), 4)
    X = np.column_stack([y, chance.normal(size=40)]) + chance.normal(size=(40, 2))
    pipeline = make_pipeline(StandardScaler(), learning.SimTripletSVM()).fit(X, y, simtripletsvm__qid=qid)
    alone = learning.SimTripletSVM().fit((X - X.mean(axis=0)) / X.std(axis=0), y, qid)
    np.testing.assert_allclose(pipeline[-1].weights_, alone.weights_)
    assert not np.allclose(alone.weights_, learning.SimTripletSVM().fit(X, y).weights_)


def test_a_learner_prints_as_the_call_that_makes_it():
    assert repr(learning.SimTripletSVM(C=2.0)) == "SimTripletSVM(C=2.0)"
    assert repr(learning.SimListMKL()) == "SimListMKL()" and repr(learning.CombMNZ()) == "CombMNZ()"


def test_every_name_is_there_and_loaded_when_it_is_used():
    for name in learning.__all__:
        assert getattr(learning, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = learning.nonsense
    code = "import sys, kernelsearch.learning; print(*{'sklearn', 'numpy', 'xgboost'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
