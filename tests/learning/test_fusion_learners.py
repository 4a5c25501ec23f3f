"""The learners on synthetic lists with a known answer: order, non-negative weights, seeds, round trips, refusals."""

import numpy as np
import pytest
import xgboost
from scipy.optimize import minimize
from sklearn.base import clone

from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.learning.ranking import choose
from kernelsearch.learning.ranking.choose import Best
from kernelsearch.learning.ranking.cross_validation import CompleteList
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.learning.ranking.lists import Lists, mean_average_precision, normalise_features
from kernelsearch.learning.ranking.preference import preferred, standard_error
from kernelsearch.learning.ranking.registry import LEARNERS
from kernelsearch.learning.ranking.simlistmkl import SimListMKL
from kernelsearch.learning.ranking.triplets import SimTripletNet, triplet_differences
from kernelsearch.rerankers.fusion import model as models
from tests.conftest import rewrite_meta

LEARNED = (SimTripletNet, SimListMKL)
#: Candidates of a choice.
SIMPLE = {"combsum": CombSUM(), "net": SimTripletNet()}


def lists(queries=40, size=25, seed=0, noise=0.6):
    """Two useful kernels (the first twice as telling), one that says nothing, one that is the opposite of the truth."""
    chance = np.random.default_rng(seed)
    qid = np.repeat(np.arange(queries), size)
    y = (chance.random(len(qid)) < 0.25).astype(float)
    columns = [2 * y, y, np.zeros_like(y), -y]
    X = np.column_stack(columns) + noise * chance.normal(size=(len(qid), 4))
    return X, y, qid


def held_out(learner):
    X, y, qid = lists(seed=1)
    return mean_average_precision(learner.predict(X, qid), y, Lists.of(qid))


@pytest.mark.parametrize("kind", LEARNED)
def test_learners_beat_the_plain_sum_on_new_queries(kind):
    learner = kind(**({"trees": 40} if "trees" in kind().get_params() else {})).fit(*lists())
    assert held_out(learner) > held_out(CombSUM()) + 0.1


def test_weights_are_not_negative_and_follow_the_truth(kind=SimTripletNet, tolerance=0.0, **parameters):
    omega = kind(**parameters).fit(*lists(noise=1.0)).weights_
    assert (omega >= 0).all()
    assert omega[0] > omega[1] > 0
    assert omega[3] == pytest.approx(0, abs=tolerance)


