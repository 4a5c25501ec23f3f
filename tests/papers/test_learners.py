"""The learners that the product does not use: the same properties as the product's, and their programs by general solvers."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.learning.ranking.choose import Best
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.learning.ranking.lists import Lists, mean_average_precision, normalise_features
from kernelsearch.learning.ranking.registry import learner_class, plugins
from kernelsearch.learning.ranking.simlistmkl import SimListMKL
from kernelsearch.learning.ranking.triplets import SimTripletNet, triplet_differences
from kernelsearch.papers.ltr.exact import ExactSimListMKL
from kernelsearch.papers.ltr.fusers import CombNonzero, TiedRRF
from kernelsearch.papers.ltr.letor import read_letor
from kernelsearch.papers.ltr.online import OASIS, OKWL, OnlineSimListMKL
from kernelsearch.papers.ltr.triplets import SimTripletBoost, SimTripletSVM
from kernelsearch.rerankers.fusion import model as models
from tests.learning import test_estimators as estimators
from tests.learning import test_fusers as fusers
from tests.learning import test_fusion_learners as product
from tests.learning.test_fusion_learners import held_out, lists

LINEAR = (SimTripletBoost, SimTripletSVM)
ONLINE = (OKWL, OASIS, OnlineSimListMKL)
ALL = (*LINEAR, *ONLINE, ExactSimListMKL)
FUSERS = (CombNonzero, TiedRRF)


def test_the_entry_points_name_every_learner_that_can_be_saved():
    assert {learner_class(name) for name in plugins()} == {*LINEAR, *ONLINE, *FUSERS}
    assert all(learner_class(name).name == name for name in plugins())


@pytest.mark.parametrize("kind", ALL)
def test_what_holds_for_the_products_learners(kind):
    product.test_learners_beat_the_plain_sum_on_new_queries(kind)
    product.test_a_perfect_kernel_is_followed_to_the_top(kind)
    product.test_the_same_seed_gives_the_same_model(kind)
    product.test_learners_can_be_cloned_by_scikit_learn(kind)
    product.test_why_there_is_nothing_to_learn_is_said(kind, [0, 0, 0, 0], "no document is relevant")
    estimators.test_predicting_before_a_fit_is_scikit_learns_error(kind)


@pytest.mark.parametrize("kind", [*ALL, *FUSERS])
def test_what_holds_for_every_learner(kind, tmp_path):
    estimators.test_scikit_learns_checks(kind)
    estimators.test_a_score_does_not_depend_on_the_order_of_the_rows(kind)
    product.test_labels_that_are_not_finite_are_refused(kind)
    for name, value in kind().get_params().items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            for bad in (np.nan, np.inf, -1):
                estimators.test_parameters_that_are_no_possible_number_are_refused(kind, name, bad)
    if kind is not ExactSimListMKL:
        product.test_parts_sum_to_the_score(kind)
        product.test_a_saved_model_scores_the_same(kind, tmp_path)


@pytest.mark.parametrize("kind", [*LINEAR, *ONLINE])
def test_weights_are_not_negative_and_follow_the_truth(kind):
    """An online weight stays within a step of 0."""
    rate = {"learning_rate": 0.05} if kind is OnlineSimListMKL else {}
    product.test_weights_are_not_negative_and_follow_the_truth(kind, 0.002 if kind in ONLINE else 0.0, **rate)


def test_the_exact_version_starts_and_refuses_as_the_fast_one():
    product.test_trees_start_from_the_sum_of_kernels(ExactSimListMKL)
    product.test_trees_of_no_rows_and_of_other_rows(ExactSimListMKL)


def test_the_exact_version_is_not_saved(tmp_path):
    with pytest.raises(ArtefactError, match="'exact' can't be saved"):
        models.save(tmp_path / "e", ExactSimListMKL(trees=1).fit(*lists(queries=4)), list("abcd"))


@pytest.mark.parametrize("kind", [OKWL, OASIS, OnlineSimListMKL])
def test_online_learners_refuse_impossible_parameters_when_they_go_on(kind):
    with pytest.raises(OptionError, match=f"learner {kind.name}: passes -1 must be"):
        kind(passes=-1).partial_fit([[1.0, 0], [0, 1]], [1, 0])


def test_best_passes_over_a_constant_model():
    """The only feature points the wrong way: ω ≥ 0 makes svm's and boost's weights 0; combsum orders, if badly."""
    y = np.tile([1.0, 0, 0, 0, 0], 10)
    X = -y[:, None] + 0.001 * np.random.default_rng(0).random((50, 1))
    candidates = {"svm": SimTripletSVM(), "boost": SimTripletBoost(), "combsum": CombSUM()}
    assert Best(candidates=candidates).fit(X, y, np.repeat(np.arange(10), 5)).chosen_.name == "combsum"


@pytest.mark.parametrize("C", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("signed", [False, True])
def test_svm_reaches_the_optimum_of_its_program(C, signed):
    """Its objective against a general solver's with one slack per triplet: within the tolerance, however small."""
    X, y, qid = lists(queries=8, size=8)
    X[:, 2] -= y
    groups = Lists.of(qid)
    D, w = triplet_differences(normalise_features(X, groups, "z"), y, groups, 10, 0)

    def program(x):
        return 0.5 * x[:4] @ x[:4] + C * w @ x[4:], np.append(x[:4], C * w)

    def objective(omega):
        return 0.5 * omega @ omega + C * w @ np.maximum(0, 1 - D @ omega)

    rows = np.hstack([D, np.eye(len(D))])
    margin = {"type": "ineq", "fun": lambda x: rows @ x - 1, "jac": lambda x: rows}
    bounds = [(None if signed else 0, None)] * 4 + [(0, None)] * len(D)
    options = {"maxiter": 1000, "ftol": 1e-13}
    start = np.append(np.zeros(4), np.ones(len(D)))
    best = objective(
        minimize(program, start, jac=True, method="SLSQP", bounds=bounds, constraints=margin, options=options).x[:4]
    )
    for tolerance in (1e-3, 1e-6, 1e-9):
        learned = SimTripletSVM(C=C, tolerance=tolerance, signed=signed, triplets=10).fit(X, y, qid).weights_
        assert best * (1 - 1e-5) <= objective(learned) <= best * (1 + tolerance + 1e-12)
    assert signed or ((learned >= 0).all() and (learned == 0).any())


