"""Lemma 1 of asymmetric kernel learning: scaling, sums and products of kernels; kernels by name."""

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Query
from kernelsearch.kernels import registry
from kernelsearch.kernels.asymmetric import BM25, VSM, Dirichlet, Linear
from kernelsearch.kernels.documents import RBF, Cosine, Polynomial

QUERY = Query("", ("w001", "w050", "w120"), (1.0, 2.0, 1.0))
DOCS = np.arange(30)


@pytest.mark.parametrize("factor", [2.0, 0.25, 0.0, -3.0])
def test_scaling(topical, factor):
    kernel = factor * BM25()
    plain = BM25().scores(topical, QUERY, DOCS)
    assert kernel.scores(topical, QUERY, DOCS) == pytest.approx(factor * plain)
    product = kernel.document_features(topical, DOCS) @ kernel.query_features(topical, QUERY).T
    assert product.toarray().ravel() == pytest.approx(factor * plain, abs=1e-5)
    assert np.allclose(kernel.documents(topical, DOCS, DOCS), abs(factor) * BM25().documents(topical, DOCS, DOCS))


def test_sum(topical):
    kernel = 2 * BM25() + Dirichlet()
    expected = 2 * BM25().scores(topical, QUERY, DOCS) + Dirichlet().scores(topical, QUERY, DOCS)
    assert kernel.scores(topical, QUERY, DOCS) == pytest.approx(expected, rel=1e-6)
    features, row = kernel.document_features(topical, DOCS), kernel.query_features(topical, QUERY)
    assert features.shape[1] == row.shape[1] == kernel.width(topical) == 2 * len(topical.terms) + 1
    assert (features @ row.T).toarray().ravel() == pytest.approx(expected, abs=1e-5)
    gram = 2 * BM25().documents(topical, DOCS, DOCS) + Dirichlet().documents(topical, DOCS, DOCS)
    assert np.allclose(kernel.documents(topical, DOCS, DOCS), gram)
    assert np.allclose((features @ features.T).toarray(), gram)


def test_product_is_the_inner_product_of_tensor_features(topical):
    """The proof of Lemma 1.3, worked out: φ(x) is the outer product of the two maps."""
    kernel = BM25() * VSM()
    few = DOCS[:4]
    parts = [k.document_features(topical, few).toarray() for k in (BM25(), VSM())]
    rows = [k.query_features(topical, QUERY).toarray()[0] for k in (BM25(), VSM())]
    tensor = np.einsum("di,dj->dij", *parts).reshape(4, -1)
    expected = tensor @ np.einsum("i,j->ij", *rows).ravel()
    assert kernel.scores(topical, QUERY, few) == pytest.approx(expected, rel=1e-5)
    assert np.allclose(kernel.documents(topical, few, few), tensor @ tensor.T)
    assert kernel.has_map and kernel.wide and kernel.width(topical) == tensor.shape[1] == len(kernel.feature_terms(topical))
    assert kernel.document_features(topical, few).toarray() == pytest.approx(tensor)
    assert kernel.query_features(topical, QUERY).toarray() == pytest.approx(np.outer(*rows).reshape(1, -1))


class Unmapped(BM25):
    """Compares queries with documents, without a map."""

    has_map = False


def test_maps_that_are_not_explicit_are_refused_for_what_they_lack(topical):
    for kernel, reason in ((BM25() * RBF(), "compares documents only"), (BM25() * Unmapped(), "no explicit feature map")):
        assert not kernel.has_map
        with pytest.raises(OptionError, match=reason):
            kernel.query_features(topical, QUERY)
    with pytest.raises(OptionError, match="cosine: needs a kernel with a feature map"):
        Cosine(BM25() * VSM())
    with pytest.raises(OptionError, match="rbf: needs a kernel with a feature map"):
        RBF(base=BM25() * VSM())


def test_sums_commute_and_products_distribute(topical):
    a, b, c = BM25(), VSM(), Linear()
    assert (a + b).scores(topical, QUERY, DOCS) == pytest.approx((b + a).scores(topical, QUERY, DOCS))
    assert ((a + b) * c).scores(topical, QUERY, DOCS) == pytest.approx((a * c + b * c).scores(topical, QUERY, DOCS))


