"""The fitted state of `mslm`: the graph of related words, how it is built, and the folder that holds it with level weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import artefacts, invariants
from kernelsearch.core.errors import ArtefactError, InputError
from kernelsearch.core.execution import Engine, LocalEngine
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.kernels.semantic.graph import BLOCK, PAIRS, SemanticGraph, cooccurrence_graph
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.mslm.settings import GraphSettings, MultiScaleFitSettings

logger = logging.getLogger(__name__)

KIND, VERSION = "semantic graph", 1
#: Where no graph was trained, one is built on first use for collections of at most this many tokens: ten seconds at most.
SMALL = 2_000_000


@dataclass(frozen=True)
class GraphArtefact:
    """A graph of related words and, where they were learned, level weights (levels,) with the options they depend on."""

    graph: SemanticGraph
    weights: NDArray[np.float64] | None = None
    learned_for: Mapping[str, Any] | None = None

    def save(self, path: Path, parameters: Mapping[str, Any], fingerprint: str) -> None:
        """Saves it as the artefact `path`, with the options of training, `parameters`, and the fingerprint of the index."""
        graph = self.graph
        arrays: dict[str, NDArray[Any]] = {"indptr": graph.indptr, "indices": graph.indices, "distances": graph.distances}
        extra: dict[str, Any] = {"words": graph.words, "edges": graph.edges}
        if self.weights is not None:
            arrays["weights"] = self.weights
            extra["learned_for"] = self.learned_for
        artefacts.save(path, KIND, VERSION, arrays=arrays, parameters=dict(parameters), fingerprint=fingerprint, extra=extra)

    @classmethod
    def load(cls, path: Path, fingerprint: str, words: int) -> GraphArtefact:
        """Reads the graph `path`, memory-mapped; ArtefactError where it is missing, damaged or not of this index.

        `fingerprint` and `words` are the index's fingerprint and the number of its terms.
        """
        meta, arrays = artefacts.load(path, KIND, VERSION, fingerprint=fingerprint, validate=validate)
        # Plain arrays over the same mapped memory: every small slice of a numpy.memmap is several times slower.
        indptr, indices, distances = (np.asarray(arrays[name]) for name in ("indptr", "indices", "distances"))
        graph = SemanticGraph(int(meta["extra"]["words"]), indptr, indices, distances)
        if graph.words != words or len(graph.indptr) != graph.words + 1:
            raise ArtefactError("the graph's words aren't the index's; build it again", path=path)
        weights = np.asarray(arrays["weights"]) if "weights" in arrays else None
        return cls(graph, weights, meta["extra"].get("learned_for"))


def validate(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError or KeyError for a graph (`meta`) whose `arrays` don't fit each other or have numbers out of range."""
    words = int(meta["extra"]["words"])
    invariants.require_length("indptr", arrays["indptr"], words + 1)
    invariants.require_offsets("indptr", arrays["indptr"], len(arrays["indices"]))
    invariants.require_range("indices", arrays["indices"], 0, words)
    invariants.require_length("distances", arrays["distances"], len(arrays["indices"]))
    invariants.require_finite("distances", arrays["distances"])
    if "weights" in arrays:
        invariants.require_finite("weights", arrays["weights"])


def build_graph(
    index: OpenedIndex, settings: GraphSettings, limit: MemoryLimit | None = None, engine: Engine | None = None
) -> SemanticGraph:
    """The graph of the words of `index` that occur together, as the training options `settings` ask for.

    `limit` bounds the memory of counting co-occurrences, `engine` runs the tasks.
    """
    pairs, block = (PAIRS, BLOCK) if limit is None else (min(PAIRS, limit.pairs), min(BLOCK, limit.tokens(settings.window)))
    mapper = partial((engine or LocalEngine()).map, label="graph")
    values = settings.to_dict()
    parameters = {option.key: values[option.key] for option in GraphSettings.options}
    return cooccurrence_graph(index.forward, max_pairs=pairs, block=block, mapper=mapper, **parameters)


def has_graph(index: OpenedIndex) -> bool:
    """Whether mslm can use related words without training: a graph is trained, or the index is small enough for a quick one."""
    return (index.artefacts / "mslm" / "meta.json").exists() or index.forward.statistics.tokens <= SMALL


def quick_graph(index: OpenedIndex) -> SemanticGraph:
    """The graph of a small index, saved for the next time where its folder can be written.

    Raises ArtefactError for an index that is not small.
    """
    path, command = index.artefacts / "mslm", training_command(index)
    if not has_graph(index):
        raise ArtefactError(f"no graph of related words here; {command} builds it", path=path)
    logger.info("mslm: building a graph of related words (once; `%s` does it with other settings)", command)
    settings = MultiScaleFitSettings()
    graph = build_graph(index, settings)
    try:
        GraphArtefact(graph).save(path, settings.to_dict(), index.fingerprint)
    except InputError as problem:
        logger.info("mslm: the graph is not saved: %s", problem)
    return graph


def training_command(index: OpenedIndex) -> str:
    """The command that trains mslm on `index`."""
    return f"python -m kernelsearch.train {index.shards.flags} --rerank mslm"
