"""Kernel LSA: the paper's equations on small data, limits, retrieval, explanation, pictures, saved state."""

import json
import re
import shutil

import numpy as np
import pytest

import kernelsearch
from kernelsearch import explain, index, search, train
from kernelsearch.cli import console
from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.core.execution import LocalEngine
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import registry
from kernelsearch.kernels.asymmetric import BM25, VSM, Dirichlet
from kernelsearch.kernels.documents import RBF, Cosine, Custom
from kernelsearch.lucene.models import BM25Model as LuceneBM25
from kernelsearch.lucene.models import DirichletModel
from kernelsearch.rerankers.base import Context, TrainingData
from kernelsearch.rerankers.klsa import KERNELS_WITH_PARAMETERS
from kernelsearch.rerankers.klsa import basis as basis_module
from kernelsearch.rerankers.klsa.basis import fit_basis, fold_in
from kernelsearch.rerankers.klsa.reranker import LatentBasis
from kernelsearch.rerankers.registry import method
from tests.conftest import build_texts, drawn_texts, rewrite_meta
from tests.lucene.test_lucene_index import change

KernelLSA = method("klsa").load()
DIMS = 20


def documents(count=150, words=200, topics=5, seed=11):
    """Texts drawn from topics; every topic has words that only some of its documents hold."""
    rng = np.random.default_rng(seed)
    shapes = rng.dirichlet(np.full(words, 0.04), size=topics)
    return [
        {"id": f"d{number:03d}", "contents": " ".join(f"w{w:03d}" for w in rng.choice(words, 40, p=shapes[number % topics]))}
        for number in range(count)
    ]


def build(folder, records):
    source = folder / "corpus.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    index.main(["--input", str(source), "--index", str(folder / "index"), "--language", "whitespace"])
    return kernelsearch.open(folder / "index")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """150 documents with a fitted basis of 20 dimensions."""
    opened = build(tmp_path_factory.mktemp("klsa"), documents())
    KernelLSA.method.fit(opened, TrainingData(), dims=DIMS)
    return opened


@pytest.fixture(scope="module")
def query(indexed):
    """Two frequent words and a rarer one, the second twice."""
    order = np.argsort(-indexed.forward.df)
    words = indexed.forward.terms.take(order[[3, 8, 60]])
    return Query.from_tokens("", [words[0], words[1], words[1], words[2]])


@pytest.fixture(scope="module")
def listed(indexed, query):
    return indexed.lucene.search([query], 1000, model=LuceneBM25(2.0, 0.75))[0]


def dense_scores(indexed, query, z, weight, dims=DIMS):
    """Eq. 1 with top-z and smoothing, from the eigenvectors of the whole Gram matrix, for every document."""
    kernel, docs = BM25(k1=2.0, b=0.75), np.arange(len(indexed.forward))
    values, vectors = np.linalg.eigh(kernel.documents(indexed.forward, docs, docs))
    basis = vectors[:, np.argsort(-values)[:dims]]
    scores = kernel.scores(indexed.forward, query, docs).astype(np.float64)
    thresholded = np.zeros_like(scores)
    best = np.argsort(-scores, kind="stable")[:z]
    thresholded[best] = scores[best]
    return weight * (thresholded @ basis) @ basis.T + (1 - weight) * scores


@pytest.mark.parametrize("z", [1, 5, 1000])
@pytest.mark.parametrize("weight", [0.1, 0.9, 1.0])
def test_agrees_with_the_gram_matrix(indexed, query, listed, z, weight):
    scores = KernelLSA(indexed, z=z, **{"lambda": weight}).score(query, listed)
    assert scores == pytest.approx(dense_scores(indexed, query, z, weight)[listed.docs], abs=2e-6)


def test_z_beyond_the_list_is_the_score_without_a_threshold(indexed, query, listed):
    every = KernelLSA(indexed, z=listed.depth, **{"lambda": 1.0}).score(query, listed)
    assert np.array_equal(KernelLSA(indexed, z=10**6, **{"lambda": 1.0}).score(query, listed), every)
    rows = indexed.forward
    basis = LatentBasis(rows.path.parent.parent / "klsa").rows.astype(np.float64)
    everywhere = BM25(k1=2.0, b=0.75).scores(rows, query, np.arange(len(rows))).astype(np.float64)
    assert every == pytest.approx(((everywhere @ basis) @ basis.T)[listed.docs], abs=1e-5)


