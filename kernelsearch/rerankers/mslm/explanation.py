"""Why `mslm` ranks a document where it does: the first stage's part, each level's part, and the words' parts within it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.pyramid.query_rows import QueryRows
from kernelsearch.kernels.pyramid.reasons import LevelMatch, level_matches
from kernelsearch.kernels.semantic.graph import sequences
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.rerankers.explanations import Contribution, Explanation, Symbol, Term, Text

if TYPE_CHECKING:
    from kernelsearch.rerankers.mslm.reranker import MultiScaleLM

#: Words listed per level; the others are summed up in one line.
SHOWN_WORDS = 8
#: Positions of the text, from its beginning, whose values the notes hold: what a screen can show.
SHOWN_POSITIONS = 1000


def explain(reranker: MultiScaleLM, query: Query, candidates: Candidates, doc: int) -> Explanation:
    """Contributions that sum to the score of the document in row `doc`; the notes hold each level's words and positions.

    `reranker` is the method; the other parameters are those of `Reranker.explain`.
    """
    rows = reranker.rows(query)
    raw = reranker.matcher.scores(rows, reranker.texts(rows, candidates.docs))
    levels, deviations = reranker.scaled_levels(raw), reranker.deviations(raw)
    combined = reranker.combined_levels(levels)
    place = reranker.place_of(candidates, doc)
    mix = reranker.settings.mix
    first = (1 - mix) * float(zscores(candidates.scores)[place])
    # 0 where all candidates are alike, then nothing is divided by the deviation.
    spread = float((levels @ reranker.level_weights).std()) if combined.any() else 0.0
    matches = level_matches(reranker.matcher, rows, reranker.texts(rows, np.array([doc])))
    text = sequences(reranker.forward, np.array([doc]))[1]
    contributions = [Contribution("first stage", first, "its score, z-scored over the candidates")]
    notes = []
    total = mix * float(combined[place]) + first
    for level, match in enumerate(matches):
        deviation = float(deviations[level])
        # A z-score is linear in the similarity, so a level's part is a sum over its words less the average candidate's.
        factor = mix * float(reranker.level_weights[level]) / (deviation * spread) if deviation * spread > 1e-12 else 0.0
        above = float(levels[place, level] - levels[:, level].mean())
        value = mix * float(reranker.level_weights[level]) * above / spread if spread > 1e-12 else 0.0
        parts = _words(reranker, rows, match, text, factor, value)
        window = list(map(Term, reranker.forward.terms.take(text[slice(*_shown_span(match))])))
        label = _name(match)
        where = f"positions {match.span[0] + 1}-{match.span[1] + 1} of {len(text)}: "
        detail = Text(where, Text.joined(" ", window[:14]), " ..." if len(window) > 14 else "")
        contributions.append(Contribution(label, value, detail, parts))
        records = [
            _record(reranker, rows, match, text, row) | {"lent": _heat(_shares(match, row))} for row in _largest(match).tolist()
        ]
        notes.append(
            {
                "level": label,
                "similarity": match.similarity,
                "positions": [match.span[0] + 1, match.span[1] + 1],
                "window": window,
                "attention": _heat(match.attention),
                "words": records,
            }
        )
    docid = reranker.forward.docids[doc]
    extra = {"levels": notes, "text": list(map(Term, reranker.forward.terms.take(text[:SHOWN_POSITIONS])))}
    return Explanation(reranker.name, docid, total, tuple(contributions), extra)


def _shown_span(match: LevelMatch) -> tuple[int, int]:
    """Beginning and end of the compared positions, as far as they are listed."""
    return match.span[0], min(match.span[1] + 1, match.span[0] + SHOWN_POSITIONS)


def _heat(values: NDArray[np.floating]) -> list[float]:
    """The value of each position, for heat maps, to four digits."""
    return [float(f"{value:.4g}") for value in values[:SHOWN_POSITIONS].tolist()]


def _name(match: LevelMatch) -> Symbol:
    spatial, semantic = ("∞" if math.isinf(scale) else f"{scale:g}" for scale in (match.scale.spatial, match.scale.semantic))
    where = "the whole text" if math.isinf(match.scale.spatial) else f"passages at scale {spatial}"
    return Symbol(f"scale {spatial}, words {semantic}", f"{where}, related words at scale {semantic}")


def _largest(match: LevelMatch) -> NDArray[np.int64]:
    """Rows that a token of the document contributes to, by the size of their part, largest first."""
    order = np.argsort(-np.abs(match.words), kind="stable")
    return np.asarray(order[np.asarray(match.lent.sum(axis=1)).ravel()[order] > 0][:SHOWN_WORDS])


def _shares(match: LevelMatch, row: int) -> NDArray[np.float64]:
    """What each position contributes to a row, shape (positions,)."""
    return np.asarray(match.lent[[row]].toarray()[0], dtype=np.float64)


def _words(
    reranker: MultiScaleLM,
    rows: QueryRows,
    match: LevelMatch,
    text: NDArray[np.int32],
    factor: float,
    value: float,
) -> tuple[Contribution, ...]:
    shown = _largest(match)
    parts = []
    for row in shown:
        record = _record(reranker, rows, match, text, int(row))
        lenders = Text.joined(", ", (Text(Term(name), f" {share:.0%}") for name, share in record["from"].items()))
        kind = "a query word" if record["own"] else Text("related to ", record["for"])
        detail = Text(kind, "; in the text from ", lenders)
        parts.append(Contribution(record["word"], factor * float(match.words[row]), detail))
    rest = factor * (match.similarity - match.background - float(match.words[shown].sum()))
    listed = sum(part.value for part in parts)
    parts.append(Contribution("all other words", rest, "mass that isn't on the words above"))
    parts.append(Contribution("against the average candidate", value - listed - rest))
    return tuple(parts)


def _record(reranker: MultiScaleLM, rows: QueryRows, match: LevelMatch, text: NDArray[np.int32], row: int) -> dict[str, Any]:
    """A row of the pyramid: its word, the query word it is related to, and the document's words that fill it, by share."""
    terms, lent = reranker.forward.terms, _shares(match, row)
    word = int(rows.words[row])
    received = rows.graph.rows(np.array([word]), match.scale.semantic)
    weights = {int(w): float(v) for w, v in zip(received.indices, received.data, strict=True)}
    lender = max(rows.query.tolist(), key=lambda q: weights.get(int(q), 0.0))
    filled = np.flatnonzero(lent)
    lenders, places = np.unique(text[filled], return_inverse=True)
    shares = np.bincount(places, lent[filled] / max(float(lent.sum()), 1e-300))
    largest = {terms[int(lenders[place])]: float(shares[place]) for place in np.argsort(-shares, kind="stable")[:3]}
    best = dict(sorted(largest.items(), key=lambda item: (-item[1], item[0])))
    own = bool(np.any(rows.query == word))
    return {
        "word": Term(terms[word]),
        "own": own,
        "for": Term(terms[int(lender)]),
        "part": float(match.words[row]),
        "from": best,
    }
