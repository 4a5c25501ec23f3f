"""Queries far from all training queries: when an input ranks them, by the definition and on cases worked out by hand."""

import numpy as np
import pytest

from kernelsearch.learning.ranking.far_queries import find_far_queries

QUERIES = 40


def find(nearness, choice="net", inputs=("first", "auto"), **aps):
    """What is found for candidates with this AP of every query as it is and as unrelated, shape (2, QUERIES) each."""
    values = {name: np.broadcast_to(np.asarray(ap, dtype=float), (2, QUERIES)) for name, ap in aps.items()}
    cases = [{name: ap[case] for name, ap in values.items()} for case in (0, 1)]
    return find_far_queries(cases, nearness, choice, inputs, 0.5)


#: The nearest training query of the first half of the queries has a cosine of .8, that of the others .2; unrelated ones .2.
NEARNESS = np.array([[0.8] * 20 + [0.2] * 20, [0.2] * 40])
RELATED = NEARNESS > 0.5


def test_an_input_ranks_far_queries_where_it_is_better_there():
    """The learner has .9 on near queries and .4 on far ones, where `auto` has .5 everywhere and the first stage .45."""
    found = find(NEARNESS, first=0.45, auto=0.5, net=np.where(RELATED, 0.9, 0.4))
    assert (found.far, found.near) == ("auto", "net")
    assert found.limit == 0.25  # the lowest limit that divides them
    assert found.scores == pytest.approx(((0.9 + 0.5) / 2, 0.5))


def test_the_learner_for_near_queries_may_be_another_than_that_for_all():
    aps = {"first": 0.1, "auto": 0.5, "net": np.where(RELATED, 0.8, 0.45), "sharp": np.where(RELATED, 0.95, 0.1)}
    assert find(NEARNESS, **aps).near == "sharp"


@pytest.mark.parametrize(
    ("aps", "choice"),
    [
        ({"auto": 0.5, "net": 0.9}, "net"),  # the learner is better everywhere
        ({"auto": 0.95, "net": np.where(RELATED, 0.9, 0.4)}, "auto"),  # the input is better everywhere
        ({"auto": 0.5, "net": np.where(RELATED, 0.5, 0.4)}, "auto"),  # near, the learner gains nothing
    ],
)
def test_one_candidate_ranks_all_queries_if_it_is_the_best_of_both_groups(aps, choice):
    assert find(NEARNESS, choice, first=0.1, **aps) is None


@pytest.mark.parametrize(("gain", "expected"), [(0.02, False), (0.06, True)])
def test_a_gain_must_exceed_one_and_a_half_standard_errors(gain, expected):
    """The gain over the learner's AP on far queries: 0 on near ones, else `gain` ± .2 by turns.

    Each of the 20 far queries counts twice with the same sign; the others once: mean 3/4 gain, standard error about .026.
    """
    signs = np.where(np.arange(QUERIES) % 2, 0.2, -0.2)
    aps = {"first": 0.1, "auto": np.where(RELATED, 0.3, 0.4 + gain + signs), "net": np.where(RELATED, 0.9, 0.4)}
    change = np.where(RELATED, 0, gain + signs).mean(axis=0)
    assert (change.mean() > 1.5 * change.std(ddof=1) / np.sqrt(QUERIES)) == expected
    assert (find(NEARNESS, **aps) is not None) == expected


@pytest.mark.parametrize(("near", "divided"), [(19, False), (20, True)])
def test_few_queries_on_one_side_decide_nothing(near, divided):
    """A query counts half as it is and half as unrelated: ten queries are twenty halves."""
    nearness = np.full((2, QUERIES), 0.2)
    nearness[0, :near] = 0.8
    found = find(nearness, first=0.1, auto=0.5, net=np.where(nearness > 0.5, 0.9, 0.45))
    assert (found is not None) == divided


def test_without_inputs_there_is_nothing_to_rank_far_queries_by():
    assert find(NEARNESS, inputs=(), first=0.1, auto=0.5, net=np.where(RELATED, 0.9, 0.4)) is None


def test_the_gain_is_over_the_single_choice_and_not_over_the_learner_of_near_queries():
    """Near, `sharp` and `net`, the choice for all queries, both have .95; far, `auto` and `net` have .5."""
    aps = {"first": 0.1, "auto": 0.5, "sharp": np.where(RELATED, 0.95, 0.1), "net": np.where(RELATED, 0.95, 0.5)}
    assert find(NEARNESS, **aps) is None


def test_the_input_is_the_best_one_of_far_queries():
    """On all queries the first stage is the better input, on far ones `auto` is."""
    aps = {"first": np.where(RELATED, 0.8, 0.45), "auto": np.where(RELATED, 0.1, 0.5), "net": np.where(RELATED, 0.9, 0.2)}
    assert find(NEARNESS, **aps).far == "auto"


@pytest.mark.parametrize(
    ("far", "near", "limit"), [(0.07, 0.12, 0.1), (0.87, 0.92, 0.9), (0.05, 0.09, None), (0.92, 0.97, None)]
)
def test_limits_are_from_a_tenth_to_nine_tenths(far, near, limit):
    nearness = np.where(RELATED, near, far)
    found = find(nearness, first=0.1, auto=0.5, net=np.where(RELATED, 0.9, 0.4))
    assert (found.limit if found else None) == limit