def test_lambda_zero_gives_the_first_stage_back(indexed, query, listed):
    for options in ({}, {"z": 7}, {"dims": 3}):
        ranked = KernelLSA(indexed, **{"lambda": 0.0, **options}).apply(query, listed)
        assert np.array_equal(ranked.docs, listed.docs) and np.array_equal(ranked.scores, listed.scores)


def test_fewer_dimensions_are_the_first_ones(indexed, query, listed):
    scores = KernelLSA(indexed, dims=5, z=3).score(query, listed)
    assert scores == pytest.approx(dense_scores(indexed, query, 3, 0.9, dims=5)[listed.docs], abs=2e-6)
    with pytest.raises(OptionError, match=r"klsa_dims: 21, but .* was fitted with 20"):
        KernelLSA(indexed, dims=21)


def test_signs_of_dimensions_do_not_matter(indexed, query, listed):
    ranker = KernelLSA(indexed, z=5)
    plain = ranker.score(query, listed)
    ranker.basis.rows = ranker.basis.rows * np.where(np.arange(DIMS) % 2, -1, 1).astype(np.float32)
    assert ranker.score(query, listed) == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("rows", lambda array: array[:75], r"damaged .75 rows for 150 documents"),
        ("values", lambda array: -array, r"damaged .values has a negative eigenvalue"),
    ],
)
def test_a_basis_that_fits_its_checksums_but_not_the_index_is_refused(indexed, tmp_path, name, change, message):
    folder = tmp_path / "klsa"
    shutil.copytree(KernelLSA(indexed).basis.path, folder)
    np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))
    rewrite_meta(folder, lambda meta: meta["files"].update({f"{name}.npy": (folder / f"{name}.npy").stat().st_size}))
    with pytest.raises(ArtefactError, match=message):
        KernelLSA(indexed, basis=str(folder))


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused(indexed, score):
    scores = np.array([1.0, score, 2.0])
    with pytest.raises(InputError, match=f"klsa: a document got the score {score}"):
        KernelLSA(indexed).ordered(np.arange(3, dtype=np.int32), scores)


def test_a_list_keeps_its_documents(indexed, query, listed):
    for options in ({"retrieve": 0}, {"z": 1}):
        ranked = KernelLSA(indexed, **options).apply(query, listed)
        assert sorted(ranked.docs) == sorted(listed.docs)
        assert (np.diff(ranked.scores) <= 0).all()
        assert not np.array_equal(ranked.docs, listed.docs)


def test_the_default_form_adds_the_nearest_documents(indexed, query, listed):
    """Without z, up to 200 documents join that are nearest in the latent space; all others keep their scores. Not with λ 0."""
    plain, ranked = KernelLSA(indexed, retrieve=0).apply(query, listed), KernelLSA(indexed).apply(query, listed)
    assert set(listed.docs) < set(ranked.docs) and len(set(ranked.docs) - set(listed.docs)) <= 200
    scores = dict(zip(ranked.docs.tolist(), ranked.scores.tolist(), strict=True))
    assert [scores[doc] for doc in plain.docs.tolist()] == pytest.approx(plain.scores.tolist())
    explicit = KernelLSA(indexed, retrieve=200).apply(query, listed)
    assert np.array_equal(explicit.docs, ranked.docs)
    untouched = KernelLSA(indexed, **{"lambda": 0}).apply(query, listed)
    assert np.array_equal(untouched.docs, listed.docs)


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_retrieve_ranks_all_documents_as_the_equation_does(indexed, query, listed, weight):
    ranker = KernelLSA(indexed, retrieve=1000, z=3, **{"lambda": weight})
    ranked = ranker.apply(query, Candidates(listed.docs[:20], listed.scores[:20]), Context(LuceneBM25(2.0, 0.75)))
    expected = dense_scores(indexed, query, 3, weight)
    assert ranked.depth > 20 and len(set(ranked.docs.tolist())) == ranked.depth
    assert ranked.scores == pytest.approx(expected[ranked.docs], abs=2e-6)
    # Everything left out has no part in the query's place.
    left_out = np.setdiff1d(np.arange(len(indexed.forward)), ranked.docs)
    assert (dense_scores(indexed, query, 3, 1.0)[left_out] <= 1e-6).all()


