"""The bar plot of a fusion: what each feature gave to a document, and how much it counts overall."""

from __future__ import annotations

from pathlib import Path

from kernelsearch.core.errors import OptionError
from kernelsearch.rerankers.base import Explanation


def draw(explanation: Explanation, title: str, path: Path) -> None:
    """Writes a PNG or SVG: contributions on the left, importance on the right, one row a feature."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError("--plot: needs matplotlib; pip install kernelsearch[plots]") from None
    parts = list(reversed(explanation.contributions))
    labels = [part.label for part in parts]
    importance = explanation.notes["importance"]
    figure = Figure(figsize=(9, 1.6 + 0.24 * len(parts)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    left.barh(labels, [part.value for part in parts], color=["#7aa6c2" if part.value >= 0 else "#c8553d" for part in parts])
    left.axvline(0, color="0.3", linewidth=0.8)
    left.set_xlabel(f"part of {explanation.docid}'s score {explanation.score:.2f}")
    right.barh(labels, [importance[label] for label in labels], color="0.65")
    right.set_xlabel("importance overall")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0, labelsize=8)
    figure.suptitle(title if len(title) <= 90 else title[:87] + "...", fontsize=11)
    # No date and no random ids: the same picture is the same file.
    with matplotlib.rc_context({"svg.hashsalt": "kernelsearch"}):
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix.lower() == ".svg" else {})
