"""What the generators of docs/reproductions share."""

import numpy as np

from tools.reproduce.pages import risk


def test_risk_counts_changes_above_a_hundredth_and_sums_all_losses():
    assert risk(np.array([-0.3, -0.009, 0.0, 0.009, 0.02, 0.5, -0.1])) == "(2/2, 0.4)"
    assert risk(np.array([0.0, 0.4])) == "(0/1)"
