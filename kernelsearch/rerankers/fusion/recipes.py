"""The recipes of `auto` and of trained fusions, and how they are reduced for an index without positions, basis or vectors."""

from __future__ import annotations

from collections.abc import Sequence

from kernelsearch.core.errors import ArtefactError, OptionError
from kernelsearch.kernels.identifiers import joined_share
from kernelsearch.kernels.ranking_models import POSTERIOR_DOCUMENTS, POSTERIOR_SHARPNESS
from kernelsearch.rerankers.base import OpenedIndex, Part
from kernelsearch.rerankers.fusion.features import parse
from kernelsearch.rerankers.klsa.reranker import fitting_command, has_basis
from kernelsearch.rerankers.mslm.graph import has_graph, training_command
from kernelsearch.vectors.store import names as vector_names
from kernelsearch.vectors.truncation import reliability

#: The parts of a fusion that an index may lack, besides the methods.
RELATED, VECTORS = "related words", "vectors"

#: The match with the query: by positions and related words, by positions alone where a graph of related words takes training,
#: and the first stage's score on an index without positions.
MATCH, POSITIONS, PLAIN = "mslm", "mslm:semantic=0", "first"

#: The match with the title.
TITLE = "bm25:field=title"

#: Feedback by the first stage's scores: a relevance model, the cosine to the best documents, and that in the latent space.
PLAIN_FEEDBACK = ("rm", f"top:docs={POSTERIOR_DOCUMENTS},sharpness={POSTERIOR_SHARPNESS:g}", "klsa:lambda=1")

#: {feature: weight} of the sum of z-scores that a trained fusion starts from: that of `auto` with feedback by the first stage.
AUTO_WEIGHTS = {MATCH: 2.0, TITLE: 1.0, **dict.fromkeys(PLAIN_FEEDBACK, 1.0)}

#: The first stage's certainty, which keeps a document first that scores far above the others.
CERTAINTY_SHARPNESS = 10.0
CERTAINTY = f"posterior:sharpness={CERTAINTY_SHARPNESS:g}"

#: Sharpness of the posterior over documents that the match orders: their order is more reliable than the first stage's, so
#: fewer of them get most of the weight.
READING_SHARPNESS = 10.0


def read_feedback(match: str) -> tuple[str, ...]:
    """The same feedback from the documents that the feature `match` puts first."""
    return (
        f"read:{match}/rm:sharpness={READING_SHARPNESS:g}",
        f"read:{match}/top:docs={POSTERIOR_DOCUMENTS},sharpness={READING_SHARPNESS:g}",
        f"read:{match}/klsa:lambda=1",
    )


def read_certainty(match: str) -> str:
    """The same certainty of the feature `match`."""
    return f"read:{match}/{CERTAINTY}"


READ_FEEDBACK, READ_CERTAINTY = read_feedback(MATCH), read_certainty(MATCH)

#: {feature: weight} of the sum of z-scores of `auto` itself: feedback takes the documents that the match puts first, which
#: takes too long for a training over hundreds of topics. `python -m tools.reproduce.auto` shows how the weights were chosen.
READING_WEIGHTS = {
    MATCH: 2.0,
    TITLE: 1.0,
    **dict.fromkeys(READ_FEEDBACK, 1.5),
    CERTAINTY: 0.25,
    READ_CERTAINTY: 0.5,
}

#: The match with words inside identifiers, its weight on an index of source code, and the share of words joined by separators
#: that makes an index one: prose has less than .0002, Python's standard library .17 (`python -m tools.reproduce.kinds`).
PARTS, PARTS_WEIGHT, CODE_SHARE = "parts", 16.0, 0.06

#: Sharpness of the posterior over documents that are ranked by words and vectors together.
HYBRID_SHARPNESS = 10.0

#: The share of the documents that must have a vector for vectors that no option names: with half of them `auto` was as good
#: as by words alone or better, with fewer worse (docs/reproductions/vectors.md, "Documents without a vector").
ENOUGH_VECTORS = 0.5


def auto_weights(index: OpenedIndex, vectors: str | None) -> dict[str, float]:
    """{feature: weight} of `auto` on `index` with the vectors of that name, by words alone for None; fusion starts there."""
    return reading_weights(index) if vectors is None else hybrid_weights(index, vectors)


