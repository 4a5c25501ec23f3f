"""Text kernels: hand-computed values, positive semi-definiteness, pipelines, pickling."""

from __future__ import annotations

import math

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from kernelsearch.papers.classify.bem_mkl import BemMKL
from kernelsearch.papers.classify.multiscale_kernel import KERNELS, MultiScaleKernel
from kernelsearch.papers.classify.simple_mkl import SimpleMKL

RNG = np.random.default_rng(0)
LEFT, RIGHT = ["engine", "wheel", "brake", "road", "driver"], ["apple", "sugar", "oven", "flour", "butter"]
TEXTS = [" ".join(RNG.choice(words, 6)) + " and the" for words in (LEFT, RIGHT) for _ in range(15)]
LABELS = np.repeat(["car", "cake"], 15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_level_is_positive_semi_definite_with_ones_on_its_diagonal(kernel):
    levels = MultiScaleKernel(kernel=kernel, combine="stack").fit_transform(TEXTS)
    assert levels.shape == (30, 30, 5)
    for level in np.moveaxis(levels, 2, 0):
        assert level == pytest.approx(level.T)
        assert np.diag(level) == pytest.approx(np.ones(30))
        assert np.linalg.eigvalsh(level).min() > -1e-9


def test_bag_of_words_is_a_special_case():
    ours = MultiScaleKernel(scales=[math.inf], semantic_scales=[0.0]).fit_transform(TEXTS)
    counts = CountVectorizer(token_pattern=r"\w+").fit_transform(TEXTS)
    assert ours == pytest.approx(cosine_similarity(counts))


def test_js_by_hand():
    kernel = MultiScaleKernel(scales=[math.inf], semantic_scales=[0.0], kernel="js").fit(["a b", "c d", "a c"])
    features = kernel.transform(["a b"])[0]
    # Half of the mass is shared with "a c": JS = ½ ln 2.
    assert features == pytest.approx([1.0, 0.0, 0.5])


def test_order_counts_at_scale_zero_only():
    texts = ["a b c d", "d c b a"]
    fine = MultiScaleKernel(scales=[0.0], columns=4).fit_transform(texts)
    assert fine[0, 1] == pytest.approx(0.0)
    bag = MultiScaleKernel(scales=[math.inf], semantic_scales=[0.0]).fit_transform(texts)
    assert bag[0, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_dirichlet_smoothing_of_texts_without_known_words_and_of_the_default_width(kernel):
    """A text without known words has the uniform code; the default width of RBF is that of smoothed codes."""
    maker = MultiScaleKernel(kernel=kernel, eta=0.5, scales=[math.inf], semantic_scales=[0.0]).fit(["a a b", "b c", "c d d"])
    codes = np.array([[2, 1, 0, 0, 3], [0, 1, 1, 0, 2], [0, 0, 1, 2, 3], [0, 0, 0, 0, 1]], dtype=float)
    codes = (0.5 / 4 + codes[:, :4] / codes[:, 4:]) / 1.5
    known = codes[:3]
    distances = ((codes[:, None] - known[None]) ** 2).sum(axis=2)
    middle = (codes[:, None] + known[None]) / 2

    def divergence(p, q):
        return (p * np.log(p / q)).sum(axis=2)

    expected = {
        "frobenius": codes @ known.T / np.outer(np.linalg.norm(codes, axis=1), np.linalg.norm(known, axis=1)),
        "rbf": np.exp(-distances / distances[:3].mean()),
        "js": codes.sum(axis=1, keepdims=True) / 2
        + 0.5
        - (divergence(codes[:, None], middle) + divergence(known[None], middle)) / 2 / math.log(2),
    }[kernel]
    assert maker.transform(["a a b", "b c", "c d d", "x y"]) == pytest.approx(expected)


def test_the_graph_of_similarities_is_used_instead_of_the_texts():
    rows = [
        ("Car", "auto", 0.5),
        ("auto", "car", 0.25),
        ("pear", "unknown", 0.9),
        ("two words", "pear", 0.9),
        ("pear", "tree", 1.0),
    ]
    texts = ["car road", "auto road", "pear tree", "car road"]
    maker = MultiScaleKernel(similarities=rows, min_count=1).fit(texts)
    number = maker.vocabulary_
    weights = {
        (word, other): distance
        for word in number
        for other, distance in zip(*maker.graph_.neighbours(number[word]), strict=True)
    }
    assert set(weights) == {
        ("car", number["auto"]), ("auto", number["car"]), ("pear", number["tree"]), ("tree", number["pear"])
    }  # fmt: skip
    assert weights["car", number["auto"]] / weights["pear", number["tree"]] == pytest.approx(0.5 / 1e-3)
    kernel = maker.transform(["car", "auto", "pear"])
    plain = MultiScaleKernel(similarities=[], min_count=1).fit(texts).transform(["car", "auto", "pear"])
    assert kernel[0, 1] > plain[0, 1] and plain[0, 2] == kernel[0, 2] == 0


def test_rbf_uses_the_mean_squared_distance():
    model = MultiScaleKernel(scales=[math.inf], semantic_scales=[0.0], kernel="rbf").fit(["a", "b"])
    assert model.gamma_ == pytest.approx([1.0])  # squared distances 0, 2, 2, 0
    assert model.transform(["a"])[0] == pytest.approx([1, math.exp(-2)])


def test_texts_without_known_words_have_zero_kernels():
    model = MultiScaleKernel().fit(TEXTS)
    assert model.transform(["", "xylophone"]) == pytest.approx(np.zeros((2, 30)))


def test_idf_and_limits_change_what_counts():
    model = MultiScaleKernel(max_words=3, weighting="idf").fit(TEXTS)
    assert len(model.vocabulary_) == 3 and {"and", "the"} <= set(model.vocabulary_)
    assert model.idf_[model.vocabulary_["the"]] == pytest.approx(1.0)


@pytest.mark.parametrize("name, value", [("kernel", "cubic"), ("pyramid", "flat"), ("combine", "max"), ("weighting", "tf")])
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name}='{value}' is not one of"):
        MultiScaleKernel(**{name: value}).fit(TEXTS)
    with pytest.raises(ValueError, match="semantic_scales"):
        MultiScaleKernel(semantic_scales=[1.0]).fit(TEXTS)
    for wrong in ({"kernel": "js"}, {"scales": [1.0]}):
        with pytest.raises(ValueError, match="pyramid='laplacian' needs two scales or more and kernel='frobenius' or 'rbf'"):
            MultiScaleKernel(pyramid="laplacian", **wrong).fit(TEXTS)


def pipelines():
    yield make_pipeline(MultiScaleKernel(), SVC(kernel="precomputed"))
    for mkl in (BemMKL(), SimpleMKL()):
        yield make_pipeline(MultiScaleKernel(combine="stack", kernel="js"), mkl, SVC(kernel="precomputed"))


@pytest.mark.parametrize("model", list(pipelines()), ids=["sum", "bem", "simple"])
def test_pipelines_cross_validate_clone_and_pickle(model, tmp_path):
    assert cross_val_score(model, TEXTS, LABELS, cv=3).mean() == 1.0
    fitted = clone(model).fit(TEXTS, LABELS)
    joblib.dump(fitted, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    assert again.predict(["wheel of the road", "sugar oven"]).tolist() == ["car", "cake"]


def test_grid_search_sets_parameters_of_all_steps():
    model = make_pipeline(MultiScaleKernel(combine="stack"), BemMKL(), SVC(kernel="precomputed"))
    search = GridSearchCV(model, {"multiscalekernel__columns": [2, 4], "svc__C": [1, 10]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_score_ == 1.0
