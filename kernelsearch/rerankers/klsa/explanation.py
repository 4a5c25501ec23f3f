"""Why `klsa` ranks a document where it does: the top-z documents that it is similar to and the latent dimensions they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import Context, position
from kernelsearch.rerankers.explanations import Contribution, Document, Explanation, Symbol, Text, feedback_note

if TYPE_CHECKING:
    from kernelsearch.rerankers.klsa.reranker import KernelLSA

#: Top-z documents listed, and latent dimensions listed per document; the others are summed up in one line.
SHOWN_DOCUMENTS = 10
SHOWN_DIMENSIONS = 4
#: Documents in the map: from the list, and drawn at random from the collection as background.
LISTED_DOCUMENTS, BACKGROUND_DOCUMENTS = 50, 300
#: Values of z at which the query's position in the latent space is given.
Z_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def explain(reranker: KernelLSA, query: Query, candidates: Candidates, doc: int, context: Context) -> Explanation:
    """The smoothed score of the document in row `doc`, split by top-z document and, within each, by latent dimension.

    The notes hold the dimensions used, the share of the document that they hold, whether klsa retrieved it, and the map.
    `reranker` has the basis; the other parameters are those of `Reranker.explain`.
    """
    located = reranker.locate(query, candidates)
    query_scores, scale = located.query_scores, located.scale
    place = position(candidates, doc)
    if place is not None:
        own, inner = float(query_scores[place]), float(located.latent[place])
    else:
        rows = np.array([doc], dtype=np.int32)
        own = float(reranker.outside(query, candidates, rows, context)[0])
        inner = float(reranker.latent(located.vector, rows)[0])
    weight = reranker.weight
    top = reranker.top(query_scores)
    shares = reranker.document_weights(query_scores[top]).astype(np.float64)
    parts = reranker.coordinates(candidates.docs[top]).astype(np.float64)
    parts *= weight / scale.latent_deviation * shares[:, None]
    parts *= reranker.targets(np.array([doc]))[0].astype(np.float64)
    value = weight * inner / scale.latent_deviation
    parts.flat[np.abs(parts).argmax()] += value - parts.sum()  # the list's scores are in single precision
    totals = parts.sum(axis=1)
    order = np.argsort(-np.abs(totals), kind="stable")
    contributions = [
        _through(reranker, candidates, int(top[row]), doc, float(query_scores[top[row]]), parts[row])
        for row in order[:SHOWN_DOCUMENTS]
    ]
    if len(order) > SHOWN_DOCUMENTS:
        rest = float(totals[order[SHOWN_DOCUMENTS:]].sum())
        contributions.append(Contribution(f"through {len(order) - SHOWN_DOCUMENTS} other documents", rest))
    z = "auto" if reranker.automatic else reranker.z
    detail = Symbol(f"λ {weight:g}, z {z}", f"share of the latent score (λ) {weight:g}, neighbours (z) {z}")
    latent = Contribution("like the best documents", value, detail, tuple(contributions))
    lexical = Contribution(
        Symbol("own score", "its own match with the query"),
        (1 - weight) * own / scale.score_deviation,
        _query_score(reranker, own, "(1 - λ) × k_q", "the rest of the score;"),
    )
    all_parts = [latent, lexical]
    if reranker.automatic:
        means = weight * scale.latent_mean / scale.latent_deviation + (1 - weight) * scale.score_mean / scale.score_deviation
        all_parts.append(Contribution("mean of the candidates", -means, "subtracted by the z-scores"))
    notes: dict[str, Any] = {
        "dimensions": reranker.dims,
        "held": float(np.square(reranker.basis.rows[doc, : reranker.dims].astype(np.float64)).sum()),
        "retrieved": place is None,
    }
    if reranker.automatic:
        notes["feedback"] = feedback_note(reranker.index.forward, candidates.docs[top], shares)
    if reranker.basis.dims >= 2:
        notes["map"] = latent_map(reranker, query, candidates, doc, context)
    score = sum(part.value for part in all_parts)
    return Explanation(reranker.name, reranker.index.forward.docids[doc], score, tuple(all_parts), notes)


def _through(
    reranker: KernelLSA, candidates: Candidates, place: int, doc: int, score: float, parts: NDArray[np.float64]
) -> Contribution:
    """What one of the top-z documents contributes, by the latent dimensions (`parts`) that it shares with the document."""
    source = int(candidates.docs[place])
    strongest = np.argsort(-np.abs(parts), kind="stable")[:SHOWN_DIMENSIONS]
    contributions = [
        Contribution(f"dimension {dimension + 1}", float(parts[dimension]), _terms(reranker, int(dimension)))
        for dimension in strongest
    ]
    if len(parts) > len(strongest):
        contributions.append(Contribution("other dimensions", float(parts.sum() - parts[strongest].sum())))
    name = "itself" if source == doc else Document(reranker.index.forward.docids[source])
    detail = Text(f"rank {place + 1}, ", _query_score(reranker, score))
    return Contribution(Text("through ", name), float(parts.sum()), detail, tuple(contributions))


def _terms(reranker: KernelLSA, dimension: int) -> Text:
    """The strongest terms of a dimension, with their signs."""
    return Text.joined(", ", (Text(sign, term) for sign, term in reranker.basis.strongest_terms(dimension)))


def _query_score(reranker: KernelLSA, score: float, symbols: str = "k_q", meaning: str = "score") -> Symbol:
    """k_q of a document for a detail, with its origin where that is not the first stage."""
    origin = reranker.score_origin
    symbol = f"{symbols} {score:.4f}"
    return Symbol(
        f"{symbol} of {origin}" if origin else symbol,
        f"{meaning} {score:.4f} {f'by {origin}' if origin else 'in the first stage'}",
    )


def latent_map(reranker: KernelLSA, query: Query, candidates: Candidates, doc: int, context: Context) -> dict[str, Any]:
    """The picture of `plot` as plain data: listed documents in two dimensions, some others, and the query's path as z grows.

    The parameters are those of `explain`.
    """
    ranked = reranker.apply(query, candidates, context).docs
    listed = list(dict.fromkeys([*ranked[:LISTED_DOCUMENTS].tolist(), doc]))
    ranks = [int(np.flatnonzero(ranked == row)[0]) + 1 if row in ranked else None for row in listed]
    others = np.random.default_rng(0).permutation(len(reranker.basis.rows))[:BACKGROUND_DOCUMENTS]
    steps, positions = query_path(reranker, query, candidates)
    used = min(reranker.z, len(positions))
    return {
        "axes": [
            [{"term": term, "opposite": bool(sign)} for sign, term in reranker.basis.strongest_terms(dimension)]
            for dimension in range(2)
        ],
        "documents": [
            {"docid": Document(docid), "rank": rank, "x": x, "y": y}
            for docid, rank, (x, y) in zip(
                reranker.index.forward.docids.take(listed), ranks, _rounded(plane(reranker, listed)), strict=True
            )
        ],
        "background": _rounded(plane(reranker, others)),
        "z": used,
        "path": [
            {"z": z, "x": x, "y": y} for z, (x, y) in ((z, _rounded(positions[z - 1 : z])[0]) for z in sorted({*steps, used}))
        ],
    }


def plane(reranker: KernelLSA, docs: NDArray[np.integer] | Sequence[int] | None = None) -> NDArray[np.float32]:
    """The rows `docs` of the basis of `reranker`, all for None, in the first two latent dimensions, shape (documents, 2)."""
    rows = reranker.basis.rows[:, :2] if docs is None else reranker.basis.rows[docs, :2]
    return np.asarray(rows * reranker.basis.values[:2].astype(np.float32))


def _rounded(points: NDArray[np.floating]) -> list[list[float]]:
    """Points to six digits, which is more than a picture shows: short JSON."""
    return [[float(f"{value:.6g}") for value in point] for point in points.tolist()]


def query_path(reranker: KernelLSA, query: Query, candidates: Candidates) -> tuple[list[int], NDArray[np.float64]]:
    """The query's position in the plane as z grows: (steps of z to show, positions of shape (candidates, 2)).

    Position z - 1 is the mean of the top-z documents, weighted by their scores. `reranker` has the basis.
    """
    query_scores = reranker.query_scores(query, candidates).astype(np.float64)
    order = np.argsort(-query_scores, kind="stable")
    weights = np.maximum(query_scores[order], 0)
    sums = np.cumsum(weights[:, None] * plane(reranker, candidates.docs[order]), axis=0)
    positions = sums / np.maximum(np.cumsum(weights), 1e-12)[:, None]
    return [z for z in Z_STEPS if z <= len(order)], positions