@pytest.mark.parametrize("kind", LEARNED)
def test_a_perfect_kernel_is_followed_to_the_top(kind):
    """Only the first kernel knows: the learned order must be its order, however loud the other is."""
    chance = np.random.default_rng(5)
    y = np.tile([1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 30)
    X = np.column_stack([y + 0.01 * chance.random(300), 100 * chance.normal(size=300)])
    qid = np.repeat(np.arange(30), 10)
    learner = kind().fit(X, y, qid)
    assert mean_average_precision(learner.predict(X, qid), y, Lists.of(qid)) == 1.0


@pytest.mark.parametrize("kind", LEARNED)
def test_the_same_seed_gives_the_same_model(kind):
    small = {name: value for name, value in {"trees": 10, "triplets": 30}.items() if name in kind().get_params()}
    X, y, qid = lists(queries=15)
    first, second = (kind(random_state=4, **small).fit(X, y, qid).predict(X, qid) for _ in range(2))
    assert (first == second).all()


def test_net_finds_the_bounded_minimum():
    """Against an independent solver on the same loss."""
    X, y, qid = lists(queries=10)
    assert SimTripletNet(iterations=0).fit(X, y, qid).weights_.tolist() == [2.0 / X.shape[1]] * X.shape[1]
    start = [-1.0, *range(1, X.shape[1])]
    assert SimTripletNet(iterations=0, start=start).fit(X, y, qid).weights_.tolist() == [0.0, *range(1, X.shape[1])]
    assert SimTripletNet(iterations=0, start=start, signed=True).fit(X, y, qid).weights_.tolist() == start
    learner = SimTripletNet(penalty=0.01).fit(X, y, qid)
    groups = Lists.of(qid)
    D, w = triplet_differences(normalise_features(X, groups, "z"), y, groups, 200, 0)

    def loss(omega):
        return w @ np.logaddexp(0, -D @ omega) + 0.005 * (omega - 0.5) @ (omega - 0.5)

    result = minimize(loss, np.ones(4), method="SLSQP", bounds=[(0, None)] * 4, options={"maxiter": 500, "ftol": 1e-12})
    assert learner.weights_ == pytest.approx(result.x, abs=2e-3)


def test_triplets_weigh_queries_alike_and_respect_grades():
    X = np.arange(6.0)[:, None]
    D, w = triplet_differences(X, np.array([2.0, 1.0, 0.0, 1.0, 0.0, 0.0]), Lists.of([0, 0, 0, 1, 1, 1]), 100, 0)
    assert D.ravel().tolist() == [-1, -2, -1, -1, -2]
    assert w == pytest.approx([1 / 6] * 3 + [1 / 4] * 2)


def test_trees_start_from_the_sum_of_kernels(kind=SimListMKL):
    """Without a tree, the score is CombSUM scaled; with init zero it is nothing."""
    X, y, qid = lists(queries=5)
    assert kind(trees=0, strength=4.0).fit(X, y, qid).predict(X, qid) == pytest.approx(CombSUM().predict(X, qid))
    assert kind(trees=0, init="zero").fit(X, y, qid).predict(X, qid) == pytest.approx(0)


@pytest.mark.parametrize("kind", LEARNERS.values())
def test_parts_sum_to_the_score(kind):
    X, y, qid = lists(queries=12)
    learner = kind().fit(X, y, qid)
    assert learner.contributions(X, qid).sum(axis=1) == pytest.approx(learner.predict(X, qid), abs=1e-4)


@pytest.mark.parametrize("kind", LEARNERS.values())
def test_a_saved_model_scores_the_same(kind, tmp_path):
    X, y, qid = lists(queries=12)
    learner = kind().fit(X, y, qid)
    models.save(tmp_path / "m", learner, list("abcd"), {"why": "test"})
    again = models.load(tmp_path / "m")
    assert (again.learner.predict(X, qid) == learner.predict(X, qid)).all()
    assert again.recipe == tuple("abcd") and again.notes == {"why": "test"}
    assert again.importance().sum() == pytest.approx(1)


def test_damaged_models_are_refused(tmp_path):
    X, y, qid = lists(queries=12)
    models.save(tmp_path / "m", SimListMKL(trees=3).fit(X, y, qid), list("abcd"))
    trees = tmp_path / "m" / "trees.ubj"
    written = trees.read_bytes()
    for damaged, message in (
        (b"{", "1 bytes where"),
        (written[:-1] + b"x", "damaged"),  # refused by its checksum
    ):
        trees.write_bytes(damaged)
        with pytest.raises(ArtefactError, match=rf"trees\.ubj: {message}"):
            models.load(tmp_path / "m")
    trees.write_bytes(b"{" * len(written))
    rewrite_meta(tmp_path / "m", lambda meta: None)
    with pytest.raises(ArtefactError, match=r"trees\.ubj: damaged \("):  # refused by xgboost
        models.load(tmp_path / "m")
    trees.write_bytes(written)
    rewrite_meta(tmp_path / "m", lambda meta: meta["parameters"]["recipe"].append("e"))
    with pytest.raises(ArtefactError, match=r"trees\.ubj: trees over 4 features for 5"):
        models.load(tmp_path / "m")
    rewrite_meta(tmp_path / "m", lambda meta: meta["parameters"].update(learner="forest"))
    with pytest.raises(ArtefactError, match=r"m: needs the learner .forest., which no installed package has"):
        models.load(tmp_path / "m")
    rewrite_meta(tmp_path / "m", lambda meta: meta["parameters"].update(learner="simlistmkl"))
    rewrite_meta(tmp_path / "m", lambda meta: [meta[key].pop("trees.ubj") for key in ("files", "checksums")])
    with pytest.raises(ArtefactError, match="its trees are in the format of an earlier version"):
        models.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("columns", True, "columns is True"),
        ("strength", float("nan"), "strength is nan"),
        ("strength", {}, "strength is {}"),
        ("strength", 1e308, r"strength is 1e\+308"),
        ("normalise", 1, "normalise is 1"),
    ],
)
def test_settings_of_another_type_are_named(tmp_path, name, value, message):
    X, y, qid = lists(queries=12)
    models.save(tmp_path / "m", SimListMKL(trees=3).fit(X, y, qid), list("abcd"))
    rewrite_meta(tmp_path / "m", lambda meta: meta["parameters"]["settings"].update({name: value}))
    with pytest.raises(ArtefactError, match=f"m: damaged, {message}"):
        models.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "value"), [("trained_on", None), ("trained_on", [1]), ("sources", "rm3"), ("normalise", []), ("normalise", 2**70)]
)
def test_notes_of_another_type_are_refused(tmp_path, name, value):
    X, y, qid = lists(queries=12)
    models.save(tmp_path / "m", CombSUM().fit(X, y, qid), list("abcd"), {"normalise": "z", "sources": [], "trained_on": []})
    rewrite_meta(tmp_path / "m", lambda meta: meta["extra"].update({name: value}))
    with pytest.raises(ArtefactError, match=f"m: damaged .{name} is not"):
        models.load(tmp_path / "m")