def test_svm_that_ends_before_its_tolerance_says_so(caplog):
    X, y, qid = lists(queries=8)
    SimTripletSVM(C=100.0, iterations=3).fit(X, y, qid)
    assert "svm: after 3 iterations" in caplog.text


def test_boosting_lowers_the_exponential_loss():
    X, y, qid = lists(queries=20)
    groups = Lists.of(qid)
    D, w = triplet_differences(normalise_features(X, groups, "z"), y, groups, 200, 0)
    losses = [w @ np.exp(-D @ SimTripletBoost(rounds=rounds).fit(X, y, qid).weights_) for rounds in (1, 10, 100, 300)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.6 * losses[0]


def test_letor_files(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("2 qid:7 1:0.5 3:1 # docid = A\n0 qid:7 2:1e-3\n1 qid:8 1:-1\n")
    table = read_letor(path)
    assert table.X.tolist() == [[0.5, 0, 1], [0, 0.001, 0], [-1, 0, 0]]
    assert table.y.tolist() == [2, 0, 1] and table.qid.tolist() == [7, 7, 8]
    assert read_letor(path, features=5).X.shape == (3, 5)
    for text, message in (("x qid:1 1:2\n", "not a LETOR file"), ("1 1:2\n", "line 1: not a LETOR file"), ("", "is empty")):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            read_letor(path)
    with pytest.raises(InputError, match="no such file"):
        read_letor(tmp_path / "none.txt")


@pytest.mark.parametrize(
    "row",
    [
        "1 qid:1 2147483647:1",  # 134 GiB as a dense table
        "1 qid:1 99999999999999999999:1",
        "1 qid:99999999999999999999 1:1",
        "1 qid:1 0:1",
        "1 qid:1 2:1 1:1",
        "1 qid:1 1:1 1:2",
        "1 qid:1 1:nan",
        "inf qid:1 1:1",
        "1 qid:1 1",
        "1 qid: 1:1",
        "1",
        "1 qid:1 1:" + "x" * 100_000,
    ],
)
def test_letor_rows_that_make_no_table_are_refused_by_line(tmp_path, row):
    path = tmp_path / "t.txt"
    path.write_text(f"0 qid:1 1:1\n{row}\n")
    with pytest.raises(InputError, match=r"t.txt: line 2: ") as caught:
        read_letor(path)
    assert len(str(caught.value)) < 400


def test_letor_agrees_with_scikit_learn(tmp_path):
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 9)) * (rng.random((50, 9)) < 0.5)
    dump_svmlight_file(X, rng.integers(0, 3, 50), str(tmp_path / "t"), zero_based=False, query_id=np.arange(50) // 5)
    loaded, grades, queries = load_svmlight_file(str(tmp_path / "t"), query_id=True, zero_based=False)
    table = read_letor(tmp_path / "t")
    np.testing.assert_array_equal(table.X, loaded.toarray())
    np.testing.assert_array_equal(table.y, grades)
    np.testing.assert_array_equal(table.qid, queries)


@pytest.mark.collections
def test_learning_helps_on_mq2008(collections):
    """Single features and the plain sum against learned weights, on queries that weren't trained on."""
    train, test = (read_letor(collections / "ltr_mq2008" / f"{name}.txt", 46) for name in ("train", "test"))
    groups = Lists.of(test.qid)

    def worth(learner):
        return mean_average_precision(learner.fit(*train).predict(test.X, test.qid), test.y, groups)

    best_feature = max(mean_average_precision(test.X[:, column], test.y, groups) for column in range(46))
    net = worth(SimTripletNet())
    assert net > worth(CombSUM()) + 0.05
    assert net > best_feature - 0.02


def test_a_start_from_equal_scores_ignores_the_order_of_rows():
    X, y, qid = lists(queries=6)
    order = np.argsort(-y, kind="stable")
    learner = ExactSimListMKL(trees=1, init="zero").fit(X, y, qid)
    other = ExactSimListMKL(trees=1, init="zero").fit(X[order], y[order], qid[order])
    assert other.predict(X, qid) == pytest.approx(learner.predict(X, qid), abs=1e-9)


def test_fast_and_exact_versions_agree_in_quality():
    X, y, qid = lists(queries=30, noise=1.5)
    fast, exact = SimListMKL(trees=100).fit(X, y, qid), ExactSimListMKL(trees=40).fit(X, y, qid)
    assert held_out(fast) == pytest.approx(held_out(exact), abs=0.02)


def test_online_learners_keep_their_weights_where_a_triplet_says_nothing():
    """Two equal rows: the difference is 0, no step changes anything, and nothing is divided by it."""
    X, y = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]), [1, 0, 0]
    for learner in (OASIS(normalise="none"), OKWL(normalise="none")):
        assert learner.partial_fit(X, y).weights_.tolist() == [0, 0]


X = np.array([[3.0, 0.0], [2.0, 4.0], [1.0, 2.0]])


def test_the_count_of_values_above_the_lowest_by_hand():
    assert CombNonzero().predict(X).tolist() == [1.0, 3.0, 0.5]


def test_rrf_by_hand_and_ties_share_a_rank():
    assert TiedRRF(k=0).predict(X).tolist() == pytest.approx([1 + 1 / 3, 1 / 2 + 1, 1 / 3 + 1 / 2])
    assert TiedRRF(k=60).predict(np.array([[1.0], [1.0], [0.0]])).tolist() == pytest.approx([1 / 61.5, 1 / 61.5, 1 / 63])


@pytest.mark.parametrize("fuser", [CombNonzero(), TiedRRF()])
def test_what_holds_for_sums(fuser):
    fusers.test_queries_do_not_touch_each_other(fuser)
    fusers.test_parts_sum_to_the_score(fuser)