def test_compositions_of_kernels_stay_positive_semi_definite(topical):
    for kernel in (2 * BM25() + VSM(), BM25() * Cosine(), -1 * BM25() + RBF(), RBF() * BM25()):
        values = np.linalg.eigvalsh(kernel.documents(topical, DOCS, DOCS))
        assert values.min() >= -1e-8 * values.max()


def test_a_sum_with_a_document_kernel_compares_documents_only(topical):
    kernel = BM25() + RBF()
    assert not kernel.has_query and not kernel.has_map
    with pytest.raises(OptionError, match="compares documents only"):
        kernel.scores(topical, QUERY, DOCS)


def test_kernels_by_name():
    assert registry.make("bm25", {"k1": 2.0, "b": 0.75, "k3": None}) == BM25(k1=2.0, b=0.75)
    assert registry.kernel("2*bm25 + vsm") == 2 * BM25() + VSM()
    assert registry.kernel("bm25*cosine*0.5") == 0.5 * (BM25() * Cosine())
    assert str(registry.kernel("2*bm25+vsm")) == "2*bm25+vsm"


def test_parameters_are_said_in_parentheses():
    assert registry.kernel("bm25(k1=2,b=.75)+bm25( k3 = 1e1 )") == BM25(k1=2.0, b=0.75) + BM25(k3=10.0)
    assert registry.kernel("2*polynomial(bm25(b=0)*vsm, degree=3, offset=0)") == 2 * Polynomial(3, 0.0, BM25(b=0.0) * VSM())
    assert registry.kernel("bm25(k1=2)+dirichlet") == BM25(k1=2.0) + Dirichlet()
    assert isinstance(registry.kernel("polynomial(degree=3)").degree, int)


def test_parentheses_group_and_name_the_kernel_underneath():
    assert registry.kernel("(bm25+vsm)*cosine") == (BM25() + VSM()) * Cosine()
    assert registry.kernel("0.5*(bm25 + 2*(vsm))") == 0.5 * (BM25() + 2 * VSM())
    assert registry.kernel("cosine(bm25(k1=2))") == Cosine(BM25(k1=2.0))
    assert registry.kernel("rbf(bm25+vsm,gamma=.5)") == RBF(0.5, BM25() + VSM())
    assert str(2 * (BM25() + VSM())) == "2*(bm25+vsm)" and str(Cosine(BM25())) == "cosine(bm25)"


@pytest.mark.parametrize(
    "text, word",
    [
        ("bm26", "'bm26' is not one of linear"),
        ("bm25+", "'' is not one of"),
        ("2*3", r"'2\*3' names no kernel"),
        ("(bm25", "closing parenthesis"),
        ("bm25)", r"'\)' is not expected"),
        ("()", "'' is not one of"),
        ("vsm(bm25)", "takes no other kernel"),
        ("inf*bm25", "'inf' is not"),
        ("bm25(k9=1)", "bm25: no parameter 'k9'; it has k1, b, k3"),
        ("vsm(k1=1)", "vsm: no parameter 'k1'; it has none"),
        ("bm25(k1=x)", r"parameters of bm25 are NAME=NUMBER, each once, not 'k1=x'"),
        ("bm25(k1=1,k1=2)", "each once, not 'k1=2'"),
        ("rbf(gamma=1,bm25)", r"NAME=NUMBER, each once, not 'bm25\)'"),
        ("bm25(k1=1", "closing parenthesis"),
        ("bm25(k1=inf)", "not 'k1=inf'"),
        ("bm25(k1=-1)", r"k1 -1\.0 "),
        ("bm25,vsm", "',' is not expected"),
    ],
)
def test_unknown_names_are_refused(text, word):
    with pytest.raises(OptionError, match=word):
        registry.kernel(text)


def test_a_kernel_of_ones_own_can_be_registered(monkeypatch):
    monkeypatch.setattr(registry, "KERNELS", dict(registry.KERNELS))
    registry.register("flat", lambda **options: Linear())
    assert registry.kernel("flat+bm25") == Linear() + BM25()
    with pytest.raises(OptionError, match="letters"):
        registry.register("a+b", Linear)
