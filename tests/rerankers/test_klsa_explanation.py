"""Kernel LSA's explanations, map and fitted state, computed from the saved rows, values and loadings alone."""

from __future__ import annotations

import contextlib
import math
from types import SimpleNamespace

import numpy as np
import pytest

from kernelsearch.core import artefacts
from kernelsearch.core.errors import InputError
from kernelsearch.core.execution import LocalEngine
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.asymmetric import BM25, VSM
from kernelsearch.kernels.spectral.feature_rows import LEAST_PARTS, PART
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.explanations import Term
from kernelsearch.rerankers.klsa import basis as fitting
from kernelsearch.rerankers.klsa import reranker as module
from kernelsearch.rerankers.klsa.basis import default_dims, default_parts, fit_basis, fold_in, scratch_array
from kernelsearch.rerankers.klsa.reranker import KIND, KernelLSA, LatentBasis, has_basis, validate
from tests.rerankers.test_klsa import build, documents

DIMS = 6


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """Sixty documents with a basis of six dimensions."""
    opened = build(tmp_path_factory.mktemp("klsa"), documents(60))
    KernelLSA.method.fit(opened, TrainingData(), dims=DIMS)
    return opened


@pytest.fixture(scope="module")
def query(indexed):
    words = indexed.forward.terms.take(np.argsort(-indexed.forward.df)[[2, 5]])
    return Query.from_tokens("", [words[0], words[1], words[1]])


@pytest.fixture(scope="module")
def listed(indexed, query):
    return indexed.lucene.search([query], 100)[0]


def terms_by_loading(opened, basis, dimension):
    """The five terms with the largest loadings; those of the other sign than the first with a minus."""
    column = np.asarray(basis.loadings, dtype=float)[:, dimension]
    order = np.argsort(-np.abs(column))[:5]
    words = opened.forward.terms.take(np.asarray(basis.feature_terms)[order])
    return ", ".join(
        ("" if column[place] * column[order[0]] >= 0 else "-") + word for place, word in zip(order, words, strict=True)
    )


def expected_parts(reranker, listed, doc, weight):
    """(top documents, parts of the latent score by top document and dimension), for a given z and without one."""
    rows = np.asarray(reranker.basis.rows, dtype=float)[:, : reranker.dims]
    scores = listed.scores.astype(float)
    if reranker.settings.z is not None:
        top = np.argsort(-scores, kind="stable")[: reranker.settings.z]
        return top, weight * scores[top, None] * rows[listed.docs[top]] * rows[doc]
    rows = rows * np.sqrt(np.asarray(reranker.basis.values)[: reranker.dims])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    posterior = np.exp(5 * scores[:20] / scores[0])
    posterior /= posterior.sum()
    latent = rows[listed.docs] @ (posterior @ rows[listed.docs[:20]])
    return np.arange(len(posterior)), weight / latent.std() * posterior[:, None] * rows[listed.docs[:20]] * rows[doc]


