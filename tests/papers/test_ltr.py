"""`ltr`: models from LETOR files, held-out measures, a saved model on another file, parameters of the learners, messages."""

import json
from unittest.mock import call, patch

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import average_precision_score, ndcg_score

from kernelsearch import ltr
from kernelsearch.cli import console
from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.papers.ltr.files import LtrSettings, evaluate_scores
from kernelsearch.papers.ltr.letor import LetorTable, read_letor
from kernelsearch.papers.ltr.triplets import SimTripletSVM
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO


def write_letor(path, X, y, qid):
    rows = [
        f"{grade:g} qid:{query} " + " ".join(f"{column}:{value:.6f}" for column, value in enumerate(row, 1))
        for row, grade, query in zip(X, y, qid, strict=True)
    ]
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def draw(seed, queries=8, size=12):
    """Three features, of which the second is better when it is lower; queries interleaved, so that row order matters."""
    chance = np.random.default_rng(seed)
    qid = np.tile(np.arange(queries), size)
    y = chance.choice([0, 0, 0, 1, 2], size=len(qid)).astype(float)
    X = np.column_stack([y, -y, np.zeros(len(y))]) + chance.normal(size=(len(qid), 3))
    return np.round(X, 6), y, qid


@pytest.fixture
def files(tmp_path):
    return write_letor(tmp_path / "train.txt", *draw(0)), write_letor(tmp_path / "test.txt", *draw(1))


def z_scores(X, qid):
    out = np.empty_like(X)
    for query in np.unique(qid):
        rows = X[qid == query]
        out[qid == query] = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return out


def all_triplets(X, y, qid):
    """Differences of all pairs of a query with different grades; every query weighs the same."""
    Z, parts, weights = z_scores(X, qid), [], []
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        pairs = [Z[i] - Z[j] for i in rows for j in rows if y[i] > y[j]]
        parts += pairs
        weights += [1 / max(len(pairs), 1)] * len(pairs)
    return np.array(parts), np.array(weights) / np.sum(weights)


def hinge_weights(D, w, C, signed):
    """min ½|ω|² + C Σ w max(0, 1 - D ω) with a slack per triplet, by a general solver."""
    d, n = D.shape[1], len(D)

    def objective(x):
        return x[:d] @ x[:d] / 2 + C * w @ x[d:], np.concatenate([x[:d], C * w])

    constraints = {"type": "ineq", "fun": lambda x: D @ x[:d] + x[d:] - 1, "jac": lambda _: np.hstack([D, np.eye(n)])}
    bounds = [(None if signed else 0, None)] * d + [(0, None)] * n
    start = np.concatenate([np.zeros(d), np.ones(n)])
    return minimize(objective, start, jac=True, bounds=bounds, constraints=constraints, method="SLSQP").x[:d]


@pytest.mark.parametrize("signed", [False, True])
def test_svm_weights_are_those_of_a_general_solver_and_c_counts(tmp_path, signed):
    X, y, qid = draw(3, queries=4, size=6)
    file = write_letor(tmp_path / "t.txt", X, y, qid)
    flags = ["--signed"] if signed else []
    for C in (0.1, 2.0):
        ltr.main(["--train", file, "--learner", "svm", "--C", str(C), *flags, "--model", str(tmp_path / "m")])
        expected = hinge_weights(*all_triplets(X, y, qid), C, signed)
        np.testing.assert_allclose(models.load(tmp_path / "m").learner.weights_, expected, atol=5e-2 * np.abs(expected).max())
        assert (expected[1] < -0.01) == signed


def test_net_with_signed_weights_is_the_free_minimum(tmp_path):
    X, y, qid = draw(3, queries=4, size=6)
    ltr.main(
        ["--train", write_letor(tmp_path / "t.txt", X, y, qid), "--learner", "net", "--signed", "--model", f"{tmp_path}/m"]
    )
    D, w = all_triplets(X, y, qid)
    result = minimize(lambda o: w @ np.logaddexp(0, -D @ o) + 0.015 * ((o - 2 / 3) ** 2).sum(), np.zeros(3)).x
    np.testing.assert_allclose(models.load(tmp_path / "m").learner.weights_, result, atol=1e-3)


