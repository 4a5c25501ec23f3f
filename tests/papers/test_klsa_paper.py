"""The printed form of kernel LSA: k_q of the fitted kernel, latent semantic indexing, vectors, the paper's setting."""

import numpy as np
import pytest

from kernelsearch.api.readable import Reading
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.lucene.models import BM25Model as LuceneBM25
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.klsa.reranker import KernelLSA
from kernelsearch.rerankers.registry import method
from tests.kernels import test_vectors
from tests.rerankers import test_klsa
from tests.rerankers.test_klsa import DIMS, build, documents

#: Fixtures.
index, unit = test_vectors.index, test_vectors.unit
indexed, listed, query = test_klsa.indexed, test_klsa.listed, test_klsa.query

KernelLSAPaper = method("klsa-paper").load()


def test_its_defaults_are_a_given_z_of_the_product(indexed, query, listed):
    short = listed.top(10)
    for options in ({}, {"z": 4}, {"z": 4, "retrieve": 30, "lambda": 0.3}):
        expected = KernelLSA(indexed, **{"z": 1, **options}).apply(query, short)
        ranked = KernelLSAPaper(indexed, **options).apply(query, short)
        assert np.array_equal(ranked.docs, expected.docs) and np.array_equal(ranked.scores, expected.scores)
    settings = KernelLSAPaper(indexed).settings
    assert (settings.z, settings.lambda_, settings.retrieve) == (1, 0.9, 0)


def test_it_is_trained_as_klsa(indexed):
    with pytest.raises(OptionError, match=r"uses the basis of klsa: python -m kernelsearch\.train .* --rerank klsa"):
        indexed.train("klsa-paper")


def test_rerankers_of_other_scores_share_no_latent_scores(indexed, query, listed):
    settings = [{"z": 3}, {"z": 3, "lambda": 0.2}, {"z": 3, "cosine": True}, {"z": 3, "scores": "kernel"}]
    members = [KernelLSAPaper(indexed, **options) for options in settings]
    other = indexed.lucene.search([query], 30)[0]
    results = KernelLSAPaper.variants(members, [query], [other])
    assert len({str(ranked[0].scores.tolist()) for ranked in results}) == len(settings)
    for member, (ranked,) in zip(members, results, strict=True):
        assert np.array_equal(ranked.docs, member.apply(query, other).docs)


def test_an_explanation_says_whose_score_k_q_is(indexed, query):
    other = indexed.lucene.search([query], 10)[0]
    doc = int(other.docs[0])
    score = BM25(k1=2.0, b=0.75).scores(indexed.forward, query, np.array([doc]))[0]
    explained = KernelLSAPaper(indexed, scores="kernel", z=4, **{"lambda": 0.4}).explain(query, other, doc)
    assert explained.contributions[1].detail == f"(1 - λ) × k_q {score:.4f} of the fitted kernel"
    assert Reading().rewrite(explained).contributions[1].detail == f"the rest of the score; {score:.4f} by the fitted kernel"
    details = [part.detail for part in explained.contributions[0].parts]
    assert len(details) == 4 and all(detail.endswith(" of the fitted kernel") for detail in details)
    plain = KernelLSAPaper(indexed, z=4, **{"lambda": 0.4}).explain(query, other, doc)
    assert plain.contributions[1].detail == f"(1 - λ) × k_q {other.scores[0]:.4f}"


def test_retrieved_documents_have_the_kernels_own_scores_too(indexed, query):
    """A first stage with other parameters, ten of its documents: k_q of the documents that are added is the kernel's."""
    other = indexed.lucene.search([query], 10)[0]
    kernel, docs = BM25(k1=2.0, b=0.75), np.arange(len(indexed.forward))
    own = kernel.scores(indexed.forward, query, docs).astype(np.float64)
    best = other.docs[np.argsort(-own[other.docs], kind="stable")[:3]]
    values, vectors = np.linalg.eigh(kernel.documents(indexed.forward, docs, docs))
    basis = vectors[:, np.argsort(-values)[:DIMS]]
    expected = 0.4 * (own[best] @ basis[best]) @ basis.T + 0.6 * own
    ranked = KernelLSAPaper(indexed, scores="kernel", z=3, retrieve=1000, **{"lambda": 0.4}).apply(query, other)
    added = np.setdiff1d(ranked.docs, other.docs)
    assert ranked.scores == pytest.approx(expected[ranked.docs], abs=2e-5) and (own[added] > 0).any()