@pytest.mark.parametrize("options", [{"z": 1}, {"z": 10}, {"z": 11, "dims": 5}, {"z": 14, "dims": 4}, {}, {"dims": 4}])
def test_parts_are_those_of_documents_and_dimensions_largest_first(indexed, query, listed, options):
    """At most ten documents with four dimensions each are named, the others are summed up; nothing is summed up of nothing."""
    reranker, weight = KernelLSA(indexed, retrieve=0, **{"lambda": 0.3, **options}), 0.3
    for place in (0, 7):
        doc = int(listed.docs[place])
        explanation = reranker.explain(query, listed, doc)
        top, parts = expected_parts(reranker, listed, doc, weight)
        totals = parts.sum(axis=1)
        order = sorted(range(len(top)), key=lambda row: -abs(totals[row]))
        latent = explanation.contributions[0]
        assert latent.value == pytest.approx(totals.sum(), abs=2e-5)
        assert latent.detail == f"λ 0.3, z {options.get('z', 'auto')}"
        shown = latent.parts
        assert len(shown) == min(len(top), 10) + (len(top) > 10)
        for part, row in zip(shown[:10], order, strict=False):
            source = int(listed.docs[top[row]])
            assert part.label == f"through {'itself' if source == doc else indexed.forward.docids[source]}"
            assert part.detail == f"rank {top[row] + 1}, k_q {listed.scores[top[row]]:.4f}"
            assert part.value == pytest.approx(totals[row], abs=2e-5)
            largest = sorted(range(reranker.dims), key=lambda dim: -abs(parts[row, dim]))[:4]
            named = part.parts[:4]
            assert [dim.label for dim in named] == [f"dimension {dim + 1}" for dim in largest]
            assert [dim.value for dim in named] == pytest.approx(parts[row, largest], abs=2e-5)
            assert [dim.detail for dim in named] == [terms_by_loading(indexed, reranker.basis, dim) for dim in largest]
            assert [dim.label for dim in part.parts[4:]] == (["other dimensions"] if reranker.dims > 4 else [])
        if len(top) > 10:
            assert shown[-1].label == f"through {len(top) - 10} other documents"
            assert shown[-1].value == pytest.approx(sum(totals[row] for row in order[10:]), abs=2e-5)
        held = (np.asarray(reranker.basis.rows, dtype=float)[doc, : reranker.dims] ** 2).sum()
        assert explanation.notes["held"] == pytest.approx(held) and explanation.notes["dimensions"] == reranker.dims
        assert explanation.score == pytest.approx(float(reranker.score(query, listed)[place]), abs=1e-5)


def test_means_of_the_candidates_are_subtracted_without_z(indexed, query, listed):
    reranker = KernelLSA(indexed, retrieve=0, **{"lambda": 0.3})
    explanation = reranker.explain(query, listed, int(listed.docs[3]))
    scores = listed.scores.astype(float)
    latent = np.array(
        [expected_parts(reranker, listed, doc, 1.0)[1].sum() for doc in listed.docs.tolist()]
    )  # over its deviation
    values = {part.label: part.value for part in explanation.contributions}
    assert values["own score"] == pytest.approx(0.7 * scores[3] / scores.std(), rel=1e-5)
    assert values["mean of the candidates"] == pytest.approx(
        -0.3 * latent.mean() - 0.7 * scores.mean() / scores.std(), rel=1e-4
    )
    assert explanation.contributions[2].detail == "subtracted by the z-scores" and len(explanation.contributions) == 3


def test_the_map_holds_the_list_the_background_and_the_path(indexed, query, listed):
    """Documents in the order of the list, then the explained one; the query at z = 1, 2, 5, ... and at the z that is used."""
    reranker = KernelLSA(indexed, z=7)
    ranked = reranker.apply(query, listed)
    outside = int(np.setdiff1d(np.arange(60), ranked.docs)[0])
    shown = reranker.explain(query, listed, outside).notes["map"]
    plane = np.asarray(reranker.basis.rows, dtype=float)[:, :2] * np.asarray(reranker.basis.values)[:2]
    rows = [*ranked.docs[:50].tolist(), outside]
    assert [entry["docid"] for entry in shown["documents"]] == indexed.forward.docids.take(rows)
    assert [entry["rank"] for entry in shown["documents"]] == [*range(1, len(rows)), None]
    assert np.array([[entry["x"], entry["y"]] for entry in shown["documents"]]) == pytest.approx(
        plane[rows], rel=1e-4, abs=1e-6
    )
    assert np.array(sorted(shown["background"])) == pytest.approx(np.array(sorted(plane.tolist())), rel=1e-4, abs=1e-6)
    axes = [[("-" if entry["opposite"] else "") + entry["term"] for entry in axis] for axis in shown["axes"]]
    assert axes == [terms_by_loading(indexed, reranker.basis, dim).split(", ") for dim in (0, 1)]
    steps = [z for z in (1, 2, 5, 10, 20, 50) if z <= listed.depth]
    assert shown["z"] == 7 and [step["z"] for step in shown["path"]] == sorted({*steps, 7})
    for step in shown["path"]:
        mean = np.average(plane[listed.docs[: step["z"]]], axis=0, weights=listed.scores[: step["z"]])
        assert [step["x"], step["y"]] == pytest.approx(mean, rel=1e-4, abs=1e-6)


