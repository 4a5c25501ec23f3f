"""The expansion program: optimality conditions and the roles of its settings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelsearch.kernels.perturbation import distances, gram, similarity
from kernelsearch.learning.programs.expansion import ExpansionProgram


def problem(words, seed):
    generator = np.random.default_rng(seed)
    apart = distances(gram(generator.standard_normal((words, 3))))
    return generator.uniform(0, 1, words), similarity(apart), apart


def solve(program, relevance, similar, apart, query_terms):
    return program.solve(relevance, program.quadratic(similar, apart, query_terms), query_terms)


@given(st.integers(1, 25), st.integers(0, 10_000), st.sampled_from([0.01, 0.3, 3.0]))
def test_box_solution_satisfies_the_kkt_conditions(words, seed, risk):
    relevance, alike, apart = problem(words, seed)
    program = ExpansionProgram(risk=risk)
    queried = min(2, words)
    x = solve(program, relevance, alike, apart, queried)
    lower = np.where(np.arange(words) < queried, program.support, 0.0)
    assert (x >= lower).all() and (x <= 1).all()
    gradient = program.quadratic(alike, apart, queried) @ x - relevance
    assert gradient[x < 1 - 1e-10].min(initial=0) > -1e-8 and gradient[x > lower + 1e-10].max(initial=0) < 1e-8


def test_words_that_all_coincide_still_have_an_optimum():
    relevance = np.array([0.9, 0.4, 0.2])
    x = solve(ExpansionProgram(risk=0.5, support=0.0), relevance, np.ones((3, 3)), np.zeros((3, 3)), 1)
    np.testing.assert_allclose(x, [1.0, 0.0, 0.0], atol=1e-9)  # .5 x'11'x/2 - c'x: the best word alone, up to its bound


def test_no_risk_takes_every_relevant_word():
    relevance, alike, apart = problem(6, 1)
    np.testing.assert_array_equal(solve(ExpansionProgram(risk=0.0), relevance, alike, apart, 2), np.ones(6))


def test_more_risk_aversion_adds_fewer_words():
    relevance, alike, apart = problem(20, 4)
    added = [solve(ExpansionProgram(risk=risk), relevance, alike, apart, 2)[2:].sum() for risk in (0.01, 0.1, 0.5, 2.0)]
    assert added == sorted(added, reverse=True) and added[-1] < added[0] / 3


def test_strangeness_is_relative_to_the_mean_distance():
    """κ (S + γ diag(r)): r is the mean distance to the two query terms over its mean, (1 + 1 + 4 + 5) / 4."""
    apart = np.array([[0.0, 2, 5, 4], [2, 0, 3, 6], [5, 3, 0, 9], [4, 6, 9, 0]])
    quadratic = ExpansionProgram(risk=0.5, strangeness=0.6).quadratic(np.eye(4), apart, 2)
    assert quadratic == pytest.approx(0.5 * np.diag(1 + 0.6 * np.array([1, 1, 4, 5]) / 2.75))
    assert ExpansionProgram(risk=0.5).quadratic(np.eye(4), np.zeros((4, 4)), 2) == pytest.approx(0.5 * np.eye(4))
    assert ExpansionProgram(risk=0.5).quadratic(np.eye(4), apart, 0) == pytest.approx(0.5 * np.eye(4))


def test_the_unit_of_the_objective_does_not_matter():
    """κ and the gains in another unit: the same words are chosen, not the first guess."""
    relevance, alike, apart = problem(20, 4)
    expected = solve(ExpansionProgram(risk=2.0), relevance, alike, apart, 2)
    assert expected[2:].max() < 1
    for unit in (1e-10, 1e10):
        x = solve(ExpansionProgram(risk=2.0 * unit), unit * relevance, alike, apart, 2)
        np.testing.assert_allclose(x, expected, atol=1e-9)
