"""Risk and reward by the weight of an expansion: figures by hand, and the picture."""

import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.papers.risk_reward import plot_risk_reward, relative_gain, risk_point, risk_reward_curve

BEFORE = [0.5, 0.2, 0.4, 0.1]
AFTER = [0.3, 0.6, 0.4, 0.2]


def test_gain_is_relative_to_the_mean_of_the_baseline():
    assert relative_gain(BEFORE, AFTER) == pytest.approx(0.3 / 1.2)


def test_curve_starts_at_the_origin():
    curve = risk_reward_curve([0.0, 0.5], BEFORE, [BEFORE, AFTER], relevant_before=[3] * 4, relevant_after=[[3] * 4, [1] * 4])
    assert (curve[0].gain, curve[0].hurt, curve[0].lost, curve[0].r_loss, curve[0].trisk) == (0.0, 0, 0.0, 0, 0.0)
    assert (curve[1].alpha, curve[1].hurt, curve[1].r_loss) == (0.5, 1, 2)
    assert risk_point(BEFORE, AFTER).r_loss is None


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures_are_drawn(tmp_path, suffix):
    curve = risk_reward_curve([0.0, 0.5], BEFORE, [BEFORE, AFTER])
    for panels in ({"one": {"a": curve}}, {"one": {"a": curve}, "two": {"a": curve, "b": curve}}):
        plot_risk_reward(panels, tmp_path / f"curve.{suffix}", risk="hurt", columns=3)
        if suffix == "svg":
            drawn = (tmp_path / "curve.svg").read_text(encoding="utf-8")
            assert all(f"<!-- {name} -->" in drawn for name in panels)
        else:
            assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_unknown_risk_axis_is_refused(tmp_path):
    with pytest.raises(OptionError, match="'fear' is not one of hurt"):
        plot_risk_reward({}, tmp_path / "x.png", risk="fear")
