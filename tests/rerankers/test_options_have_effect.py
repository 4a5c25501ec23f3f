"""Every declared option of every method, of search and of training: changing it changes scores or documents, or is refused.

Values are generated from the declarations, so that a new option is tested without a line here; one that has an effect only
together with others, or outside of scores, is listed with the reason.
"""

from __future__ import annotations

import json
import shutil
from typing import Any

import numpy as np
import pytest

import kernelsearch
from kernelsearch.clicks.importing import import_log
from kernelsearch.core.errors import Flag, KernelSearchError, OptionError
from kernelsearch.core.options import Option
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.trec import read_qrels, read_topics
from kernelsearch.vectors.__main__ import main as vectors_verb
from tests.conftest import DEMO

QUERIES = ["dripping tap", "toilet runs all night", "cold radiator upstairs", "repair a wooden floor", "leaking roof"]
METHODS = tuple(name for name in registry.names() if name not in registry.paper_names())

#: What an option needs to have an effect.
WITH: dict[tuple[str, str], dict[str, Any]] = {
    ("auto", "depth"): {"depth": 40},
    **{("prcl", option): {"n": 20} for option in ("classifiers", "vectorizer", "r", "alpha")},
}
#: Values of texts that are no choices.
TEXTS = {
    ("rbm25", "queries"): ["vectors:drawn"],
    ("rbm25", "documents"): ["title"],
    ("dense", "vectors"): ["other"],
}
#: Options that no score depends on, or that need files or vectors, with the test that has them.
ELSEWHERE = {
    ("auto", "vectors"): "needs vectors: tests/rerankers/test_dense.py",
    ("fusion", "model"): "needs a trained model: tests/rerankers/test_fusion.py",
    ("fusion", "depth"): "needs a trained model: tests/rerankers/test_fusion.py",
    ("fusion", "runs"): "needs run files: tests/rerankers/test_dense.py",
}

#: What training options need to have an effect, and small settings that keep training short.
FITTED_WITH: dict[tuple[str, str], dict[str, Any]] = {
    ("klsa", "random_state"): {"neighbours": "ivf"},  # the default of larger collections, as the solver by chance is
    ("fusion", "random_state"): {"negatives": 5},
}
FITTED_SMALL = {
    "klsa": {"dims": 8},
    "mslm": {"min_count": 2},
    "fusion": {"features": "first cosine bm25:k1=2,b=0.75", "sources": "none", "learner": "net", "depth": 30},
}
#: Options of the search that shows the effect.
FITTED_SEARCH = {"klsa": {}, "mslm": {"scales": (1.0, 4.0)}, "fusion": {}}
#: Values of texts that are no choices.
FITTED_TEXTS = {
    ("klsa", "kernel"): ["vsm"],
    ("klsa", "field"): ["title"],
    # The levels of the search, for which weights are learned then.
    ("mslm", "scales"): [(1.0, 4.0)],
    ("fusion", "features"): ["first cosine"],
    ("fusion", "sources"): ["rm3"],
    ("fusion", "learner"): ["combsum", "simlistmkl"],
}
#: Training options that no fitted value depends on, or that need files or vectors, with the test that has them.
FITTED_ELSEWHERE = {
    ("fusion", "vectors"): "needs vectors: tests/rerankers/test_dense.py",
    ("fusion", "runs"): "needs run files: tests/rerankers/test_dense.py",
    ("fusion", "folds"): "which learner is chosen: below",
}

FITTED_CASES = [(name, option) for name in FITTED_SMALL for option in registry.method(name).fit_options]
CASES = [(name, option) for name in METHODS for option in registry.method(name).options]


def values(option: Option, current: Any) -> list[Any]:
    """Other values that the declaration allows, from near to far."""
    if option.kind is bool:
        return [not current]
    if option.choices:
        return [(choice,) if option.many else choice for choice in option.choices if choice != current and (choice,) != current]
    if option.many:
        return [(0.0, 3.0), (1.0,), (0.0, 1.0, 8.0), ("lr", "svm")]
    if option.kind is str:
        return []
    start = current if current is not None else 1
    offered = [start * 2 + 1, start / 2, start / 50, start * 20 + 3, 0.9, 0.5, 0.1, 1, 2, 3, option.low, option.high]
    allowed = []
    for value in offered:
        if value is None or value == current or abs(value) > 10_000:
            continue
        value = int(value) if option.kind is int else float(value)
        if (option.low is None or value >= option.low) and (option.high is None or value <= option.high) and value != current:
            allowed.append(value)
    return list(dict.fromkeys(allowed))


