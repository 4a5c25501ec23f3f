"""Query likelihood in numpy gives Lucene's scores."""

import numpy as np
import pytest

from kernelsearch.core.types import Query
from kernelsearch.kernels import asymmetric, likelihood
from kernelsearch.lucene.models import DirichletModel, JelinekMercerModel


@pytest.mark.parametrize(
    "model", [DirichletModel(50.0), DirichletModel(1000.0), JelinekMercerModel(0.1), JelinekMercerModel(0.7)]
)
def test_term_parts_sum_to_lucene_scores(tiny, model):
    index = tiny.forward
    query = Query("", ("water", "washer", "panel", "unheardof"), (1.0, 2.5, 0.5, 1.0))
    result = tiny.lucene.search([query], 10, model=model)[0]
    assert result.depth == 3
    terms = index.term_ids(query.terms)
    if isinstance(model, DirichletModel):
        parts = likelihood.dirichlet_term_scores(index, terms, query.weights, result.docs, mu=model.mu)
    else:
        parts = likelihood.jelinek_mercer_term_scores(index, terms, query.weights, result.docs, lam=model.lam)
    np.testing.assert_allclose(parts.sum(axis=1), result.scores, rtol=1e-6)
    assert (parts >= 0).all() and (parts[:, 3] == 0).all()


def test_defaults_are_those_of_the_first_stage():
    assert (asymmetric.JelinekMercer().lam, asymmetric.Dirichlet().mu) == (JelinekMercerModel().lam, DirichletModel().mu)