@pytest.mark.parametrize("learner", ["svm", "net", "boost", "okwl", "oasis", "online"])
def test_a_feature_of_which_less_is_better_needs_signed_weights(files, tmp_path, learner):
    for flags, sign in (([], 0), (["--signed"], -1)):
        rate = ["--learning-rate", "0.1"] if learner == "online" else []
        ltr.main(["--train", files[0], "--learner", learner, *rate, *flags, "--model", str(tmp_path / "m")])
        weights = models.load(tmp_path / "m").learner.weights_
        assert weights[0] > 0 and np.sign(weights[1]) == sign


def test_a_saved_model_scores_rows_in_the_order_of_the_file(files, tmp_path):
    ltr.main(["--train", files[0], "--learner", "svm", "--signed", "--model", str(tmp_path / "m")])
    ltr.main(["--model", str(tmp_path / "m"), "--predict", files[1], "--output", str(tmp_path / "scores.txt")])
    X, _, qid = draw(1)
    weights = np.load(tmp_path / "m" / "weights.npy")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "scores.txt"), z_scores(X, qid) @ weights, rtol=1e-6, atol=1e-8)


def test_measures_of_every_query_are_those_of_scikit_learn(files, tmp_path, capsys):
    ltr.main(["--train", files[0], "--learner", "svm", "--model", str(tmp_path / "m")])
    capsys.readouterr()
    flags = ["--per-query", "--format", "json", "--measures", "AP,nDCG@10,nDCG(dcg='exp-log2')@10"]
    ltr.main(["--model", str(tmp_path / "m"), "--predict", files[1], "--output", str(tmp_path / "s.txt"), *flags])
    record = json.loads(capsys.readouterr().out)["runs"][files[1]]
    scores, (_, y, qid) = np.loadtxt(tmp_path / "s.txt"), draw(1)
    for query in range(8):
        grades, result = y[qid == query], scores[qid == query]
        expected = {
            "AP": average_precision_score(grades > 0, result),
            "nDCG@10": ndcg_score([grades], [result], k=10),
            "nDCG(dcg='exp-log2')@10": ndcg_score([2**grades - 1], [result], k=10),
        }
        assert {name: values[str(query)] for name, values in record["per_topic"].items()} == pytest.approx(expected, abs=1e-5)
    assert record["means"]["AP"] == pytest.approx(np.mean(list(record["per_topic"]["AP"].values())))


def test_folds_hold_queries_out(tmp_path, capsys):
    """The two queries contradict each other: learned from the other one, each is ranked in the worst order."""
    X, y, qid = np.array([[3.0], [1], [2], [1], [2], [3]]), [1, 0, 0, 1, 0, 0], [1, 1, 1, 2, 2, 2]
    file = write_letor(tmp_path / "t.txt", X, y, qid)
    with patch("kernelsearch.cli.console.progress", wraps=console.progress) as bars:
        ltr.main(["--train", file, "--folds", "2", "--learner", "svm", "--signed", "--output", str(tmp_path / "held.txt")])
    assert bars.call_args_list == [call("folds", total=2, unit="fold")]
    table = capsys.readouterr().out.splitlines()
    assert table[-1].split()[-4:] == ["0.3333", "0.5000", "0.0000", "0.1000"]
    held = np.loadtxt(tmp_path / "held.txt")
    assert held[0] < held[2] < held[1] and held[3] < held[4] < held[5]


