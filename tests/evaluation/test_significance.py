import itertools

import numpy as np
import pytest
from scipy import stats

from kernelsearch.core.errors import OptionError
from kernelsearch.evaluation.significance import bootstrap_interval, corrected, p_value, paired_t, randomisation, wilcoxon

GAINS = np.random.default_rng(7).normal(0.05, 0.2, size=40).round(3)


def test_t_and_wilcoxon_are_scipys_on_pairs():
    before = np.random.default_rng(8).uniform(size=40)
    assert paired_t(GAINS) == pytest.approx(stats.ttest_rel(before + GAINS, before).pvalue)
    assert wilcoxon(GAINS) == pytest.approx(stats.wilcoxon(GAINS).pvalue)


def test_exact_randomisation_by_hand():
    # Signs of (1, 2, 3): |sum| >= 6 only for +++ and ---, two of eight.
    assert randomisation([1, 2, 3]) == 0.25
    # (1, 2, -3): sums are 0, so every sign is at least as far out.
    assert randomisation([1, 2, -3]) == 1.0


def test_exact_randomisation_enumerates_all_signs():
    gains = GAINS[:10]
    sums = [abs(np.dot(signs, gains)) for signs in itertools.product([1, -1], repeat=10)]
    expected = np.mean(np.array(sums) >= abs(gains.sum()) - 1e-9)
    assert randomisation(gains) == pytest.approx(expected)


def test_random_randomisation_is_near_scipys_and_seeded():
    theirs = stats.permutation_test(
        (GAINS,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(0)
    ).pvalue
    ours = randomisation(GAINS, rounds=20_000, seed=3)
    assert ours == pytest.approx(theirs, abs=4 * np.sqrt(theirs * (1 - theirs) / 20_000))
    assert randomisation(GAINS, rounds=20_000, seed=3) == ours
    assert randomisation(GAINS, rounds=20_000, seed=4) != ours


@pytest.mark.parametrize("test", ["t", "wilcoxon", "randomisation"])
def test_no_difference_is_no_evidence(test):
    assert p_value(test, np.zeros(12)) == 1.0


def test_the_same_gain_everywhere():
    assert paired_t(np.full(9, 0.1)) == 0.0


def test_holm_and_bonferroni_by_hand():
    p = [0.01, 0.04, 0.03, 0.005]
    # ascending .005 x4, .01 x3, .03 x2, .04 x1 -> .02, .03, .06, then .04 rises to .06
    assert corrected(p, "holm") == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert corrected(p, "bonferroni") == pytest.approx([0.04, 0.16, 0.12, 0.02])
    assert corrected(p, "none") == p
    assert corrected([0.6, 0.7], "holm") == [1.0, 1.0]
    assert corrected([], "holm") == []
    with pytest.raises(OptionError, match="correction: 'x' is not one of holm"):
        corrected(p, "x")


def test_bootstrap_is_scipys_percentile_interval():
    theirs = stats.bootstrap((GAINS,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1))
    low, high = bootstrap_interval(GAINS, rounds=20_000, seed=2)
    error = GAINS.std() / np.sqrt(len(GAINS))
    assert low == pytest.approx(theirs.confidence_interval.low, abs=0.05 * error)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=0.05 * error)
    assert bootstrap_interval(GAINS, seed=2) == bootstrap_interval(GAINS, seed=2)
    assert bootstrap_interval([0.5, 0.5]) == (0.5, 0.5)