def test_retrieve_brings_documents_that_share_no_word(indexed, query, listed):
    ranked = KernelLSA(indexed, retrieve=150).apply(query, listed)
    new = np.setdiff1d(ranked.docs, listed.docs)
    assert len(new)
    terms = indexed.forward.term_ids(query.terms)
    assert not indexed.forward.term_frequencies(new, terms).any()
    notes = [KernelLSA(indexed, retrieve=150).explain(query, listed, int(doc)).notes for doc in (new[0], listed.docs[0])]
    assert [note["retrieved"] for note in notes] == [True, False]


def test_retrieve_respects_hits_and_batches_alike(indexed, query, listed):
    ranker = KernelLSA(indexed, retrieve=150)
    empty = Candidates(np.empty(0, np.int32), np.empty(0, np.float32))
    alone = ranker.apply(query, listed, Context(hits=60))
    together = ranker.apply_batch([query, query, query], [listed, empty, listed], Context(hits=60))
    assert alone.depth == 60 and together[1].depth == 0
    for ranked in (together[0], together[2]):
        assert np.array_equal(ranked.docs, alone.docs) and ranked.scores == pytest.approx(alone.scores)


def test_retrieved_documents_score_under_other_first_stages_too(indexed, query):
    model = DirichletModel(200.0)
    every = indexed.lucene.search([query], 1000, model=model)[0]
    ranker = KernelLSA(indexed, retrieve=150, **{"lambda": 0.0})
    ranked = ranker.apply(query, Candidates(every.docs[:10], every.scores[:10]), Context(model))
    known = dict(zip(every.docs.tolist(), every.scores.tolist(), strict=True))
    assert ranked.depth > 10
    assert ranked.scores == pytest.approx([known.get(doc, 0.0) for doc in ranked.docs.tolist()], rel=1e-4, abs=1e-5)


def test_scores_of_retrieved_documents_are_bounded_by_the_lists_last(indexed, query):
    """A list from elsewhere, whose scores BM25 doesn't explain: what is added can't pass it by BM25's own scale."""
    every = indexed.lucene.search([query], 1000)[0]
    foreign = Candidates(every.docs[-10:], np.linspace(1e-3, 1e-4, 10, dtype=np.float32))
    ranked = KernelLSA(indexed, retrieve=150, z=3, **{"lambda": 0.0}).apply(query, foreign)
    new = ~np.isin(ranked.docs, foreign.docs)
    assert new.any() and indexed.forward.term_frequencies(ranked.docs[new], indexed.forward.term_ids(query.terms)).any()
    assert ranked.scores[new].max() <= np.float32(1e-4)


def test_documents_opposite_to_the_query_are_not_retrieved(indexed, query, listed):
    reranker = KernelLSA(indexed, retrieve=150, z=3, **{"lambda": 1.0})
    ranked = reranker.apply(query, listed.top(5))
    products = reranker.basis.rows @ reranker.spread(listed.top(5).scores, listed.top(5).docs)
    new = np.setdiff1d(ranked.docs, listed.top(5).docs)
    assert (products < -1e-6).any() and (products[new] > 0).all()


def test_fit_uses_its_field(tmp_path):
    """The basis of the titles is another one."""
    records = [{**record, "title": " ".join(record["contents"].split()[:6])} for record in documents(60)]
    opened = build(tmp_path, records)
    place = KernelLSA.method.fit(
        opened, TrainingData(output=tmp_path / "b"), field="title", dims=5, kernel="bm25(k1=1.2,b=.75)"
    )
    values = np.linalg.eigvalsh(BM25(k1=1.2, b=0.75).documents(opened.field("title"), np.arange(60), np.arange(60)))[::-1][:5]
    assert LatentBasis(place).values ** 2 == pytest.approx(values, rel=1e-4)


