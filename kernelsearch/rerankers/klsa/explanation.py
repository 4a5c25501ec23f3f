"""Why `klsa` ranks a document where it does: the documents that pulled it up and the latent dimensions they share; a map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.plots.figures import new_figure, save_figure
from kernelsearch.rerankers.base import Context, Contribution, Explanation

if TYPE_CHECKING:
    from kernelsearch.rerankers.klsa.reranker import KernelLSA

SHOWN_DOCUMENTS = 10
SHOWN_DIMENSIONS = 4
#: Documents of the map: of the list, and of the collection behind it.
MAPPED, BEHIND = 50, 300
#: Values of z at which the query's place is told.
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def explain(method: KernelLSA, query: Query, candidates: Candidates, doc: int, context: Context) -> Explanation:
    """The smoothed score of a document, taken apart by top-z document and, within each, by latent dimension."""
    known = method.query_scores(query, candidates)
    place = np.flatnonzero(candidates.docs == doc)
    if len(place):
        own = float(known[place[0]])
    else:
        own = float(method.outside(query, candidates, np.array([doc], dtype=np.int32), context)[0])
    weight = method.settings.lambda_
    best = method.top(known)
    pulls = method.basis.rows[candidates.docs[best], : method.dims].astype(np.float64)
    pulls *= weight * known[best].astype(np.float64)[:, None]
    pulls *= method.basis.rows[doc, : method.dims].astype(np.float64)
    totals = pulls.sum(axis=1)
    order = np.argsort(-np.abs(totals), kind="stable")
    parts = [
        _through(method, candidates, int(best[row]), doc, float(known[best[row]]), pulls[row])
        for row in order[:SHOWN_DOCUMENTS]
    ]
    if len(order) > SHOWN_DOCUMENTS:
        rest = float(totals[order[SHOWN_DOCUMENTS:]].sum())
        parts.append(Contribution(f"through {len(order) - SHOWN_DOCUMENTS} other documents", rest))
    latent = Contribution("like the best documents", float(totals.sum()), f"λ {weight:g}, z {method.settings.z}", tuple(parts))
    lexical = Contribution("own score", (1 - weight) * own, f"(1 - λ) × k_q {own:.4f}")
    notes: dict[str, Any] = {
        "dimensions": method.dims,
        "held": float(np.square(method.basis.rows[doc, : method.dims].astype(np.float64)).sum()),
        "retrieved": not len(place),
    }
    if method.basis.dims >= 2:
        notes["map"] = latent_map(method, query, candidates, doc, context)
    score = latent.value + lexical.value
    return Explanation(method.name, method.index.forward.docids[doc], score, (latent, lexical), notes)


def _through(
    method: KernelLSA, candidates: Candidates, place: int, doc: int, score: float, pull: NDArray[np.float64]
) -> Contribution:
    """What one of the top-z documents gave, by the latent dimensions that it shares with the document."""
    source = int(candidates.docs[place])
    strongest = np.argsort(-np.abs(pull), kind="stable")[:SHOWN_DIMENSIONS]
    parts = [
        Contribution(
            f"dimension {dimension + 1}", float(pull[dimension]), ", ".join(method.basis.strongest_terms(int(dimension)))
        )
        for dimension in strongest
    ]
    if len(pull) > len(strongest):
        parts.append(Contribution("other dimensions", float(pull.sum() - pull[strongest].sum())))
    name = "itself" if source == doc else method.index.forward.docids[source]
    return Contribution(f"through {name}", float(pull.sum()), f"rank {place + 1}, k_q {score:.4f}", tuple(parts))


def latent_map(method: KernelLSA, query: Query, candidates: Candidates, doc: int, context: Context) -> dict[str, Any]:
    """The picture of `plot` as plain data: the list's documents in two dimensions, some others, and the query's places."""
    ranked = method.apply(query, candidates, context).docs
    listed = list(dict.fromkeys([*ranked[:MAPPED].tolist(), doc]))
    ranks = [int(np.flatnonzero(ranked == row)[0]) + 1 if row in ranked else None for row in listed]
    others = np.random.default_rng(0).permutation(len(method.basis.rows))[:BEHIND]
    steps, places = query_places(method, query, candidates)
    used = min(method.settings.z, len(places))
    return {
        "axes": [list(method.basis.strongest_terms(dimension)) for dimension in range(2)],
        "documents": [
            {"docid": docid, "rank": rank, "x": x, "y": y}
            for docid, rank, (x, y) in zip(
                method.index.forward.docids.take(listed), ranks, _rounded(_plane(method, listed)), strict=True
            )
        ],
        "background": _rounded(_plane(method, others)),
        "z": used,
        "path": [
            {"z": z, "x": x, "y": y} for z, (x, y) in ((z, _rounded(places[z - 1 : z])[0]) for z in sorted({*steps, used}))
        ],
    }


def _plane(method: KernelLSA, docs: Any = slice(None)) -> NDArray[np.float32]:
    """Documents in the first two latent dimensions, shape (documents, 2)."""
    return method.basis.rows[docs, :2] * method.basis.values[:2].astype(np.float32)


def _rounded(points: NDArray[np.floating]) -> list[list[float]]:
    """Six digits are more than a picture shows."""
    return [[float(f"{value:.6g}") for value in point] for point in points.tolist()]


def query_places(method: KernelLSA, query: Query, candidates: Candidates) -> tuple[list[int], NDArray[np.float64]]:
    """Steps of z, and for every z from 1 the mean of the top-z documents weighted by their scores, shape (candidates, 2)."""
    known = method.query_scores(query, candidates).astype(np.float64)
    order = np.argsort(-known, kind="stable")
    weights = np.maximum(known[order], 0)
    sums = np.cumsum(weights[:, None] * _plane(method, candidates.docs[order]), axis=0)
    return [z for z in STEPS if z <= len(order)], sums / np.maximum(np.cumsum(weights), 1e-12)[:, None]


def plot(method: KernelLSA, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context) -> None:
    """Documents in the first two latent dimensions, and the query's way through them as z grows."""
    if method.basis.dims < 2:
        raise OptionError("--plot: the basis has one dimension only; two are drawn")
    figure = new_figure(8.5, 6)
    axes: Any = figure.add_subplot()
    plane = _plane(method)
    shown = np.random.default_rng(0).permutation(len(plane))[:4000]
    axes.scatter(
        plane[shown, 0], plane[shown, 1], s=4, color="0.82", linewidths=0, label="documents", zorder=1, rasterized=True
    )
    listed = candidates.docs[:100]
    axes.scatter(
        *plane[listed].T, s=14, color="#7aa6c2", linewidths=0, label=f"first {len(listed)} of the first stage", zorder=2
    )
    ranked = method.apply(query, candidates, context)
    marked = list(dict.fromkeys([*([doc] if doc is not None else []), *ranked.docs[:8].tolist()]))
    axes.scatter(plane[marked, 0], plane[marked, 1], s=26, color="#c8553d", linewidths=0, label="first 8 after klsa", zorder=3)
    _draw_path(axes, method, query, candidates)
    _label(axes, plane[marked], method.index.forward.docids.take(marked), emphasised=0 if doc is not None else None)
    for axis, dimension in ((axes.set_xlabel, 0), (axes.set_ylabel, 1)):
        axis(f"dimension {dimension + 1}: " + ", ".join(method.basis.strongest_terms(dimension)))
    axes.set_title(query.text if len(query.text) <= 90 else query.text[:87] + "...", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, frameon=False, fontsize=8)
    save_figure(figure, path)


