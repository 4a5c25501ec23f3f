"""Why a fusion ranks a document where it does: each feature's part of the score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.ranking_models import POSTERIOR_SHARPNESS, posterior_weights
from kernelsearch.kernels.tfidf import TfidfVectors
from kernelsearch.rerankers.base import Context, OpenedIndex, position
from kernelsearch.rerankers.explanations import Contribution, Explanation, feedback_note
from kernelsearch.rerankers.fusion.features import HybridFeature, ReadFeature
from kernelsearch.rerankers.fusion.pool import Pool
from kernelsearch.rerankers.fusion.recipes import CERTAINTY, CERTAINTY_SHARPNESS, HYBRID_SHARPNESS, READING_SHARPNESS

if TYPE_CHECKING:
    from kernelsearch.rerankers.fusion.base import FusedReranker

#: Kinds of features that take the best documents for relevant ones.
FEEDBACK_KINDS = ("read", "rm", "rm3", "rocchio", "top", "klsa", "pert")
#: The part of a score by which a bound on feedback moves a document up.
BOUND = "bound"
#: What a kind of feature is made of; other kinds are made of words.
WORDS = "words"
EVIDENCE = {"first": WORDS, "dense": "vectors", "dense-rm": "vectors", "hybrid": "feedback by both", "run": "runs"}


def explain(reranker: FusedReranker[Any], query: Query, candidates: Candidates, doc: int, context: Context) -> Explanation:
    """The features' parts of the score of the document in row `doc`, largest first; they sum to the score.

    Notes: `importance` is {feature: share} of the whole model; `feedback` are the documents that feedback takes for relevant,
    with their weights and how near the document is to each, by words (tf·idf cosine) and by vectors (cosine); with vectors,
    `evidence` is the part of the score that came from words, from vectors, and from feedback that both chose; with the feature
    `posterior`, `certainty` is the document that the first stage puts first and its probability among the best: how much it
    counts against the other evidence, and `decision` says how far feedback goes for the query and why (`decision_note`). Raises
    OptionError for a document that is not among those of the tables. `reranker` is the method; the other parameters are those
    of `Reranker.explain`.
    """
    pool, table = reranker.tables([query], [candidates], context)[0]
    row = position(pool, doc)
    docid = reranker.index.forward.docids[doc]
    if row is None:
        raise OptionError(
            f"{docid} is not among the {pool.depth} documents that {reranker.name} scores for this query; "
            "the others of the list follow them",
            option=Flag("docid"),
        )
    parts = reranker.learner.contributions(table)[row]
    order = np.argsort(-np.abs(parts), kind="stable")
    ranks = (table > table[row]).sum(axis=0) + 1
    contributions = tuple(
        Contribution(reranker.recipe[column], float(parts[column]), f"rank {ranks[column]} of {pool.depth} by this feature")
        for column in order
    )
    if lift := float(reranker.lifts(pool.docs, table)[row]):
        detail = "moves it up: feedback may not put it further below its place by match"
        contributions = (*contributions, Contribution(BOUND, lift, detail))
    shares = reranker.importance()
    importance = {name: round(float(share), 4) for name, share in zip(reranker.recipe, shares, strict=True)}
    notes: dict[str, Any] = {"importance": importance}
    vectors = next((name.partition(":")[2] for name in reranker.recipe if kind_of(name) == "dense"), None)
    if vectors is not None:
        evidence = dict.fromkeys(EVIDENCE.values(), 0.0)
        for name, part in zip(reranker.recipe, parts, strict=True):
            evidence[EVIDENCE.get(kind_of(name), WORDS)] += float(part)
        notes["evidence"] = {kind: round(value, 4) for kind, value in evidence.items() if kind == WORDS or value}
    if CERTAINTY in reranker.recipe and candidates.depth:
        probability = float(posterior_weights(candidates.scores, sharpness=CERTAINTY_SHARPNESS)[0])
        first = reranker.index.forward.docids[int(candidates.docs[0])]
        notes["certainty"] = {"docid": first, "probability": round(probability, 4)}
    docs, weights = feedback_documents(reranker, query, candidates, context)
    notes["feedback"] = feedback_note(reranker.index.forward, docs, weights)
    if "certainty" in notes:
        notes["decision"] = decision_note({part.label: part.value for part in contributions}, notes)
    for entry, likeness in zip(
        notes["feedback"]["documents"], neighbour_likeness(reranker.index, doc, docs, vectors), strict=True
    ):
        entry |= likeness
    return Explanation(reranker.name, docid, float(parts.sum()) + lift, contributions, notes)


def decision_note(parts: Mapping[str, float], notes: Mapping[str, Any]) -> dict[str, Any]:
    """How far feedback goes for a query: its part of a document's score beside the other ones, and the reasons.

    `parts` are {feature: part of the score}, and BOUND where the document was moved up. In the note, `parts` are those of the
    match with the query, of feedback, of the certainty of the first stage and of the match, and of the bound on feedback; they
    sum to the score. `reasons` are sentences from the notes `feedback` and `certainty`, and one about the bound.
    """
    groups = {"match": 0.0, "feedback": 0.0, "certainty": 0.0}
    for name, part in parts.items():
        if name == BOUND:
            group = BOUND
        elif name.rpartition("/")[2] == CERTAINTY:
            group = "certainty"
        else:
            group = "feedback" if kind_of(name) in FEEDBACK_KINDS else "match"
        groups[group] = groups.get(group, 0.0) + part
    feedback, certainty = notes["feedback"], notes["certainty"]
    reasons = [
        f"feedback: {len(feedback['documents'])} documents that count as much as {feedback['effective']:g} equal ones",
        f"certainty: the first stage gives {certainty['docid']} a probability of {certainty['probability']:.2f} among its best",
    ]
    if BOUND in groups:
        reasons.append("bound: feedback would have put the document too far below its place by match, so it was moved up")
    return {"parts": {group: round(part, 4) for group, part in groups.items()}, "reasons": reasons}


def kind_of(name: str) -> str:
    """The kind of the feature `name`: `bm25` for `bm25:k1=2`."""
    return name.partition(":")[0]


def feedback_documents(
    reranker: FusedReranker[Any], query: Query, candidates: Candidates, context: Context
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The rows of the documents that feedback takes for relevant, and their posterior weights, best first.

    The best of the first stage; of the match, where the recipe has a `read` feature; where it has a `hybrid` feature, of
    the first stage and vectors together. The parameters are those of `explain`.
    """
    features = reranker.features(context).features
    listed, sharpness = candidates, POSTERIOR_SHARPNESS
    if (reading := next((feature for feature in features if isinstance(feature, ReadFeature)), None)) is not None:
        listed, sharpness = reading.ranked(Pool(reranker.index, query, candidates))[0].candidates, READING_SHARPNESS
    elif (hybrid := next((feature for feature in features if isinstance(feature, HybridFeature)), None)) is not None:
        pool = reranker.pool_tables([query], [candidates], context)[0][0]
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