def test_equal_scores_earn_nothing(tmp_path, capsys):
    """Relevant rows first in the file, all features equal: the relevant row counts as the last of its query."""
    file = write_letor(tmp_path / "t.txt", np.ones((8, 1)), [1, 0, 0, 0] * 2, [1] * 4 + [2] * 4)
    ltr.main(["--train", file, "--learner", "combsum", "--predict", file, "--measures", "AP"])
    assert capsys.readouterr().out.split()[-1] == "0.2500"


def test_parameters_of_trees_are_the_models(files, tmp_path):
    pytest.importorskip("xgboost")
    flags = ["--learner", "simlistmkl", "--trees", "7", "--leaves", "3", "--learning-rate", "0.3"]
    ltr.main(["--train", files[0], *flags, "--model", str(tmp_path / "m")])
    learner = models.load(tmp_path / "m").learner
    trees = learner.booster_.get_dump()
    assert len(trees) == 7
    assert max(tree.count("leaf=") for tree in trees) == 3
    assert (learner.learning_rate, learner.leaves) == (0.3, 3)
    assert learner.booster_settings()["learning_rate"] == 0.3


def test_the_learning_rate_of_boost_scales_its_first_step(files, tmp_path):
    result = []
    for rate in ("0.001", "0.002"):
        flags = ["--learner", "boost", "--learning-rate", rate]
        ltr.main(["--train", files[0], *flags, "--model", str(tmp_path / "m")])
        result.append(models.load(tmp_path / "m").learner.weights_.max())
    assert 1.5 < result[1] / result[0] < 2


def test_best_passes_parameters_to_the_candidates_that_have_them():
    best = LtrSettings(normalise="minmax", trees=3, signed=True, C=0.5).make_learner()
    made = {name: learner.get_params() for name, learner in best.candidates.items()}
    assert made["simlistmkl"]["trees"] == 3 and made["svm"]["C"] == 0.5
    assert all(made[name]["signed"] for name in ("net", "svm", "boost"))
    assert {values["normalise"] for values in made.values()} == {"minmax"}


def test_files_without_relevant_rows_are_scored_and_not_measured(files, tmp_path, capsys):
    X, y, qid = draw(1)
    blank = write_letor(tmp_path / "blank.txt", X, 0 * y, qid)
    ltr.main(["--train", files[0], "--learner", "svm", "--predict", blank, "--output", str(tmp_path / "s.txt")])
    result = capsys.readouterr()
    assert result.out == "" and "no query has a relevant row, so nothing is measured" in result.err
    assert len(np.loadtxt(tmp_path / "s.txt")) == len(y)


def test_a_single_training_query_is_said(tmp_path, capsys, caplog):
    X, y, qid = draw(0, queries=2, size=5)
    for queries, expected in ((1, 1), (2, 0)):
        caplog.clear()
        rows = qid < queries
        file = write_letor(tmp_path / "t.txt", X[rows], y[rows], qid[rows])
        ltr.main(["--train", file, "--learner", "svm", "--model", str(tmp_path / "m")])
        assert [record.getMessage() for record in caplog.records] == [
            "svm: there is only one training query, so what is learned fits that query and maybe no other"
        ] * expected


def test_rows_to_score_are_read_before_the_fit(files, tmp_path, monkeypatch):
    monkeypatch.setattr("kernelsearch.papers.ltr.files.fit_table", None)
    monkeypatch.setattr("kernelsearch.papers.ltr.files.held_out_scores", None)
    model = str(tmp_path / "m")
    with pytest.raises(InputError, match="missing: no such file"):
        ltr.main(["--train", files[0], "--folds", "2", "--model", model, "--predict", str(tmp_path / "missing")])
    assert not (tmp_path / "m").exists()


def test_the_first_grade_that_is_no_whole_number_is_named(tmp_path):
    rows = [(0, 1), (1.5, 1), (2, 1), (0.25, 1)]
    (tmp_path / "t.txt").write_text("".join(f"{grade} qid:{qid} 1:{number}\n" for number, (grade, qid) in enumerate(rows)))
    table = read_letor(tmp_path / "t.txt")
    with pytest.raises(InputError, match=r"t\.txt: row 2: grade 1\.5 is not a whole number"):
        evaluate_scores(table, np.zeros(4), [], tmp_path / "t.txt")


