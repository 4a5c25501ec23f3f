"""The learners as scikit-learn's estimators: one place to import them from, its own checks, NotFittedError, pipelines."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from kernelsearch import learning
from kernelsearch.core.errors import OptionError
from kernelsearch.learning.ranking.registry import LEARNERS

ESTIMATORS = [getattr(learning, name) for name in learning.__all__]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_scikit_learns_checks(kind):
    """With the defaults, none failed; and none skipped but by the tag of chance, for lists, and of other inputs."""
    assert ("check_n_features_in" in passed_checks(kind)) == (kind is not learning.Best)


def passed_checks(kind):
    """The names of scikit-learn's checks that an estimator passes; none fails.

    Where its tags say that the input is no table of one query, they are few.
    """
    with warnings.catch_warnings():
        # "does not inherit from BaseEstimator": on purpose, importing that takes longer than a search.
        warnings.simplefilter("ignore", UserWarning)
        results = check_estimator(kind(), on_skip=None, on_fail=None)
    assert {(result["check_name"], str(result["exception"])) for result in results if result["status"] == "failed"} == set()
    names = {result["check_name"] for result in results if result["status"] == "passed"}
    assert ("check_n_features_in" in names) == ("check_fit_idempotent" in names)
    return names


@pytest.mark.parametrize("kind", LEARNERS.values())
def test_a_score_does_not_depend_on_the_order_of_the_rows(kind):
    """What scikit-learn's checks leave out for estimators whose scores depend on the other rows."""
    chance = np.random.default_rng(0)
    X, y, qid = chance.normal(size=(40, 3)), np.tile([1.0, 0, 0, 0], 10), np.repeat(np.arange(10), 4)
    learner, order = kind().fit(X, y, qid), chance.permutation(40)
    np.testing.assert_allclose(learner.predict(X[order], qid[order]), learner.predict(X, qid)[order], atol=1e-12)
    if kind.listwise:
        return
    plain = kind(normalise="none").fit(X, y, qid)
    np.testing.assert_allclose(plain.predict(X)[order[:7]], plain.predict(X[order[:7]]), atol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in LEARNERS.values() if kind.needs_fit] + [learning.Best])
def test_predicting_before_a_fit_is_scikit_learns_error(kind):
    for call in (kind().predict, kind().contributions):
        if not (kind.name == "exact" and call.__name__ == "contributions"):
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


@pytest.mark.parametrize(("kind", "name"), [(learning.SimTripletNet, "triplets"), (learning.SimListMKL, "learning_rate")])
def test_parameters_that_must_be_positive_are_not_0(kind, name):
    with pytest.raises(OptionError, match=f"learner {kind.name}: {name} 0 must be finite and above 0$"):
        kind(**{name: 0}).fit([[1.0, 0], [0, 1]], [1, 0])


def test_fusers_without_a_fit_refuse_impossible_parameters():
    with pytest.raises(OptionError, match="learner combsum: weights must be finite"):
        learning.CombSUM(weights=[1.0, np.nan, 0]).predict(np.eye(3))


def test_a_pipeline_passes_query_ids():
    chance = np.random.default_rng(0)
    y, qid = np.tile([1.0, 0, 0, 0], 10), np.repeat(np.arange(10), 4)
    X = np.column_stack([y, chance.normal(size=40)]) + chance.normal(size=(40, 2))
    pipeline = make_pipeline(StandardScaler(), learning.SimTripletNet()).fit(X, y, simtripletnet__qid=qid)
    alone = learning.SimTripletNet().fit((X - X.mean(axis=0)) / X.std(axis=0), y, qid)
    np.testing.assert_allclose(pipeline[-1].weights_, alone.weights_)
    assert not np.allclose(alone.weights_, learning.SimTripletNet().fit(X, y).weights_)


def test_a_learner_prints_as_the_call_that_makes_it():
    assert repr(learning.SimTripletNet(penalty=2.0)) == "SimTripletNet(penalty=2.0)"
    assert repr(learning.SimListMKL()) == "SimListMKL()"


def test_every_name_is_there_and_loaded_when_it_is_used():
    for name in learning.__all__:
        assert getattr(learning, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = learning.nonsense
    code = "import sys, kernelsearch.learning; print(*{'sklearn', 'numpy', 'xgboost'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