def test_the_query_lies_between_documents_with_positive_scores(indexed, query):
    """Scores of run files may be small, or negative, which count as 0."""
    reranker, docs = KernelLSA(indexed, z=4), np.array([5, 9, 30, 2], dtype=np.int32)
    candidates = Candidates(docs, np.array([0.4, 0.1, 0.05, -3.0], dtype=np.float32))
    plane = np.asarray(reranker.basis.rows, dtype=float)[:, :2] * np.asarray(reranker.basis.values)[:2]
    path = reranker.explain(query, candidates, 9).notes["map"]["path"]
    assert [step["z"] for step in path] == [1, 2, 4]
    for step, count in zip(path, (1, 2, 3), strict=True):
        mean = np.average(plane[docs[:count]], axis=0, weights=[0.4, 0.1, 0.05][:count])
        assert [step["x"], step["y"]] == pytest.approx(mean, rel=1e-4, abs=1e-6)


def test_a_map_needs_two_dimensions(indexed, query, listed, tmp_path):
    for dims in (1, 2):
        fit_basis(tmp_path / str(dims), indexed.forward, BM25(), dims=dims)
        notes = KernelLSA(indexed, basis=str(tmp_path / str(dims))).explain(query, listed, int(listed.docs[0])).notes
        assert ("map" in notes) == (dims == 2)


