"""The section on few training topics of fusion's page."""

import json

from tools.reproduce import fusion_few


def test_cells_are_means_over_draws_of_auto_fusion_and_new_topics(tmp_path):
    assert fusion_few.few_section(tmp_path) == ""
    (tmp_path / "results").mkdir()
    for name, offset in (("cran", 0.0), ("npl", 0.1)):
        draws = [{"auto": value + offset, "fusion": 0.3, "as new": -0.02} for value in (0.1, 0.2, 0.3)]
        gains = {str(size): draws for size in fusion_few.TOPICS}
        (tmp_path / "results" / f"few-{name}.json").write_text(json.dumps(gains))
    row = "| 15 (12) | +20.0 / +30.0 / -2.0 | +30.0 / +30.0 / -2.0 | +25.0 / +30.0 / -2.0 | 1 / 6 of 6 |"
    assert row in fusion_few.few_section(tmp_path).splitlines()
