"""Every declared option of every method: changing it changes scores or the list of documents, or it is refused.

Values are generated from the declarations, so that a new option is tested without a line here; one that has an effect only
together with others, or outside of scores, is listed with the reason.
"""

from __future__ import annotations

from typing import Any

import pytest

from kernelsearch.clicks.importing import import_log
from kernelsearch.core.errors import KernelSearchError
from kernelsearch.core.options import Option
from kernelsearch.rerankers import registry
from tests.conftest import DEMO

QUERIES = ["dripping tap", "toilet runs all night", "cold radiator upstairs", "repair a wooden floor", "leaking roof"]
METHODS = ("klsa", "mslm", "pert", "prcl", "rbm25", "pairwise", "substitution", "clickprior")

#: What an option needs to have an effect.
WITH: dict[tuple[str, str], dict[str, Any]] = {
    ("klsa", "lambda"): {"z": 5},
    ("klsa", "dims"): {"z": 5},
    ("klsa", "cosine"): {"z": 5},
    ("klsa", "scores"): {"z": 5, "retrieve": 50},
    ("mslm", "columns"): {"mode": "global"},
    ("mslm", "step"): {"width": 9},
    ("mslm", "one_scale"): {"scales": (0.0, 2.0, 8.0)},
    ("pert", "strategy"): {"kernel": "perturbation", "kappa": 10.0},
    ("pert", "denominator"): {"kernel": "perturbation", "kappa": 10.0},
    ("pert", "pool"): {"kernel": "perturbation", "kappa": 10.0},
    ("pert", "draws"): {"kernel": "perturbation", "strategy": "dirichlet", "kappa": 10.0},
    ("pert", "seed"): {"kernel": "perturbation", "strategy": "dirichlet", "kappa": 10.0},
    ("pert", "temperature"): {"weighting": "softmax"},
    ("pert", "hits"): {"rescore": False},
    ("pert", "gamma"): {"kappa": 10.0},
    **{("prcl", option): {"n": 20} for option in ("classifiers", "vectorizer", "r", "alpha")},
    ("rbm25", "prior"): {"form": "prior"},
    ("pairwise", "prior"): {"form": "prior"},
    ("rbm25", "epsilon"): {"form": "paper"},
    ("rbm25", "mu"): {"relevance": "dirichlet"},
}
#: Options that no score depends on, or that need files or vectors, with the test that has them.
ELSEWHERE = {
    ("klsa", "effort"): "accuracy of FAISS, exact on a collection of this size: tests/neighbours",
    ("klsa", "basis"): "a folder: tests/rerankers/test_klsa.py",
    ("mslm", "model"): "a folder: tests/rerankers/test_mslm.py",
    ("mslm", "weights"): "learned weights need a trained model: tests/rerankers/test_mslm.py",
    ("pert", "vectors"): "a file: tests/rerankers/test_pert.py",
    ("pert", "save_queries"): "writes a file: tests/rerankers/test_pert.py",
    ("pert", "queries"): "a file: tests/rerankers/test_pert.py",
    ("pert", "groups"): "explanations: tests/rerankers/test_pert.py",
    ("rbm25", "k3"): "needs a repeated query term: tests/papers/test_asymmetric_kernels.py",
    ("rbm25", "relevance"): "kernel expressions: tests/papers/test_asymmetric_kernels.py",
    ("pairwise", "relevance"): "kernel expressions: tests/papers/test_asymmetric_kernels.py",
    ("rbm25", "documents"): "names of fields: tests/papers/test_asymmetric_kernels.py",
    ("pairwise", "documents"): "names of fields: tests/papers/test_asymmetric_kernels.py",
}
for _method in ("rbm25", "pairwise", "substitution", "clickprior"):
    if _method in ("rbm25", "pairwise"):
        ELSEWHERE[_method, "pairs_clicks"] = "a file: tests/papers/test_asymmetric_kernels.py"
    ELSEWHERE[_method, "clicks"] = "a file: tests/rerankers/test_rbm25.py"
    ELSEWHERE[_method, "queries"] = "needs vectors: tests/rerankers/test_rbm25.py"
    ELSEWHERE[_method, "vector_weight"] = "needs vectors: tests/rerankers/test_rbm25.py"

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


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    path = tmp_path_factory.mktemp("clicks") / "clicks.db"
    import_log([DEMO / "clicks.jsonl"], path)
    return str(path)


@pytest.fixture(scope="module")
def ranked(demo_index, clicks):
    """ranked(method, options): the documents and scores of all queries; computed once per setting."""
    queries = demo_index.lucene.queries(QUERIES)
    found = demo_index.lucene.search(queries, 100)
    known: dict[tuple[str, str], list[Any]] = {}

    def rank(name: str, options: dict[str, Any]) -> list[Any]:
        key = (name, repr(sorted(options.items())))
        if key not in known:
            own = {"clicks": clicks} if any(option.key == "clicks" for option in registry.method(name).options) else {}
            reranker = registry.method(name).make(demo_index, **own, **options)
            known[key] = [
                (reordered.docs.tolist(), reordered.scores.tolist()) for reordered in reranker.apply_batch(queries, found)
            ]
        return known[key]

    return rank


@pytest.mark.parametrize(("name", "option"), CASES, ids=lambda value: value if isinstance(value, str) else value.key)
def test_an_option_changes_scores_or_is_refused(ranked, name, option):
    if (name, option.key) in ELSEWHERE:
        pytest.skip(ELSEWHERE[name, option.key])
    others = WITH.get((name, option.key), {})
    current = others.get(option.key, option.default)
    candidates = values(option, current)
    assert candidates, f"no value is generated for --{name}.{option.name}: list it in ELSEWHERE, with its test"
    before = ranked(name, others)
    for value in candidates:
        try:
            if ranked(name, {**others, option.key: value}) != before:
                return
        except KernelSearchError:
            return
    raise AssertionError(f"--{name}.{option.name}: none of {candidates} changes a score; is it ignored?")


def test_the_lists_above_name_options_that_exist():
    declared = {(name, option.key) for name in METHODS for option in registry.method(name).options}
    assert set(WITH) <= declared
    assert set(ELSEWHERE) <= declared