def _draw_path(axes: Any, method: KernelLSA, query: Query, candidates: Candidates) -> None:
    """The query's place for z = 1, 2, 5, ..."""
    steps, places = query_places(method, query, candidates)
    path = places[np.array(steps) - 1]
    axes.plot(
        path[:, 0], path[:, 1], color="black", linewidth=1, marker="o", markersize=3, label="query's place as z grows", zorder=4
    )
    used = min(method.settings.z, len(places))
    chosen = places[used - 1]
    axes.scatter([chosen[0]], [chosen[1]], marker="*", s=150, color="#e3b505", edgecolors="black", linewidths=0.7, zorder=5)
    halo = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    for z in sorted({1, used, steps[-1]}):
        axes.annotate(
            f"query, z = {z}" if z == used else f"z = {z}",
            places[z - 1],
            xytext=(7, 9),
            textcoords="offset points",
            fontsize=8,
            weight="bold" if z == used else "normal",
            bbox=halo,
            zorder=6,
        )


def _label(axes: Any, points: NDArray[np.float32], names: list[str], emphasised: int | None) -> None:
    """Names in a column at the right edge, in the order of their height, each with a line to its point: they never overlap."""
    low, high = axes.get_ylim()
    _, right = axes.get_xlim()
    order = np.argsort(points[:, 1])
    slots = np.linspace(0.12, 0.88, len(names)) * (high - low) + low
    for slot, number in zip(slots, order, strict=True):
        axes.annotate(
            names[number] if len(names[number]) <= 24 else names[number][:23] + "…",
            xy=points[number],
            xytext=(right, slot),
            fontsize=8,
            va="center",
            weight="bold" if number == emphasised else "normal",
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.5, "shrinkB": 3},
            annotation_clip=False,
        )
