"""The graph of related words as an artefact of an index: it is built again when documents change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelsearch.core import artefacts
from kernelsearch.core.errors import ArtefactError
from kernelsearch.rerankers.artefact_kinds import ArtefactKind, DocumentChange
from kernelsearch.rerankers.mslm.graph import KIND, VERSION, GraphArtefact, build_graph, validate
from kernelsearch.rerankers.mslm.settings import GraphSettings

#: The source of graphs that follow a change of documents, as `mslm-paper` names it.
COOCCURRENCE = "cooccurrence"


def follow(change: DocumentChange) -> str:
    """Follows `change`: builds the graph again, with the level weights that were learned; returns "", nothing to report."""
    saved = GraphArtefact.load(change.folder, change.old.fingerprint, len(change.old.forward.terms))
    parameters = artefacts.read_meta(change.folder, KIND, VERSION)["parameters"]
    if parameters.get("graph", COOCCURRENCE) != COOCCURRENCE:
        raise ArtefactError(f"its graph was made from {parameters['graph']}, not from the documents", path=change.folder)
    settings = GraphSettings.of({option.key: parameters[option.key] for option in GraphSettings.options})
    graph = build_graph(change.new, settings)
    GraphArtefact(graph, saved.weights, saved.learned_for).save(change.target, parameters, change.new.fingerprint)
    return ""


def has_learned_weights(meta: Mapping[str, Any]) -> bool:
    """Whether the graph with the description `meta` is saved with level weights, which are learned from judgements."""
    return "weights.npy" in meta["files"]


GRAPH = ArtefactKind(
    KIND,
    VERSION,
    "train {flags} --rerank mslm",
    place="mslm*",
    validate=validate,
    follow=follow,
    learned=has_learned_weights,
)