def test_terms_of_a_dimension_by_loading_with_signs_against_the_first(indexed):
    basis = LatentBasis(indexed.artefacts / "klsa")
    basis.loadings = np.array([[0.1], [-0.9], [0.5], [0.0], [0.7], [-0.2]], dtype=np.float32)
    basis.feature_terms = np.array([0, 2, -1, 3, 1, -2])
    a, b, c, d = basis.terms.take([0, 1, 2, 3])
    expected = [("", c), ("-", b), ("-", "(length)"), ("", "(vector)"), ("-", a), ("", d)]
    assert basis.strongest_terms(0, 6) == expected
    assert [type(term) is Term for _, term in basis.strongest_terms(0, 6)] == [True, True, False, False, True, True]
    assert basis.strongest_terms(0, 20) == basis.strongest_terms(0, 6)
    assert basis.strongest_terms(0) == basis.strongest_terms(0, 6)[:5] and basis.strongest_terms(0, 1) == expected[:1]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("rows", lambda array: array[:, :-1], "rows has shape"),
        ("rows", lambda array: array.ravel(), "rows has shape"),
        ("loadings", lambda array: array[:, :-1], "loadings has shape"),
        ("loadings", lambda array: array[:-1], "feature_terms has shape"),
        ("rows", lambda array: array * np.nan, "rows has a value that is not finite"),
        ("loadings", lambda array: array / np.float32(0), "loadings has a value that is not finite"),
        ("values", lambda array: array - array.max(), "values has a negative eigenvalue"),
        ("feature_terms", lambda array: array - 3, "feature_terms has a number outside -2"),
        ("feature_terms", lambda array: array + 1, "feature_terms has a number outside -2"),
        ("term_ends", lambda array: array[:-1], "outside|not ascending"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(indexed, name, change, message):
    meta, arrays = artefacts.load(indexed.artefacts / "klsa", KIND, 1)  # format 1 is the published one
    arrays = {key: np.array(array) for key, array in arrays.items()}
    values = arrays["values"].copy()
    values[-1] = 0.0  # a collection of fewer dimensions
    validate(meta, {**arrays, "values": values})
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        validate(meta, {**arrays, name: change(arrays[name])})


def test_dimensions_and_parts_by_the_number_of_documents():
    assert [default_dims(count) for count in (0, 3, 4, 7, 8, 100, 1199, 1200, 1204, 10**6)] == [
        1, 1, 1, 1, 2, 25, 299, 300, 300, 300
    ]  # fmt: skip
    assert [default_dims(count) for count in (4 * 300, 4 * 300 + 3)] == [300, 300]  # the paper's number of dimensions
    cluster = SimpleNamespace(name="dask")
    counts = (0, PART, LEAST_PARTS * PART, LEAST_PARTS * PART + 1, 20 * PART, 20 * PART - 1)
    assert [default_parts(count, cluster) for count in counts] == [
        max(LEAST_PARTS, math.ceil(count / PART)) for count in counts
    ]
    assert [default_parts(count, LocalEngine()) for count in counts] == [1] * len(counts)


def test_a_small_index_needs_no_basis(indexed, tmp_path, monkeypatch):
    bare = build(tmp_path, documents(12))
    for limit, expected in ((12, True), (11, False), (0, False)):
        monkeypatch.setattr(module, "FIT_ON_USE", limit)
        assert has_basis(bare) == expected and has_basis(indexed)


def test_training_reports_products_and_the_energy(indexed, tmp_path, monkeypatch, caplog):
    """The bar advances by the products since the last report; the energy is the share of the eigenvalues' sum."""
    seen, original = [], fitting.fit_basis

    def fit(*arguments, progress, **options):
        for products, residual in ((3, math.nan), (5, 0.5), (9, 0.001)):
            progress(products, residual)
        return original(*arguments, **options)

    monkeypatch.setattr(fitting, "fit_basis", fit)
    bar = SimpleNamespace(update=seen.append, note=seen.append)
    with caplog.at_level("INFO", "kernelsearch"):
        data = TrainingData(output=tmp_path / "b", progress=lambda *label, **more: contextlib.nullcontext(bar))
        place = KernelLSA.method.fit(indexed, data, dims=4, kernel="bm25(k1=1.2,b=.5)")
    assert seen == ["", 3, "residual 5.0e-01", 2, "residual 1.0e-03", 4]
    docs = np.arange(60)
    values = np.linalg.eigvalsh(BM25(k1=1.2, b=0.5).documents(indexed.forward, docs, docs))[::-1]
    share = values[:4].sum() / values.sum()
    assert f"klsa: 4 dimensions hold {100 * share:.1f}% of kernel bm25(k1=1.2,b=.5)'s energy" in caplog.text
    meta = LatentBasis(place).meta
    assert meta["parameters"]["landmarks"] == 0 and meta["extra"]["folded"] == 0
    assert meta["extra"]["energy"] == pytest.approx(share, rel=1e-4)


def test_a_sum_of_kernels_is_folded_in_by_term_and_summand(tmp_path):
    """Every term has two features; a new document brings a term that sorts before all others."""
    records = documents(30)
    opened = []
    for number, state in enumerate((records, [*records, {"id": "new", "contents": "a000 " + records[0]["contents"]}])):
        (tmp_path / str(number)).mkdir()
        opened.append(build(tmp_path / str(number), state))
    kernel = BM25(k1=1.2) + VSM()
    old, forward = fit_basis(tmp_path / "old", opened[0].forward, kernel, dims=4), opened[1].forward
    folded = fold_in(tmp_path / "folded", old, forward, kernel)
    loadings, count = np.asarray(old.loadings, dtype=float), len(opened[0].forward.terms)
    right = np.zeros((2 * len(forward.terms), 4))
    for summand in (0, 1):
        right[summand * (count + 1) + 1 : (summand + 1) * (count + 1)] = loadings[summand * count : (summand + 1) * count]
    features = kernel.document_features(forward, np.arange(31)).toarray()
    assert len(forward.terms) == count + 1 and forward.terms[0] == "a000"
    assert np.asarray(folded.rows) == pytest.approx(features @ right / np.asarray(old.values), abs=1e-5)
    energy = np.square(features @ right).sum() / np.square(features).sum()
    assert folded.meta["extra"]["energy"] == pytest.approx(energy, rel=1e-5) and folded.meta["extra"]["folded"] == 1


def test_scratch_arrays_are_in_memory_where_the_limit_allows(tmp_path):
    asked = []
    limit = SimpleNamespace(holds=lambda size: asked.append(size) or size <= 400)
    for rows, mapped in ((10, False), (11, True)):
        array = scratch_array(tmp_path / "new", (rows, 5), np.float64, limit)
        assert isinstance(array, np.memmap) == mapped and array.shape == (rows, 5) and not array.any()
        array[:] = 1.5
        assert array.sum() == 7.5 * rows
    assert asked == [400, 440] and not isinstance(scratch_array(tmp_path, (99,), np.float32, None), np.memmap)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file: cannot be written \(File exists\)"):
        scratch_array(tmp_path / "file", (99, 99), np.float64, limit)


def test_variants_equal_the_rerankers_one_by_one(indexed, query, listed):
    """Tuning: settings that share latent scores, and those that don't; a query without candidates."""
    empty = Candidates(np.empty(0, np.int32), np.empty(0, np.float32))
    queries, lists = [query, query, query], [listed, empty, listed.top(9)]
    plain = [
        {"z": 3, "lambda": 0.2}, {"z": 3, "lambda": 0.9}, {"z": 9, "lambda": 0.9},
        {"z": 3, "dims": 2, "lambda": 0.9}, {"lambda": 0.0}, {"lambda": 0.5, "retrieve": 0}, {"lambda": 1.0, "retrieve": 0},
    ]  # fmt: skip
    for settings in (plain, [*plain[:2], {"retrieve": 20}]):
        members = [KernelLSA(indexed, **options) for options in settings]
        results = KernelLSA.variants(members, queries, lists)
        assert len({str(ranked[0].scores.tolist()) for ranked in results}) == len(settings)
        for member, ranked in zip(members, results, strict=True):
            for result, expected in zip(ranked, member.apply_batch(queries, lists), strict=True):
                assert result.docs.tolist() == expected.docs.tolist()
                assert result.scores == pytest.approx(expected.scores, rel=1e-6)


def test_the_first_document_can_be_retrieved_and_ties_go_by_docid(indexed):
    """Row 0 is nearest to documents of its own topic; equal scores of a list are in the order of docids."""
    reranker = KernelLSA(indexed, retrieve=60, z=5, **{"lambda": 1.0})
    docs = np.array([5, 10, 15, 20, 25], dtype=np.int32)
    assert indexed.forward.docids.take([0, *docs]) == [f"d{number:03d}" for number in (0, *docs)]
    word = indexed.forward.terms.take([0])[0]
    ranked = reranker.apply(Query.from_tokens("", [word]), Candidates(docs, np.ones(5, np.float32)))
    assert 0 in ranked.docs.tolist()
    level = KernelLSA(indexed, **{"lambda": 0.0}).apply(Query.from_tokens("", [word]), Candidates(docs[::-1], np.ones(5)))
    assert level.docs.tolist() == docs.tolist()


def test_of_equal_scores_the_first_of_the_list_is_the_querys_document(indexed):
    """z = 1: the paper's top-z keeps one document, which is the list's first."""
    reranker, docs = KernelLSA(indexed, z=1, **{"lambda": 1.0}), np.array([30, 5, 12], dtype=np.int32)
    rows = np.asarray(reranker.basis.rows, dtype=float)
    for order in (docs, docs[::-1]):
        scores = reranker.score(Query.from_tokens("", ["w"]), Candidates(order, np.full(3, 2.0, np.float32)))
        assert scores == pytest.approx(2 * rows[order] @ rows[order[0]], abs=1e-5)