def reading_weights(index: OpenedIndex) -> dict[str, float]:
    """{feature: weight} of `auto` on an index without vectors: READING_WEIGHTS, and `parts` where it holds source code."""
    code = joined_share(index.forward) >= CODE_SHARE
    return {**READING_WEIGHTS, PARTS: PARTS_WEIGHT} if code else dict(READING_WEIGHTS)


def hybrid_weights(index: OpenedIndex, vectors: str) -> dict[str, float]:
    """{feature: weight} of `auto` on `index` with the vectors of that name, from which a trained fusion starts, too.

    docs/reproductions/vectors.md says how they were chosen; `python -m tools.reproduce.vectors_weights` measures weights that
    were chosen without the collection. Vectors that have seen a part of the texts, or of the documents, get a lower weight
    (`kernelsearch.vectors.truncation`).
    """
    seen = reliability(index.vectors(vectors).documents, index.forward.lengths, index.forward.live)
    return {
        MATCH: 0.75,
        PLAIN: 0.75,
        f"hybrid:{vectors}/rm:sharpness={HYBRID_SHARPNESS:g}": 1.0,
        f"hybrid:{vectors}/top:docs={POSTERIOR_DOCUMENTS},sharpness={HYBRID_SHARPNESS:g}": 1.0,
        f"hybrid:{vectors}/klsa:lambda=1": 1.0,
        f"hybrid:{vectors}/{CERTAINTY}": 1.0,
        f"dense:{vectors}": 3.0 * seen,
    }


def usable_vectors(index: OpenedIndex, wanted: str | None, method: str) -> tuple[str | None, Part]:
    """The name of the vectors of `index` to use, None for words alone; `wanted` is an option's value, "none" for words alone.

    Vectors that the option names, or that were named when the index was opened, must be usable, otherwise OptionError or
    ArtefactError is raised. Without a name, vectors that can't be used or that most documents lack are left out; the second
    value says why. `method` is the method's name, for the reason.
    """
    name = wanted or index.vector_settings.default_name
    if wanted == "none":
        return None, Part(VECTORS, "turned off by an option")
    if name is None and not vector_names(index.artefacts):
        return None, Part(VECTORS, "the index has none")
    try:
        vectors = index.vectors(name)
        vectors.queries.require()
    except (ArtefactError, OptionError) as problem:
        if name is not None:
            raise
        return None, Part(VECTORS, str(problem))
    present, live = vectors.documents.present, index.forward.live
    if name is None and (present & live).sum() < ENOUGH_VECTORS * live.sum():
        count = (present & live).sum()
        reason = f"{count} of {live.sum()} documents have a vector; --{method}.vectors {vectors.name} uses them"
        return None, Part(VECTORS, reason)
    return vectors.name, Part(f"{VECTORS} {vectors.name}", None)


def available(recipe: Sequence[str], index: OpenedIndex) -> tuple[dict[str, str], list[Part]]:
    """What an index can offer of a recipe: {feature of the recipe: feature in its place}, and the parts that it may lack."""
    offered = {name: name for name in recipe}
    parts = []
    if MATCH in offered:
        parts += _match_parts(index)
        if not index.forward.has_positions:
            instead = dict(zip((MATCH, *READ_FEEDBACK, READ_CERTAINTY), (PLAIN, *PLAIN_FEEDBACK, CERTAINTY), strict=True))
        elif not has_graph(index):
            by_positions = (POSITIONS, *read_feedback(POSITIONS), read_certainty(POSITIONS))
            instead = dict(zip((MATCH, *READ_FEEDBACK, READ_CERTAINTY), by_positions, strict=True))
        else:
            instead = {}
        offered = {name: instead.get(name, name) for name in offered}
    latent = {name for name in offered if parse(name).innermost.kind == "klsa"}
    if latent:
        fitted = has_basis(index)
        parts.append(Part("klsa", None if fitted else f"no latent basis has been fitted; {fitting_command(index)} fits one"))
        offered = {name: place for name, place in offered.items() if fitted or name not in latent}
    return offered, parts


def _match_parts(index: OpenedIndex) -> list[Part]:
    if not index.forward.has_positions:
        reason = "the index stores no positions, so the first stage's score takes its place"
        return [Part(MATCH, reason), Part(RELATED, "they are part of mslm")]
    graph = f"no graph has been trained; {training_command(index)} makes one"
    return [Part(MATCH, None), Part(RELATED, None if has_graph(index) else graph)]