def has_effect(rank: Any, name: str, option: Option, others: dict[str, Any], candidates: list[Any]) -> bool:
    """Whether one of the values changes documents or scores, or all are refused by a message that names the option."""
    before, refused = rank(name, others), 0
    for value in candidates:
        try:
            if rank(name, {**others, option.key: value}) != before:
                return True
        except KernelSearchError as problem:
            refused += Flag(option.name, name).on_command_line() in problem.message(Flag.on_command_line)
    return refused == len(candidates)


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    path = tmp_path_factory.mktemp("clicks") / "clicks.db"
    import_log([DEMO / "clicks.jsonl"], path)
    return str(path)


@pytest.fixture(scope="module")
def half_of_the_clicks(tmp_path_factory):
    path = tmp_path_factory.mktemp("half") / "half.jsonl"
    path.write_text("".join((DEMO / "clicks.jsonl").read_text().splitlines(keepends=True)[::2]))
    return str(path)


@pytest.fixture(scope="module")
def with_vectors(demo_index, tmp_path_factory):
    """The same index with vectors by the names `drawn` and `other`, which have no meaning."""
    folder, generator = tmp_path_factory.mktemp("vectors"), np.random.default_rng(0)
    shutil.copytree(demo_index.path, folder / "index")
    logged = {json.loads(line)["query"] for line in (DEMO / "clicks.jsonl").read_text().splitlines()}
    docids = list(demo_index.forward.docids)
    for file, ids in (("drawn", docids), ("other", docids), ("queries", sorted({*logged, *QUERIES}))):
        np.savez(folder / f"{file}.npz", ids=np.array(ids), vectors=generator.normal(size=(len(ids), 8)))
    for name in ("drawn", "other"):
        vectors_verb(["--index", str(folder / "index"), "--name", name, "--input", str(folder / f"{name}.npz")])
    return kernelsearch.open(folder / "index", vectors={"name": "drawn", "queries": str(folder / "queries.npz")})


@pytest.fixture(scope="module")
def saved(demo_index, tmp_path_factory):
    """Values of options that name a folder."""
    folder = tmp_path_factory.mktemp("saved")
    return {
        (name, option): [str(registry.method(name).fit(demo_index, TrainingData(output=folder / name), **FITTED_SMALL[name]))]
        for name, option in (("klsa", "basis"), ("mslm", "model"))
    }


@pytest.fixture(scope="module")
def ranked(demo_index, with_vectors, clicks):
    """ranked(method, options): the documents and scores of all queries; computed once per setting."""
    queries = demo_index.lucene.queries(QUERIES)
    candidates = demo_index.lucene.search(queries, 100)
    known: dict[tuple[str, str], list[Any]] = {}

    def rank(name: str, options: dict[str, Any], again: bool = False) -> list[Any]:
        key = (name, repr(sorted(options.items())))
        if again or key not in known:
            own = {"clicks": clicks} if any(option.key == "clicks" for option in registry.method(name).options) else {}
            index = with_vectors if "queries" in options or name == "dense" else demo_index
            reranker = registry.method(name).make(index, **{**own, **options})
            known[key] = [
                (reordered.docs.tolist(), reordered.scores.tolist()) for reordered in reranker.apply_batch(queries, candidates)
            ]
        return known[key]

    return rank


@pytest.mark.parametrize(("name", "option"), CASES, ids=lambda value: value if isinstance(value, str) else value.key)
def test_an_option_changes_scores_or_is_refused(ranked, saved, half_of_the_clicks, name, option):
    if (name, option.key) in ELSEWHERE:
        pytest.skip(ELSEWHERE[name, option.key])
    others = WITH.get((name, option.key), {})
    current = others.get(option.key, option.default)
    candidates = saved.get((name, option.key)) or TEXTS.get((name, option.key)) or values(option, current)
    if option.names == "clicks":
        candidates = [half_of_the_clicks]
    assert candidates, f"no value is generated for --{name}.{option.name}: list it in ELSEWHERE, with its test"
    assert has_effect(ranked, name, option, others, candidates), f"none of {candidates} changes a score; is it ignored?"


