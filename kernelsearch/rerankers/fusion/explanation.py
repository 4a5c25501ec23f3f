"""Why a fusion ranks a document where it does: each feature's part of the score, or its place after those with features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.ranking_models import POSTERIOR_SHARPNESS, posterior_weights
from kernelsearch.kernels.tfidf import TfidfVectors
from kernelsearch.rerankers.base import Context, OpenedIndex, position
from kernelsearch.rerankers.explanations import Contribution, Document, Explanation, Feature, feedback_note
from kernelsearch.rerankers.fusion.features.base import CERTAINTY, FEEDBACK, MATCH, WORDS
from kernelsearch.rerankers.fusion.features.evidence import DenseFeature
from kernelsearch.rerankers.fusion.features.reordered import HybridFeature, ReadFeature
from kernelsearch.rerankers.fusion.pool import Pool
from kernelsearch.rerankers.fusion.recipes import CERTAINTY as CERTAINTY_FEATURE
from kernelsearch.rerankers.fusion.recipes import CERTAINTY_SHARPNESS, HYBRID_SHARPNESS, READING_SHARPNESS

if TYPE_CHECKING:
    from kernelsearch.rerankers.fusion.base import FusedReranker

#: The part of a score by which a bound on feedback moves a document up.
BOUND, BOUND_MEANING = "bound", "bound on feedback: near its place by match"


def explain(reranker: FusedReranker[Any], query: Query, candidates: Candidates, doc: int, context: Context) -> Explanation:
    """The features' parts of the score of the document in row `doc`, largest first; they sum to the score.

    Notes: `importance` is {feature: share} of the whole model; `feedback` are the documents that feedback takes for relevant,
    with their weights and how near the document is to each, by words (tf·idf cosine) and by vectors (cosine); with vectors,
    `evidence` is the part of the score that came from words, from vectors, and from feedback that both chose; with the feature
    `posterior`, `certainty` is the document that the first stage puts first and its probability among the best: how much it
    counts against the other evidence, and `decision` says how far feedback goes for the query and why (`decision_note`). A
    document for which the features aren't computed, because it comes after those with features, has only the notes `importance`
    and `feedback`. `reranker` is the method; the other parameters are those of `Reranker.explain`. Raises OptionError for a
    document that is not in the list.
    """
    pool, table, lifts, _ = reranker.fused(query, candidates, context)
    row = position(pool, doc)
    docid = reranker.index.forward.docids[doc]
    features = reranker.features(context)
    shares = reranker.importance()
    importance = {name: round(float(share), 4) for name, share in zip(reranker.recipe, shares, strict=True)}
    notes: dict[str, Any] = {"importance": importance}
    docs, weights = feedback_documents(reranker, query, candidates, context)
    notes["feedback"] = feedback_note(reranker.index.forward, docs, weights)
    vectors = next((feature.vectors.name for feature in features if isinstance(feature, DenseFeature)), None)
    for entry, likeness in zip(
        notes["feedback"]["documents"], neighbour_likeness(reranker.index, doc, docs, vectors), strict=True
    ):
        entry |= likeness
    if row is None:
        after = _after_features(reranker.ranked(query, candidates, context), pool.depth, doc, reranker)
        return Explanation(reranker.name, docid, sum(part.value for part in after), after, notes)
    parts = reranker.learner.contributions(table)[row]
    order = np.argsort(-np.abs(parts), kind="stable")
    ranks = (table > table[row]).sum(axis=0) + 1
    contributions: tuple[Contribution, ...] = tuple(
        Contribution(
            Feature(reranker.recipe[column], features[column].meaning),
            float(parts[column]),
            f"rank {ranks[column]} of {pool.depth} by this feature",
        )
        for column in order
    )
    roles = [(features[column].role, float(parts[column])) for column in order]
    if lift := 0.0 if lifts is None else float(lifts[row]):
        detail = "moves it up: feedback may not put it further below its place by match"
        contributions = (*contributions, Contribution(Feature(BOUND, BOUND_MEANING), lift, detail))
        roles.append((BOUND, lift))
    if vectors is not None:
        evidence = {WORDS: 0.0}
        for feature, part in zip(features, parts, strict=True):
            evidence[feature.evidence] = evidence.get(feature.evidence, 0.0) + float(part)
        notes["evidence"] = {kind: round(value, 4) for kind, value in evidence.items() if kind == WORDS or value}
    if CERTAINTY_FEATURE in reranker.recipe and candidates.depth:
        probability = float(posterior_weights(candidates.scores, sharpness=CERTAINTY_SHARPNESS)[0])
        first = Document(reranker.index.forward.docids[int(candidates.docs[0])])
        notes["certainty"] = {"docid": first, "probability": round(probability, 4)}
        notes["decision"] = decision_note(roles, notes)
    return Explanation(reranker.name, docid, float(parts.sum()) + lift, contributions, notes)


def _after_features(
    ranked: Candidates, depth: int, doc: int, reranker: FusedReranker[Any]
) -> tuple[Contribution, Contribution]:
    """The score of a document of the list `ranked` that comes after the `depth` documents with features."""
    place = position(ranked, doc)
    if place is None:
        docid = reranker.index.forward.docids[doc]
        raise OptionError(
            f"--docid: {docid} is not among the {ranked.depth} documents that {reranker.name} ranks for this query"
        )
    last = float(ranked.scores[depth - 1])
    return (
        Contribution(f"score of the last of {depth} documents with features", last, reranker.others),
        Contribution(f"place {place - depth + 1} after it", float(ranked.scores[place]) - last, "1 less per place"),
    )


def decision_note(roles: Sequence[tuple[str, float]], notes: Mapping[str, Any]) -> dict[str, Any]:
    """How far feedback goes for a query: its part of a document's score beside the other ones, and the reasons.

    `roles` are (role, part of the score) of each feature, and of BOUND where the document was moved up. In the note, `parts`
    are those of the match with the query, of feedback, of the certainty of the first stage and of the match, and of the bound
    on feedback; they sum to the score. `reasons` are sentences from the notes `feedback` and `certainty`, and one about the
    bound.
    """
    groups = {MATCH: 0.0, FEEDBACK: 0.0, CERTAINTY: 0.0}
    for role, part in roles:
        groups[role] = groups.get(role, 0.0) + part
    feedback, certainty = notes["feedback"], notes["certainty"]
    reasons = [
        f"feedback: {len(feedback['documents'])} documents that count as much as {feedback['effective']:g} equal ones",
        f"certainty: the first stage gives {certainty['docid']} a probability of {certainty['probability']:.2f} among its best",
    ]
    if BOUND in groups:
        reasons.append("bound: feedback would have put the document too far below its place by match, so it was moved up")
    return {"parts": {group: round(part, 4) for group, part in groups.items()}, "reasons": reasons}


def add_reason(explanation: Explanation, reason: str) -> None:
    """Adds `reason` to those of the decision of `explanation`; the score is all match where it has none."""
    no_feedback = {"parts": {MATCH: round(explanation.score, 4)}, "reasons": []}
    explanation.notes.setdefault("decision", no_feedback)["reasons"].append(reason)


def feedback_documents(
    reranker: FusedReranker[Any], query: Query, candidates: Candidates, context: Context
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The rows of the documents that feedback takes for relevant, and their posterior weights, best first.

    The best of the first stage; of the match, where the recipe has a `read` feature; where it has a `hybrid` feature, of
    the first stage and vectors together. The parameters are those of `explain`.
    """
    features = reranker.inputs.features(context).features
    listed, sharpness = candidates, POSTERIOR_SHARPNESS
    if (reading := next((feature for feature in features if isinstance(feature, ReadFeature)), None)) is not None:
        listed, sharpness = reading.ranked(Pool(reranker.index, query, candidates))[0].candidates, READING_SHARPNESS
    elif (hybrid := next((feature for feature in features if isinstance(feature, HybridFeature)), None)) is not None:
        pool = reranker.inputs.table(query, candidates, context)[0]
        listed, sharpness = hybrid.ranked(Pool(reranker.index, query, pool))[0].candidates, HYBRID_SHARPNESS
    weights = posterior_weights(listed.scores, sharpness=sharpness)
    return listed.docs[: len(weights)], weights


def neighbour_likeness(index: OpenedIndex, doc: int, docs: NDArray[np.int32], vectors: str | None) -> list[dict[str, float]]:
    """How near the document in row `doc` of `index` is to each of those in the rows `docs`.

    Cosines of tf·idf vectors (`words`) and, unless `vectors` is None, of the vectors of that name (`vectors`).
    """
    rows = np.concatenate([[doc], docs]).astype(np.int32)
    columns = {"words": TfidfVectors(index.forward, rows).mean_cosines(np.ones(1))[1:]}
    if vectors is not None:
        unit = index.vectors(vectors).documents.unit(rows)
        columns["vectors"] = (unit[1:] @ unit[0]).astype(np.float64)
    return [
        {name: round(value, 4) for name, value in zip(columns, values, strict=True)}
        for values in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]