def test_best_takes_what_cross_validation_prefers(tmp_path):
    learner = Best(candidates=SIMPLE, folds=3).fit(*lists())
    assert learner.chosen_.name == "net" and learner.scores_["net"] > learner.scores_["combsum"]
    models.save(tmp_path / "m", learner, list("abcd"))
    again = models.load(tmp_path / "m")
    assert again.learner.name == "net" and again.notes["cross_validated"] == learner.scores_
    with pytest.raises(OptionError, match="best: no candidates"):
        Best(candidates={}).fit(*lists())


@pytest.mark.parametrize(
    ("gain", "chosen"),
    [
        ([0.3, -0.1, 0.1, -0.2], "combsum"),  # mean .025, standard error .111
        ([0.1, 0.1, 0.2, 0.2], "net"),  # mean .15, standard error .029
        ([-0.1, -0.1, -0.2, -0.2], "combsum"),
    ],
)
def test_best_prefers_the_simpler_learner_unless_the_gain_is_more_than_luck(monkeypatch, gain, chosen):
    simple = np.full(4, 0.5)
    monkeypatch.setattr(choose, "table_precisions", lambda *_: {"combsum": simple, "net": simple + gain})
    assert Best(candidates=SIMPLE).fit(*lists()).chosen_.name == chosen


@pytest.mark.parametrize(
    ("gains", "chosen"),
    [
        ({"net": 0.05, "trees": 0.051}, "net"),  # both are better than the best input by more than 1.5 standard errors, .0104
        ({"net": 0.01, "trees": 0.0115}, "second"),  # by less
        ({"net": -0.2, "trees": -0.1}, "second"),
        ({"net": 0.0, "trees": 0.05}, "trees"),  # net is more than a standard error below trees
    ],
)
def test_best_replaces_an_input_only_by_a_learner_that_is_clearly_better(monkeypatch, gains, chosen):
    """`second` is the better input by little: inputs learn nothing, so the higher mean decides between them."""
    noise = np.array([0.01, -0.01, 0.015, -0.015, 0.02, -0.02])  # standard error .0070
    tried = {"first": np.full(6, 0.5), "second": np.full(6, 0.501)}
    tried |= {name: 0.501 + gain + (noise if name == "net" else noise[::-1]) for name, gain in gains.items()}
    monkeypatch.setattr(choose, "table_precisions", lambda *_: tried)
    candidates = {"first": CombSUM(), "second": CombSUM(), "net": SimTripletNet(), "trees": SimTripletNet()}
    best = Best(candidates=candidates, inputs=("first", "second")).fit(*lists())
    assert best.choice_ == chosen and best.tried_.keys() == tried.keys()
    assert preferred(tried, ("first", "second"), 1.0, 0.0)[0] == (chosen if min(gains.values()) < 0.01 else "net")


def trusting(unrelated):
    """Lists whose first feature is right about related queries and as `unrelated` says about others; the second is weak."""
    rng, rows, complete = np.random.default_rng(5), [], []
    for number in range(20):
        y = np.array([1, 0, 0, 0, 0, 0])
        weak = y * 0.6 + rng.normal(size=6) * 0.5
        table = np.column_stack([y, weak]).astype(float)
        rows.append((table, y, np.full(6, number)))
        without = np.column_stack([unrelated(y), weak])
        complete.append(CompleteList(number, table.astype(np.float32), y > 0, 1, without.astype(np.float32)))
    return [np.concatenate(part) for part in zip(*rows, strict=True)], complete


