"""The bar plot of a fusion: each feature's part of a document's score, and its importance in the model."""

from __future__ import annotations

from pathlib import Path

from kernelsearch.plots.figures import new_figure, save_figure
from kernelsearch.rerankers.explanations import Explanation


def plot(explanation: Explanation, title: str, path: Path) -> None:
    """Draws `explanation` as the PNG or SVG file `path`: contributions on the left, importance on the right, `title` above."""
    parts = list(reversed(explanation.contributions))
    labels = [part.label for part in parts]
    importance = explanation.notes["importance"]
    figure = new_figure(9, 1.6 + 0.24 * len(parts))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    left.barh(labels, [part.value for part in parts], color=["#7aa6c2" if part.value >= 0 else "#c8553d" for part in parts])
    left.axvline(0, color="0.3", linewidth=0.8)
    left.set_xlabel(f"part of {explanation.docid}'s score {explanation.score:.2f}")
    right.barh(labels, [importance.get(label, 0.0) for label in labels], color="0.65")
    right.set_xlabel("importance in the model")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0, labelsize=8)
    figure.suptitle(title if len(title) <= 90 else title[:87] + "...", fontsize=11)
    save_figure(figure, path, dpi=110)