def test_the_command_line_trains_searches_explains_and_draws(tmp_path, capsys):
    opened = build(tmp_path, documents(60))
    place = str(opened.path)
    train.main(["--index", place, "--rerank", "klsa", "--klsa.dims", "10", "--klsa.kernel", "2*bm25+vsm"])
    assert LatentBasis(opened.artefacts / "klsa").parameters["kernel"] == "2*bm25+vsm"
    words = " ".join(opened.forward.terms.take(np.argsort(-opened.forward.df)[:3]))
    search.main(["--index", place, "--query", words, "--rerank", "klsa", "--klsa.retrieve", "50"])
    capsys.readouterr()
    arguments = ["--index", place, "--query", words, "--rerank", "klsa", "--json", "--plot"]
    explain.main([*arguments, str(tmp_path / "map.png")])
    shown = json.loads(capsys.readouterr().out)
    assert shown["explanation"]["contributions"][0]["label"] == "like the best documents"
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    for name in ("map.svg", "again.svg"):
        explain.main([*arguments, str(tmp_path / name)])
    assert (tmp_path / "map.svg").read_text() == (tmp_path / "again.svg").read_text()
    drawn = drawn_texts(tmp_path / "map.svg")
    assert {words, "query as z grows", "documents"} <= drawn
    assert {entry["docid"] for entry in shown["list"][:3]} <= drawn  # the best documents are named


def test_a_missing_basis_is_fitted_for_small_collections_and_asked_for_otherwise(tmp_path, capsys, monkeypatch):
    opened = build(tmp_path, documents(40))
    monkeypatch.setattr("kernelsearch.rerankers.klsa.reranker.FIT_ON_USE", 39)
    with pytest.raises(ArtefactError, match=r"make one with: python -m kernelsearch.train --index .* --rerank klsa"):
        KernelLSA(opened)
    monkeypatch.setattr("kernelsearch.rerankers.klsa.reranker.FIT_ON_USE", 40)
    assert KernelLSA(opened).basis.dims == 10  # a quarter of the documents: more would leave every document to itself
    assert "fitting a basis for 40 documents" in capsys.readouterr().err
    KernelLSA(opened)
    assert "fitting" not in capsys.readouterr().err


