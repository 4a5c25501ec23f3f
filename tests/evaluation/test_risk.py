"""Risk figures against values computed by hand, their limits, and the plots."""

import numpy as np
import pytest
from scipy import stats

from kernelsearch.core.errors import InputError
from kernelsearch.core.types import Candidates
from kernelsearch.evaluation import risk
from kernelsearch.evaluation.rows import JudgedRows

BEFORE = [0.5, 0.2, 0.4, 0.1]
AFTER = [0.3, 0.6, 0.4, 0.2]


def test_counts_by_hand():
    assert (risk.helped(BEFORE, AFTER), risk.hurt(BEFORE, AFTER)) == (2, 1)
    assert risk.lost(BEFORE, AFTER) == pytest.approx(0.2)


def test_nothing_lost_is_printed_without_a_sign():
    assert f"{risk.lost([0.5, 0.5], [0.6, 0.5]):.2f}" == "0.00"


def test_rounding_is_no_change():
    assert risk.hurt([0.3], [0.3 - 1e-12]) == risk.helped([0.3], [0.3 + 1e-12]) == 0


def test_r_loss_counts_the_hurt_queries_only_and_is_net():
    # The first query is hurt and loses three; the second is helped, so that its loss of five doesn't count.
    assert risk.r_loss(BEFORE, AFTER, [10, 9, 8, 7], [7, 4, 8, 7]).sum() == 3
    assert risk.r_loss(BEFORE, AFTER, [10, 0, 0, 0], [12, 0, 0, 0]).sum() == -2


def test_urisk_by_hand():
    assert risk.urisk(BEFORE, AFTER, 0.0) == pytest.approx(np.mean(AFTER) - np.mean(BEFORE))
    assert risk.urisk(BEFORE, AFTER, 1.0) == pytest.approx((-0.4 + 0.4 + 0.0 + 0.1) / 4)


def test_trisk_without_aversion_is_the_paired_t_statistic():
    rng = np.random.default_rng(0)
    before, after = rng.random(30), rng.random(30)
    assert risk.trisk(before, after, 0.0) == pytest.approx(stats.ttest_rel(after, before).statistic)
    assert risk.trisk(before, after, 5.0) < risk.trisk(before, after, 0.0)


def test_trisk_limits():
    assert risk.trisk(BEFORE, BEFORE) == 0.0
    assert risk.trisk([0.1, 0.2], [0.2, 0.3]) == np.inf
    assert risk.trisk([0.2, 0.3], [0.1, 0.2]) == -np.inf


def test_georisk_by_hand():
    # Two systems, two queries: sums 1 and 1 by row, 1 and 1 by column, so that .5 is expected everywhere.
    table = [[0.6, 0.4], [0.4, 0.6]]
    z = 0.1 / np.sqrt(0.5)
    expected = np.sqrt(0.5 * stats.norm.cdf((z - 2 * z) / 2))
    np.testing.assert_allclose(risk.georisk(table, alpha=1.0), [expected, expected])


def test_georisk_prefers_the_system_that_fails_less():
    even, uneven = [0.5, 0.5, 0.5, 0.5], [0.98, 0.98, 0.02, 0.02]
    scores = risk.georisk([even, uneven, [0.4, 0.5, 0.4, 0.5]], alpha=5.0)
    assert scores[0] > scores[1]


def test_bad_tables_are_refused():
    with pytest.raises(InputError, match="systems by queries"):
        risk.georisk([[-0.1, 0.2]])
    with pytest.raises(InputError, match="one per query each"):
        risk.hurt([0.1, 0.2], [0.1])


def test_rows_measures_by_hand(tiny):
    index = tiny.forward
    judged = JudgedRows(index, {"1": {"d1": 1, "d3": 2, "d5": 0, "gone": 1}, "2": {}}, ["1", "2"])
    result = Candidates(index.rows_of(["d1", "d5", "d3"]), np.array([3.0, 2.0, 1.0]))
    np.testing.assert_allclose(judged.average_precision([result, result]), [(1 + 2 / 3) / 3, 0.0])
    assert judged.retrieved([result, result]).tolist() == [2, 0]
    assert judged.retrieved([result, result], 2).tolist() == [1, 0]