@pytest.fixture(scope="module")
def fitted(demo_index, tmp_path_factory):
    """fitted(method, options): the documents and scores that a method trained with these options gives; once per setting."""
    queries = demo_index.lucene.queries(["dripping tap tap", *QUERIES[1:]])
    candidates = demo_index.lucene.search(queries, 30)
    topics = dict(list(read_topics(DEMO / "topics.tsv").items())[:24])
    known: dict[tuple[str, str], list[Any]] = {}
    folded = registry.method("klsa").fit(demo_index, TrainingData(output=tmp_path_factory.mktemp("old") / "basis"), dims=5)

    def fit(name: str, options: dict[str, Any], again: bool = False) -> list[Any]:
        key = (name, repr(sorted(options.items())))
        if again or key not in known:
            output = tmp_path_factory.mktemp(name) / "fitted"
            if name == "klsa":  # to fold documents into
                shutil.copytree(folded, output)
            judged = {} if name == "klsa" else {"topics": topics, "qrels": read_qrels(DEMO / "qrels.txt")}
            place = registry.method(name).fit(demo_index, TrainingData(output=output, **judged), **options)
            folder = {"klsa": "basis", "mslm": "model", "fusion": "model"}[name]
            search = FITTED_SEARCH[name]
            reranker = registry.method(name).make(demo_index, **{folder: str(place)}, **search)
            known[key] = [
                (ranked.docs.tolist(), ranked.scores.tolist()) for ranked in reranker.apply_batch(queries, candidates)
            ]
        return known[key]

    return fit


@pytest.mark.parametrize(("name", "option"), FITTED_CASES, ids=lambda value: value if isinstance(value, str) else value.key)
def test_an_option_of_training_changes_scores_or_is_refused(fitted, name, option):
    if (name, option.key) in FITTED_ELSEWHERE:
        pytest.skip(FITTED_ELSEWHERE[name, option.key])
    others = {**FITTED_SMALL[name], **FITTED_WITH.get((name, option.key), {})}
    current = others.get(option.key, option.default)
    candidates = FITTED_TEXTS.get((name, option.key), []) or values(option, current)
    assert candidates, f"no value is generated for --{name}.{option.name}: list it in FITTED_ELSEWHERE, with its test"
    assert has_effect(fitted, name, option, others, candidates), f"none of {candidates} changes a score; is it ignored?"


@pytest.mark.parametrize("name", sorted({name for name, option in CASES if (name, option.key) not in ELSEWHERE}))
def test_the_same_options_give_the_same_scores(ranked, name):
    """Otherwise any option would seem to have an effect."""
    assert ranked(name, {}) == ranked(name, {}, again=True)


@pytest.mark.parametrize("name", FITTED_SMALL)
def test_training_again_gives_the_same_scores(fitted, name):
    assert fitted(name, FITTED_SMALL[name]) == fitted(name, FITTED_SMALL[name], again=True)


def test_an_option_that_is_ignored_is_noticed():
    """One that is refused together with others only, or only by some values, does not pass for one that has an effect."""
    option = next(option for option in registry.method("klsa").options if option.key == "z")

    def rank(name, options):
        if options.get("z") == 3:
            raise OptionError("--klsa.z: 3 is too large")
        if options.get("z") == 4:
            raise OptionError("--klsa.dims: none")
        return [([1, 2], [0.5, 0.25])]

    outcomes = [has_effect(rank, "klsa", option, {}, values) for values in ([1, 2], [1, 3], [4], [3, 4], [3])]
    assert outcomes == [False, False, False, False, True]


class ReachedError(Exception):
    """A function was called."""


@pytest.mark.parametrize(
    ("name", "option", "value", "function", "expected"),
    [
        ("fusion", "folds", 7, "fusion.training.anchored_learner", {"folds": 7}),
    ],
)
def test_options_without_an_effect_on_scores_arrive(demo_index, tmp_path, monkeypatch, name, option, value, function, expected):
    """What the function does with the value is tested with it: tests/kernels, tests/engines, tests/learning."""
    passed: dict[str, Any] = {}

    def reached(*_, **keywords):
        passed.update(keywords)
        raise ReachedError

    monkeypatch.setattr(f"kernelsearch.rerankers.{function}", reached)
    judged = {"topics": read_topics(DEMO / "topics.tsv"), "qrels": read_qrels(DEMO / "qrels.txt")} if name == "fusion" else {}
    options = {**FITTED_SMALL[name], **({"learner": "best"} if name == "fusion" else {}), option: value}
    with pytest.raises(ReachedError):
        registry.method(name).fit(demo_index, TrainingData(output=tmp_path / "fitted", **judged), **options)
    assert {key: passed[key] for key in expected} == expected


def test_the_lists_above_name_all_methods_and_options_that_exist():
    assert set(METHODS) == set(registry.names()) - registry.paper_names()
    declared = {(name, option.key) for name in METHODS for option in registry.method(name).options}
    assert {*WITH, *TEXTS} <= declared
    assert set(ELSEWHERE) <= declared
    trained = {(name, option.key) for name in METHODS for option in registry.method(name).fit_options}
    assert trained == {(name, option.key) for name, option in FITTED_CASES}
    assert {*FITTED_WITH, *FITTED_TEXTS, *FITTED_ELSEWHERE} <= trained