def test_best_counts_queries_as_related_and_as_new():
    """A feature that is right about related queries and wrong about new ones is worth the mean of both."""
    candidates = {
        "weak": CombSUM(weights=[0.0, 1.0], normalise="none"),
        "votes": CombSUM(weights=[1.0, 0.0], normalise="none"),
    }
    (X, y, qid), complete = trusting(lambda relevant: 1.0 - relevant)
    wrong = Best(candidates=candidates, folds=4).fit(X, y, qid, complete=complete)
    assert wrong.scores_["votes"] == 1 and wrong.unrelated_scores_["votes"] == pytest.approx(1 / 6)
    assert wrong.unrelated_scores_["weak"] == wrong.scores_["weak"] > (1 + 1 / 6) / 2
    assert wrong.choice_ == "weak"
    (X, y, qid), complete = trusting(lambda relevant: relevant * 1.0)
    assert Best(candidates=candidates, folds=4).fit(X, y, qid, complete=complete).choice_ == "votes"


def test_best_holds_out_the_queries_of_a_group_together(monkeypatch):
    (X, y, qid), complete = trusting(lambda relevant: relevant * 1.0)
    learned, fit = [], CombSUM.fit
    monkeypatch.setattr(CombSUM, "fit", lambda self, X, y, qid: (learned.append(set(qid.tolist())), fit(self, X, y, qid))[1])
    groups = {number: number // 4 for number in range(20)}
    Best(candidates={"combsum": CombSUM()}, folds=5).fit(X, y, qid, complete=complete[::3], groups=groups)
    held_out = [set(range(20)) - numbers for numbers in learned[:-1]]
    assert sorted(map(min, held_out)) == [0, 4, 8, 12, 16] and all(len(numbers) == 4 for numbers in held_out)


def test_best_decides_on_some_of_many_queries_and_learns_from_all():
    X, y, qid = lists()
    on_five, on_all = (Best(candidates=SIMPLE, folds=2, queries=count).fit(X, y, qid) for count in (5, 1000))
    assert on_five.scores_ != on_all.scores_
    assert on_five.chosen_.name == "net" and on_five.chosen_.weights_ == pytest.approx(on_all.chosen_.weights_)


@pytest.mark.parametrize("kind", [*LEARNED, Best])
def test_learners_can_be_cloned_by_scikit_learn(kind):
    for name, value in (("normalise", "none"), ("trees", 7), ("C", 3.0), ("k", 10.0), ("weights", [1.0, 2.0])):
        learner = kind()
        if name in learner.get_params():
            assert clone(learner.set_params(**{name: value})).get_params() == {**kind().get_params(), name: value}
    with pytest.raises(OptionError, match=f"learner {kind.name}: has no parameter depth"):
        kind().set_params(depth=3)


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize(
    ("y", "reason"),
    [
        ([0, 0, 0, 0], "no document is relevant"),
        ([1, 1, 1, 1], "all documents are relevant"),
        ([1, 1, 0, 0], "no query has both relevant and other documents"),
    ],
)
def test_why_there_is_nothing_to_learn_is_said(kind, y, reason):
    with pytest.raises(InputError, match=f"^training: {reason}, so there is nothing to learn$"):
        kind().fit(np.ones((4, 2)), y, [0, 0, 1, 1])


@pytest.mark.parametrize("kind", LEARNERS.values())
def test_labels_that_are_not_finite_are_refused(kind):
    for bad in (np.nan, np.inf):
        with pytest.raises(InputError, match="labels: that of row 3 is NaN or infinite"):
            kind().fit(np.eye(4), [0, 1, bad, 0], [0, 0, 1, 1])


def test_another_number_of_features_is_refused():
    learner = SimTripletNet().fit(*lists(queries=5))
    with pytest.raises(InputError, match="X has 3 features, but SimTripletNet is expecting 4 features"):
        learner.predict(np.zeros((2, 3)))


@pytest.mark.parametrize("reverse", [False, True])
def test_best_refuses_features_that_say_nothing(reverse):
    """Relevant rows first, constant features: by row the AP would be 1."""
    y = np.tile([1.0, 1, 0, 0, 0], 10)[:: -1 if reverse else 1]
    with pytest.raises(InputError, match="every learner gives all documents of a query the same score"):
        Best().fit(np.full((50, 3), 0.1), y, np.repeat(np.arange(10), 5))


def test_best_passes_over_a_constant_model():
    """The only feature points the wrong way: ω ≥ 0 makes net's weight 0; combsum orders, if badly."""
    y = np.tile([1.0, 0, 0, 0, 0], 10)
    X = -y[:, None] + 0.001 * np.random.default_rng(0).random((50, 1))
    learner = Best(candidates={"net": SimTripletNet(penalty=0.0), "combsum": CombSUM()}).fit(X, y, np.repeat(np.arange(10), 5))
    assert learner.chosen_.name == "combsum"


def test_learners_draw_with_seed_0_unless_asked_otherwise():
    for learner in (SimTripletNet(), SimListMKL(), Best()):
        assert learner.random_state == 0


def test_trees_of_no_rows_and_of_other_rows(kind=SimListMKL):
    X, y, qid = lists(queries=8)
    learner = kind(trees=5).fit(X, y, qid)
    assert learner.predict(np.zeros((0, 4))).tolist() == []
    if kind is SimListMKL:
        assert learner.contributions(np.zeros((0, 4))).shape == (0, 4)
    with pytest.raises(OptionError, match="init 'mean' is not one of combsum, zero"):
        kind(init="mean").fit(X, y, qid)


def test_the_start_is_the_mean_kernel_times_its_strength():
    """Trees are added to it: with and without a start they predict the same rows otherwise."""
    X, y, qid = lists(queries=8)
    Z = normalise_features(X, Lists.of(qid), "z")
    for strength in (2.0, 5.0):
        learner = SimListMKL(trees=6, strength=strength).fit(X, y, qid)
        trees = learner.booster_.predict(xgboost.DMatrix(Z), output_margin=True)
        assert learner.predict(X, qid) == pytest.approx(strength * Z.mean(axis=1) + trees, abs=1e-4)


def test_best_measures_every_query_by_models_that_have_not_seen_it():
    """AP per query of both candidates, from folds that are drawn here as the documentation says."""
    X, y, qid = lists(queries=11)
    y[qid == 4] = 0.0  # nothing relevant: not measured
    best = Best(candidates=SIMPLE, folds=3, random_state=5).fit(X, y, qid)
    fold = np.empty(11, dtype=int)
    fold[np.random.default_rng(5).permutation(11)] = np.arange(11) % 3
    for name, make in (("combsum", CombSUM), ("net", SimTripletNet)):
        expected = []
        for query in range(11):
            others, own = fold[qid] != fold[query], qid == query
            scores = make().fit(X[others], y[others], qid[others]).predict(X[own])
            hits = y[own][np.argsort(-scores, kind="stable")] > 0
            if hits.any():
                expected.append(float((np.cumsum(hits) / np.arange(1, 26))[hits].mean()))
        assert best.tried_[name] == pytest.approx(expected) and best.scores_[name] == pytest.approx(np.mean(expected))


def test_best_needs_two_queries_and_says_so():
    X, y, qid = lists(queries=2)
    assert Best(candidates={"combsum": CombSUM()}).fit(X, y, qid).choice_ == "combsum"
    with pytest.raises(InputError, match="at least two training queries"):
        Best(candidates={"combsum": CombSUM()}).fit(X[qid == 0], y[qid == 0], qid[qid == 0])


def test_at_most_so_many_triplets_of_a_query_are_drawn_without_repetition():
    """Three better and four worse rows make twelve triplets; of five drawn ones each differs, and seeds differ."""
    X, y = np.arange(7.0)[:, None] ** 2, np.array([1.0, 1, 1, 0, 0, 0, 0])
    every = {X[i, 0] - X[j, 0] for i in range(3) for j in range(3, 7)}
    assert len(every) == 12
    one, two = (triplet_differences(X, y, Lists.single(7), 5, seed) for seed in (0, 1))
    for differences, weights in (one, two):
        assert len(set(differences[:, 0].tolist())) == 5 and set(differences[:, 0].tolist()) < every
        assert weights == pytest.approx([0.2] * 5)
    assert one[0].tolist() != two[0].tolist()
    for limit in (12, 13):
        assert set(triplet_differences(X, y, Lists.single(7), limit, 0)[0][:, 0].tolist()) == every


@pytest.mark.parametrize("penalty", [0.0, 0.5, 100.0])
def test_the_penalty_pulls_towards_the_start(penalty):
    X, y, qid = lists(queries=10, noise=1.5)
    start = np.array([1.0, 0.2, 0.3, 0.4])
    groups = Lists.of(qid)
    D, w = triplet_differences(normalise_features(X, groups, "z"), y, groups, 200, 0)

    def loss(omega):
        return w @ np.logaddexp(0, -D @ omega) + penalty / 2 * ((omega - start) ** 2).sum()

    best = minimize(loss, start, method="SLSQP", bounds=[(0, None)] * 4, options={"maxiter": 500, "ftol": 1e-13})
    fitted = SimTripletNet(penalty=penalty, start=start).fit(X, y, qid).weights_
    assert fitted == pytest.approx(best.x, abs=5e-3)
    with pytest.raises(InputError, match="3 weights to start from, for 4 features"):
        SimTripletNet(start=[1, 2, 3]).fit(X, y, qid)


def test_parameters_that_no_learner_has():
    X, y, qid = lists(queries=4)
    for learner in (SimTripletNet(penalty=-0.1), SimListMKL(learning_rate=np.nan), SimListMKL(leaves=0)):
        with pytest.raises(OptionError, match=r"must be finite and (above 0|0 or more)"):
            learner.fit(X, y, qid)


def boosted(**settings):
    """The trees of a booster as tables of xgboost's, one per tree, on lists with four features."""
    X, y, qid = lists(queries=12)
    learner = SimListMKL(**{"trees": 6, **settings}).fit(X, y, qid)
    table = learner.booster_.trees_to_dataframe()
    return learner, [tree for _, tree in table.groupby("Tree")]


def test_every_setting_of_the_trees_has_its_effect():
    def leaves(tree):
        return tree[tree.Feature == "Leaf"]

    def largest(trees):
        return max(leaves(tree).Gain.abs().max() for tree in trees)

    _, plain = boosted()
    assert len(plain) == 6 and len(boosted(trees=3)[1]) == 3
    for count in (2, 5):
        assert max(len(leaves(tree)) for tree in boosted(leaves=count)[1]) == count
    # The first tree is grown at the same scores whatever the rate, which its leaves are multiplied by.
    slow, fast = (boosted(learning_rate=rate, trees=1)[1][0] for rate in (0.01, 0.1))
    assert leaves(fast).Gain.to_numpy() == pytest.approx(10 * leaves(slow).Gain.to_numpy(), rel=1e-3)
    # A large penalty makes leaves small; where every leaf needs a large curvature, nothing is split.
    assert largest(boosted(penalty=1000.0)[1]) < 0.1 * largest(boosted(penalty=0.0)[1])
    assert all(len(tree) == 1 for tree in boosted(min_weight=1e6)[1])
    assert all(leaves(tree).Cover.min() >= 2 for tree in boosted(min_weight=2.0)[1])
    # A quarter of four features: each tree has one, and the seed draws it.
    used = [[set(tree.Feature) - {"Leaf"} for tree in boosted(columns=0.25, random_state=seed)[1]] for seed in (0, 0, 1)]
    assert all(len(features) == 1 for drawn in used for features in drawn)
    assert used[0] == used[1] != used[2] and len(set.union(*used[0])) > 1


def test_trees_learn_from_relevance_and_not_from_grades():
    X, y, qid = lists(queries=12)
    plain, graded = (SimListMKL(trees=6).fit(X, labels, qid) for labels in (y, y * np.arange(1, len(y) + 1)))
    assert (plain.predict(X, qid) == graded.predict(X, qid)).all()


def test_a_query_is_a_list_of_its_own_for_trees():
    """Rows of a second query with the order of the first reversed: pairs across queries would cancel what each says."""
    chance = np.random.default_rng(1)
    y = np.tile([1.0, 0, 0, 0, 0, 0], 20)
    offsets = np.repeat(np.arange(20) * 100.0, 6)
    X = np.column_stack([y + offsets + 0.1 * chance.random(120), chance.random(120)])
    learner = SimListMKL(trees=30, normalise="none", init="zero", leaves=64, min_weight=0.0).fit(
        X, y, np.repeat(np.arange(20), 6)
    )
    assert mean_average_precision(learner.predict(X), y, Lists.of(np.repeat(np.arange(20), 6))) > 0.95


@pytest.mark.parametrize(("differences", "error"), [([5.0], 0.0), ([0.0, 2.0], 1.0), ([1.0, 2.0, 3.0], 3**-0.5)])
def test_the_standard_error_of_a_mean(differences, error):
    """By hand: the deviations are 0 (unknown), √2 and 1."""
    assert standard_error(np.array(differences)) == pytest.approx(error)