def test_what_is_refused(files, tmp_path):
    model = str(tmp_path / "m")
    with pytest.raises(OptionError, match="trees: learner svm has no such parameter"):
        ltr.main(["--train", files[0], "--learner", "svm", "--trees", "3", "--model", model])
    with pytest.raises(OptionError, match="learner: 'forest' is not one of best, combsum, net"):
        ltr.main(["--train", files[0], "--learner", "forest", "--model", model])
    with pytest.raises(OptionError, match=r"C: 0\.0 is below"):
        ltr.main(["--train", files[0], "--learner", "svm", "--C", "0", "--model", model])
    with pytest.raises(OptionError, match="folds: 9, but there are only 8"):
        ltr.main(["--train", files[0], "--folds", "9"])
    with pytest.raises(ArtefactError, match="no fusion model here"):
        ltr.main(["--model", model, "--predict", files[1]])
    half = tmp_path / "half.txt"
    half.write_text("0.5 qid:1 1:1\n0 qid:1 1:0\n")
    with pytest.raises(InputError, match=r"half\.txt: row 1: grade 0\.5 is not a whole number"):
        ltr.main(["--train", str(half), "--learner", "svm", "--predict", str(half)])
    for flags in (["--train", files[0]], ["--model", model], ["--model", model, "--predict", files[1], "--folds", "2"]):
        with pytest.raises(SystemExit):
            ltr.main(flags)
    assert not (tmp_path / "m").exists()


def test_a_model_of_an_index_is_not_applied_to_a_file(files, tmp_path):
    from kernelsearch.learning.ranking.fusers import CombSUM

    learner = CombSUM().fit(np.ones((2, 3)), np.ones(2))
    models.save(tmp_path / "m", learner, ["first", "rm3", "cosine"], {"normalise": "z", "sources": []})
    with pytest.raises(OptionError, match="was learned on an index"):
        ltr.main(["--model", str(tmp_path / "m"), "--predict", files[1]])


def test_a_learner_of_the_papers_fuses_features_of_an_index(demo_index, tmp_path):
    data = {"topics": read_topics(DEMO / "topics.tsv"), "qrels": read_qrels(DEMO / "qrels.txt"), "output": tmp_path / "m"}
    options = {"features": "first rm3 cosine", "sources": "none", "depth": 50}
    model = models.load(demo_index.train("fusion", learner="svm", **options, **data))
    assert isinstance(model.learner, SimTripletSVM) and (model.learner.weights_ >= 0).all() and model.learner.weights_.any()
    pipeline = demo_index.pipeline(["fusion"], fusion_model=str(tmp_path / "m"))
    assert len(pipeline.search(demo_index.lucene.queries(["dripping tap"]))[0].docs) > 5


def test_measures_of_a_feature_file_break_ties_against_relevance():
    """Row 1 has the grade and the score of others; the second query has nothing relevant."""
    table = LetorTable(np.zeros((5, 1)), np.array([1.0, 0.0, 0.0, 0.0, 2.0]), np.array([1, 1, 2, 3, 3]))
    scores = np.array([0.5, 0.5, 1.0, 0.1, 0.7])
    evaluation = evaluate_scores(table, scores, parse_measures(["AP", "P@1"]), "file")
    assert evaluation.mean("AP") == pytest.approx((0.5 + 1) / 2) and evaluation.mean("P@1") == pytest.approx(0.5)
    fractions = LetorTable(table.X, np.array([1.0, 0.5, 0, 0, 0]), table.qid)
    with pytest.raises(InputError, match=r"file: row 2: grade 0\.5 is not a whole number"):
        evaluate_scores(fractions, scores, parse_measures(["AP"]), "file")
