"""Why `prcl` ranks a document where it does: each classifier's part of the score, and the first stage's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelsearch.core.types import Candidates
from kernelsearch.rerankers.explanations import Contribution, Explanation

if TYPE_CHECKING:
    from kernelsearch.rerankers.prcl.reranker import RelevanceClassifier


def explain(reranker: RelevanceClassifier, candidates: Candidates, doc: int) -> Explanation:
    """The interpolated score of the document in row `doc`, one contribution per classifier and one of the first stage.

    `reranker` is the method; the other parameters are those of `Reranker.explain`.
    """
    probabilities, first = reranker.scaled_scores(candidates)
    place, alpha = reranker.place_of(candidates, doc), reranker.settings.alpha
    count = len(probabilities)
    parts = [
        Contribution(f"classifier {name}", float(alpha * scores[place] / count), f"{scores[place]:.4f} of 1, weight {alpha:g}")
        for name, scores in zip(reranker.settings.classifiers, probabilities, strict=True)
    ]
    parts.append(
        Contribution("first stage", float((1 - alpha) * first[place]), f"{first[place]:.4f} of 1, weight {1 - alpha:g}")
    )
    total = sum(part.value for part in parts)
    return Explanation(reranker.name, reranker.index.forward.docids[doc], total, tuple(parts))