def test_round_trip_and_wrong_index_refusal(indexed, query, listed, tmp_path):
    place = KernelLSA.method.fit(indexed, TrainingData(output=tmp_path / "basis"), dims=DIMS)
    assert np.array_equal(KernelLSA(indexed, basis=str(place)).score(query, listed), KernelLSA(indexed).score(query, listed))
    other = build(tmp_path, documents(30, seed=2))
    with pytest.raises(ArtefactError, match="made for another index"):
        KernelLSA(other, basis=str(place))
    (place / "rows.npy").write_bytes((place / "rows.npy").read_bytes()[:-8])
    with pytest.raises(ArtefactError, match=r"rows\.npy: .* bytes where"):
        KernelLSA(indexed, basis=str(place))
    with pytest.raises(ArtefactError, match="no latent basis here"):
        KernelLSA(indexed, basis=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_kinds_of_neighbours(indexed, query, listed, tmp_path, kind):
    place = KernelLSA.method.fit(indexed, TrainingData(output=tmp_path / "basis"), dims=DIMS, neighbours=kind)
    assert (place / f"neighbours.{kind}").exists() == (kind != "flat")
    ranked = KernelLSA(indexed, basis=str(place), retrieve=100).apply(query, listed)
    exact = KernelLSA(indexed, retrieve=100).apply(query, listed)
    assert len(np.intersect1d(ranked.docs, exact.docs)) >= 0.95 * exact.depth
    assert np.array_equal(ranked.docs[:10], exact.docs[:10])


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_rows_are_held_in_as_many_parts_as_asked_for(indexed, tmp_path, monkeypatch, parts):
    made = []
    original = basis_module.PartedRows
    monkeypatch.setattr(basis_module, "PartedRows", lambda *arguments: made.append(arguments[2]) or original(*arguments))
    built = fit_basis(tmp_path / "b", indexed.forward, VSM(), dims=4, engine=LocalEngine(), parts=parts)
    assert made == ([parts] if parts > 1 else [])
    whole = fit_basis(tmp_path / "w", indexed.forward, VSM(), dims=4)
    np.testing.assert_allclose(built.values, whole.values, rtol=1e-4)


def test_fold_in(tmp_path, capsys):
    records = documents(140)
    (tmp_path / "old").mkdir(), (tmp_path / "new").mkdir()
    old, new = (
        build(tmp_path / "old", records[:120]),
        build(tmp_path / "new", [*records, {"id": "d999", "contents": "unheard of"}]),
    )
    place = KernelLSA.method.fit(old, TrainingData(), dims=DIMS)
    shutil.copytree(place, new.artefacts / "klsa")
    with pytest.raises(ArtefactError, match="made for another index"):
        KernelLSA(new)
    train.main(["--index", str(new.path), "--rerank", "klsa", "--klsa.fold-in"])
    assert "14.9% of the documents came after" in capsys.readouterr().err
    folded, fresh = KernelLSA(new).basis, LatentBasis(KernelLSA.method.fit(new, TrainingData(output=tmp_path / "b"), dims=DIMS))
    assert folded.rows.shape == (141, DIMS)
    assert folded.meta["extra"]["energy"] == pytest.approx(fresh.meta["extra"]["energy"], abs=0.05)
    assert folded.meta["extra"]["energy"] < fresh.meta["extra"]["energy"]
    assert not folded.rows[-1].any()  # a document of unknown words is outside the basis
    # A new document lies nearest to documents of its own topic.
    similar = np.argsort(-(folded.rows[:120] @ folded.rows[130]))[:10]
    assert np.mean(similar % 5 == 130 % 5) > 0.6


def test_documents_that_are_folded_in_are_counted_where_others_were_deleted(tmp_path):
    """Of 20 documents, the decomposition's last two are deleted and two others added, then one of the first is replaced."""
    records = documents(22)
    changed = {**records[0], "contents": records[0]["contents"] + " again"}
    states = (records[:20], records[:18] + records[20:], [changed, *records[1:18], *records[20:]])
    basis = None
    for number, state in enumerate(states):
        (tmp_path / str(number)).mkdir()
        opened = build(tmp_path / str(number), state)
        if basis is None:
            basis = KernelLSA.method.fit(opened, TrainingData(), dims=3)
            assert LatentBasis(basis).meta["extra"]["folded"] == 0
            continue
        shutil.copytree(basis, opened.artefacts / "klsa")
        basis = KernelLSA.method.fit(opened, TrainingData(), fold_in=True)
        assert LatentBasis(basis).meta["extra"]["folded"] == number + 1


def test_rows_are_the_features_times_v_over_the_singular_values(indexed):
    basis = LatentBasis(indexed.artefacts / "klsa")
    features = BM25(k1=2.0, b=0.75).document_features(indexed.forward, np.arange(30))
    assert np.allclose(features @ (basis.loadings / basis.values), basis.rows[:30], atol=1e-5)


@pytest.mark.parametrize(
    "kernel",
    [BM25(k1=1.2, b=0.75), BM25(k1=1.2, k3=0.5), Cosine(BM25(k1=1.2)), (BM25(k1=1.2) + VSM()) * Cosine()],
    ids=["k1", "k3", "cosine", "parentheses"],
)
def test_a_basis_keeps_its_kernel(indexed, tmp_path, kernel):
    basis = fit_basis(tmp_path / "b", indexed.forward, kernel, dims=5)
    assert basis_module.basis_kernel(basis, indexed) == kernel
    if not kernel.wide:
        before = np.array(basis.rows)
        KernelLSA.method.fit(indexed, TrainingData(output=tmp_path / "b"), fold_in=True)
        assert np.allclose(LatentBasis(tmp_path / "b").rows, before, atol=1e-5)


def test_a_kernel_from_a_function_is_made_again_by_its_expression(indexed, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "KERNELS", {**registry.KERNELS, "half": lambda k1=1.0: BM25(k1=k1 / 2)})
    monkeypatch.setattr(registry, "name_of", lambda kind: None)
    place = KernelLSA.method.fit(indexed, TrainingData(output=tmp_path / "b"), kernel="half(k1=3)", dims=5)
    assert basis_module.basis_kernel(LatentBasis(place), indexed) == BM25(k1=1.5)


@pytest.mark.parametrize("missing", ["decomposed", "saved_kernel"])
def test_a_basis_of_an_earlier_version_is_refused(indexed, tmp_path, missing):
    place = KernelLSA.method.fit(indexed, TrainingData(output=tmp_path / "b"), dims=5)
    if missing == "decomposed":
        (place / "decomposed.npy").unlink()
    rewrite_meta(place, lambda meta: (meta["files"].pop(f"{missing}.npy", None), meta["parameters"].pop(missing, None)))
    with pytest.raises(ArtefactError, match=r"b: made by an earlier version; fit it again with: python -m kernelsearch\.train"):
        KernelLSA(indexed, basis=str(place))


def test_kernels_without_a_map_go_through_landmarks(indexed, query, listed, tmp_path):
    place = KernelLSA.method.fit(indexed, TrainingData(output=tmp_path / "rbf"), kernel="rbf", dims=10)
    ranker = KernelLSA(indexed, basis=str(place), z=3)
    assert np.isfinite(ranker.score(query, listed)).all()
    assert ranker.basis.strongest_terms(0)[0][1].startswith("w")
    with pytest.raises(OptionError, match="no feature map to fold"):
        KernelLSA.method.fit(indexed, TrainingData(output=place), fold_in=True)


def test_landmarks_everywhere_equal_the_gram_matrix(indexed, tmp_path):
    docs = np.arange(len(indexed.forward))
    basis = fit_basis(tmp_path / "b", indexed.forward, RBF(gamma=2.0), dims=8, landmarks=1000)
    values, vectors = np.linalg.eigh(RBF(gamma=2.0).documents(indexed.forward, docs, docs))
    top = vectors[:, ::-1][:, :8]
    assert basis.values**2 == pytest.approx(values[::-1][:8], rel=1e-6)
    assert np.allclose(basis.rows @ basis.rows.T, top @ top.T, atol=1e-4)


def test_a_function_of_ones_own(indexed, query, listed, tmp_path):
    kernel = Custom(lambda x, y: (x @ y.T).toarray() ** 3)
    fit_basis(tmp_path / "b", indexed.forward, kernel, dims=8, landmarks=100)
    assert np.isfinite(KernelLSA(indexed, basis=str(tmp_path / "b")).score(query, listed)).all()
    with pytest.raises(OptionError, match="isn't saved with the basis"):
        basis_module.basis_kernel(LatentBasis(tmp_path / "b"), indexed)


def test_an_unknown_kernel_is_one_line_and_status_2(indexed, capsys):
    with pytest.raises(SystemExit) as ended:
        console.run(train.main, ["--index", str(indexed.path), "--rerank", "klsa", "--klsa.kernel", "bm52"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("kernelsearch: kernel 'bm52': 'bm52' is not one of linear, vsm, logentropy, bm25")


def test_a_kernel_multiplied_by_zero_says_so(indexed, tmp_path):
    with pytest.raises(InputError, match="kernel is multiplied by zero"):
        KernelLSA.method.fit(indexed, TrainingData(output=tmp_path / "b"), kernel="0*bm25", dims=5)


def automatic_scores(indexed, listed, weight, dims=DIMS):
    """The default form, dense: posterior mean of the best 20 in U Σ^½, cosine, z-scores."""
    docs = np.arange(len(indexed.forward))
    values, vectors = np.linalg.eigh(BM25(k1=2.0, b=0.75).documents(indexed.forward, docs, docs))
    order = np.argsort(-values)[:dims]
    rows = vectors[:, order] * values[order] ** 0.25  # eigenvalues are squares of singular values
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scores = listed.scores.astype(np.float64)
    raw = np.exp(5 * scores[:20] / scores[0])
    latent = rows[listed.docs] @ (raw / raw.sum() @ rows[listed.docs[:20]])
    return weight * (latent - latent.mean()) / latent.std() + (1 - weight) * (scores - scores.mean()) / scores.std()


@pytest.mark.parametrize("weight", [None, 0.2, 1.0])
def test_without_z_the_query_is_the_posterior_mean_of_its_best_documents(indexed, query, listed, weight):
    options = {} if weight is None else {"lambda": weight}
    expected = automatic_scores(indexed, listed, 0.5 if weight is None else weight)
    assert KernelLSA(indexed, **options).score(query, listed) == pytest.approx(expected, abs=2e-5)
    assert KernelLSA(indexed, z="auto", **options).score(query, listed) == pytest.approx(expected, abs=2e-5)


def test_a_given_z_is_the_papers_form_with_its_weight(indexed, query, listed):
    stated = KernelLSA(indexed, z=3, **{"lambda": 0.9}).score(query, listed)
    assert KernelLSA(indexed, z=3).score(query, listed) == pytest.approx(stated)


def test_the_default_form_is_explained_and_says_what_it_was_expanded_from(indexed, query, listed):
    reranker = KernelLSA(indexed)
    scores = reranker.score(query, listed)
    explanation = reranker.explain(query, listed, int(listed.docs[7]))
    assert explanation.score == pytest.approx(float(scores[7]), abs=1e-5)
    assert sum(part.value for part in explanation.contributions) == pytest.approx(explanation.score)
    assert sum(entry["weight"] for entry in explanation.notes["feedback"]["documents"]) == pytest.approx(1, abs=2e-3)


def test_the_default_form_retrieves_on_the_scale_of_its_candidates(indexed, query, listed):
    """Documents that the latent space adds get the score that they have as candidates of the full list."""
    full = KernelLSA(indexed, **{"lambda": 1.0})
    short = listed.top(30)
    ranked = KernelLSA(indexed, retrieve=100, **{"lambda": 1.0}).apply(query, short)
    new = np.setdiff1d(ranked.docs, short.docs)
    assert len(new)
    vector = full.spread(short.scores, short.docs)
    latent = full.latent(vector, short.docs).astype(float)
    expected = {int(row): (float(full.latent(vector, np.array([row]))[0]) - latent.mean()) / latent.std() for row in new}
    scores = dict(zip(ranked.docs.tolist(), ranked.scores.tolist(), strict=True))
    assert {row: scores[row] for row in expected} == pytest.approx(expected, abs=1e-4)


def test_the_default_form_adds_the_documents_with_the_largest_products(indexed, query, listed):
    """The nearest rows of U Σ^½ to the mean of the first documents' unit rows, by numpy over all documents."""
    reranker, short = KernelLSA(indexed, retrieve=40), listed.top(15)
    roots = np.sqrt(np.asarray(reranker.basis.values, dtype=float))
    rows = np.asarray(reranker.basis.rows, dtype=float) * roots
    unit = rows[short.docs] / np.linalg.norm(rows[short.docs], axis=1, keepdims=True)
    weights = np.exp(5 * short.scores.astype(float) / float(short.scores[0]))
    products = rows @ (weights / weights.sum() @ unit)
    plain = np.asarray(reranker.basis.rows, dtype=float) @ (weights / weights.sum() @ unit)
    nearest, by_u_alone = (set(np.argsort(-values)[:40].tolist()) for values in (products, plain))
    assert set(reranker.apply(query, short).docs.tolist()) == nearest | set(short.docs.tolist())
    assert nearest != by_u_alone


def test_documents_that_another_program_deleted_are_not_added(tmp_path):
    """Their rows are empty, but exp(-γ|x - y|²) with an empty document is not 0."""
    build(tmp_path, documents(40))
    change(tmp_path / "index", delete=[f"d{number:03d}" for number in range(0, 40, 3)], add=[])
    opened = kernelsearch.open(tmp_path / "index")
    KernelLSA.method.fit(opened, TrainingData(), kernel="rbf(gamma=.1)", dims=8)
    reranker, live = KernelLSA(opened, retrieve=40), opened.forward.live
    query = opened.lucene.queries([opened.forward.terms.take([5])[0]])[0]
    listed = opened.lucene.search([query], 5)[0]
    ranked = reranker.apply(query, listed)
    assert np.asarray(reranker.basis.rows)[~live].any() and (~live).any()
    assert ranked.depth > listed.depth and live[ranked.docs].all()


def test_features_that_are_no_terms_are_folded_in_as_themselves(tmp_path):
    """Dirichlet smoothing has the length as a last feature; a new document brings a term that sorts before all others."""
    records, mu = documents(40), 30.0
    states = (records, [*records, {"id": "new", "contents": "a000 " + records[0]["contents"]}])
    opened = []
    for number, state in enumerate(states):
        (tmp_path / str(number)).mkdir()
        opened.append(build(tmp_path / str(number), state))
    old = LatentBasis(KernelLSA.method.fit(opened[0], TrainingData(), dims=5, kernel="dirichlet(mu=30)"))
    kernel, forward = Dirichlet(mu=mu), opened[1].forward
    folded = fold_in(tmp_path / "folded", old, forward, kernel)
    words = forward.words(np.arange(len(forward.terms)))
    known = {word: row for row, word in enumerate(opened[0].forward.words(np.arange(len(opened[0].forward.terms))))}
    loadings = np.asarray(old.loadings, dtype=float)
    right = np.array([*(loadings[known[word]] if word in known else np.zeros(5) for word in words), loadings[-1]])
    features = kernel.document_features(forward, np.arange(41)).toarray()
    assert words[0] == "a000" and np.abs(loadings[-1]).max() > 0.1
    assert np.asarray(folded.rows) == pytest.approx(features @ right / np.asarray(old.values), abs=1e-5)


def test_scores_that_differ_by_rounding_alone_order_nothing(indexed, query, listed):
    """In one dimension all cosines are 1 up to the last bit; z-scores would make a deviation of 1 of it."""
    reranker = method("klsa").make(indexed, dims=1, retrieve=0)
    docs = listed.docs[:3]
    latent = np.array([1, 1 - 6e-8, 1 + 1.2e-7], dtype=np.float32)
    scale = reranker.scale(latent, np.array([3.0, 2.0, 1.0], dtype=np.float32))
    assert (scale.latent_deviation, scale.score_deviation) == (1.0, pytest.approx(np.sqrt(2 / 3)))
    mixed = reranker.mix(latent, np.array([3.0, 2.0, 1.0], dtype=np.float32), scale)
    assert mixed == pytest.approx(0.5 * np.array([1, 0, -1]) / np.sqrt(2 / 3), abs=1e-6) and len(docs) == 3


def test_an_index_without_terms_has_no_basis_to_fit(tmp_path):
    opened = kernelsearch.open(build_texts(tmp_path, {"a": "the of", "b": "and"}))
    assert not opened.search("tap", rerank="auto")
    for kernel in ("bm25", "rbf"):
        with pytest.raises(InputError, match=r"no document has terms|stop words and signs only"):
            opened.train("klsa", kernel=kernel)


@pytest.mark.parametrize("name", list(method("klsa").moved))
def test_a_former_option_says_where_it_is_now(name):
    for fit in (False, True):
        with pytest.raises(OptionError, match=re.escape(f"klsa_{name.replace('-', '_')}: {method('klsa').moved[name]}")):
            method("klsa").find_option(name, fit=fit)


@pytest.mark.parametrize("text", [text for text in KERNELS_WITH_PARAMETERS.values() if "vectors" not in text])
def test_kernels_that_stand_for_former_options_can_be_used(text):
    names = {name for name, kernel in KERNELS_WITH_PARAMETERS.items() if kernel == text}
    made = registry.kernel(text)
    assert {"jm-lambda": "lam"}.get(min(names), min(names)) in vars(made)