def test_k3_saturates_repeated_query_terms_of_the_fitted_field(tmp_path):
    records = [{**record, "title": " ".join(record["contents"].split()[:6])} for record in documents(60)]
    opened = build(tmp_path, records)
    data = TrainingData(output=tmp_path / "b")
    place = KernelLSA.method.fit(opened, data, field="title", dims=5, kernel="bm25(k1=1.2,b=.75,k3=0)")
    title = opened.field("title")
    word = title.terms.take(np.argsort(-title.df)[:1])[0]
    twice, once = Query.from_tokens("", [word, word]), Query.from_tokens("", [word])
    candidates = opened.lucene.search([twice], 100)[0]
    scores = KernelLSAPaper(opened, basis=str(place), scores="kernel", **{"lambda": 0.0}).score(twice, candidates)
    assert scores == pytest.approx(BM25(k1=1.2, b=0.75).scores(title, once, candidates.docs)) and scores.any()


def test_a_kernel_between_documents_gives_no_query_scores(indexed, query, listed, tmp_path):
    place = KernelLSA.method.fit(indexed, TrainingData(output=tmp_path / "rbf"), kernel="rbf", dims=10)
    with pytest.raises(OptionError, match="rbf compares documents only"):
        KernelLSAPaper(indexed, basis=str(place), scores="kernel").score(query, listed)


def test_kernel_lsa_over_a_sum_ranks_by_the_papers_formula(index, unit, tmp_path):
    """λ · top_z(k_q) U Uᵀ + (1 - λ) · k_q with k_q = cosine of BM25's features + cosine of vectors, computed from scratch."""
    folder = index.train("klsa", output=tmp_path / "basis", kernel="bm25(k1=2,b=.75)+0.5*vectors:m", dims=20)
    pipeline = index.pipeline({"klsa-paper": {"basis": str(folder), "scores": "kernel", "z": 3, "lambda": 0.6, "dims": 20}})
    query = index.query("dripping tap", "1")
    listed = pipeline.retrieve([query])[0]
    ranked = pipeline.rerank([query], [listed])[0]
    bm25, docs = BM25(k1=2.0, b=0.75), np.arange(len(index.forward))
    words, asked = bm25.document_features(index.forward, docs).toarray(), bm25.query_features(index.forward, query).toarray()[0]
    lengths = np.linalg.norm(words, axis=1, keepdims=True)
    words = words / np.where(lengths > 0, lengths, 1)
    direction = np.arange(12.0) / np.linalg.norm(np.arange(12.0))
    scores = words @ (asked / np.linalg.norm(asked)) + 0.5 * unit @ direction
    left = np.linalg.svd(np.hstack([words, np.sqrt(0.5) * unit]), full_matrices=False)[0][:, :20]
    k_q = scores[listed.docs]
    best = np.argsort(-k_q)[:3]
    expected = 0.6 * left[listed.docs] @ (k_q[best] @ left[listed.docs[best]]) + 0.4 * k_q
    order = np.argsort(-expected)
    assert ranked.docs.tolist() == listed.docs[order].tolist()
    assert np.allclose(ranked.scores, expected[order], atol=1e-4)


@pytest.mark.collections
@pytest.mark.parametrize("k1, b, plain, better", [(0.9, 0.4, 0.2791, 0.3135), (2.0, 0.75, 0.3004, 0.3370)])
def test_the_papers_setting_on_cranfield(collections, collection_index, tmp_path, k1, b, plain, better):
    opened = collection_index("cran")
    qrels = load_qrels(str(collections / "cran" / "qrels.txt"))
    topics = load_topics(str(collections / "cran" / "topics.tsv"))
    queries = opened.lucene.queries(list(topics.values()), list(topics))
    lists = opened.lucene.search(queries, 1000, model=LuceneBM25(k1, b))
    judged = JudgedRows(opened.forward, qrels, list(topics))
    place = KernelLSA.method.fit(opened, TrainingData(output=tmp_path / "basis"), kernel=f"bm25(k1={k1},b={b})")
    ranked = KernelLSAPaper(opened, basis=str(place)).apply_batch(queries, lists)
    assert judged.average_precision(lists).mean() == pytest.approx(plain, abs=0.0005)
    assert judged.average_precision(ranked).mean() == pytest.approx(better, abs=0.003)
